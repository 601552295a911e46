//! `tri profile`: what TRI0 learned about this machine's chips, shown, carried to another machine, or forgotten.

use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use ggml_tri::chip::fingerprint::Part;
use ggml_tri::config::{Config, Keep};
use ggml_tri::profile::{Exported, Imported, Known, Profile, Trouble};
use serde::Serialize;

use super::args::ProfileAction;
use super::logging;
use super::stop::Stop;

/// The largest export that is read, in bytes: as large as the profile itself can become.
const LARGEST: u64 = 64 << 20;

/// What `tri profile` says, as text or as JSON.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The file.
    pub file: PathBuf,
    /// What was asked for.
    #[serde(flatten)]
    pub answer: Answer,
}

/// The answer of one subcommand.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// What is known.
    Chips(Vec<Known>),
    /// How many fingerprints were written.
    Exported(usize),
    /// What was taken over.
    Imported(Imported),
    /// How many fingerprints were forgotten.
    Forgotten(usize),
}

/// What there is to print: a report, or the export itself.
pub enum Output {
    /// A report.
    Report(Report),
    /// An export that goes to stdout.
    Export(Exported),
}

/// Does what `tri profile` was asked.
///
/// # Errors
/// There is no profile, it cannot be used, or the input is none.
pub fn run(action: &ProfileAction) -> Result<Output, Stop> {
    let config = Config::get().map_err(|e| Stop::usage(e.to_string()))?;
    logging::start(config.log);
    if config.profile == Keep::Off {
        return Err(Stop::failed("TRI_PROFILE is 'off', so there is no profile: unset it, or set it to a file."));
    }
    let profile = Profile::open(&config.profile);
    let report = |answer| Output::Report(Report { file: profile.path().to_owned(), answer });
    Ok(match action {
        ProfileAction::Show(_) => report(Answer::Chips(profile.known().map_err(stop)?)),
        ProfileAction::Export { file, .. } => {
            let export = profile.export().map_err(stop)?;
            let Some(file) = file else { return Ok(Output::Export(export)) };
            let text = super::json(&export, serde_json::to_string_pretty)?;
            fs::write(file, text + "\n").map_err(|e| unreadable(file, &e))?;
            report(Answer::Exported(export.chips()))
        }
        ProfileAction::Import { file, .. } => {
            let export = Exported::parse(&read(file)?)
                .map_err(|e| Stop::failed(format!("{}: {e}. Nothing was changed.", file.display())))?;
            report(Answer::Imported(profile.import(&export).map_err(stop)?))
        }
        ProfileAction::Reset { yes, .. } => {
            let known = profile.known().map_err(stop)?.len();
            if !yes {
                return Err(Stop::usage(format!(
                    "this forgets what {} knows under {known} fingerprints: say '--yes' if that is meant ('tri profile \
                     export FILE' keeps a copy).",
                    profile.path().display()
                )));
            }
            profile.reset().map_err(stop)?;
            report(Answer::Forgotten(known))
        }
    })
}

fn stop(trouble: Trouble) -> Stop {
    Stop::failed(format!("{trouble}."))
}

fn unreadable(file: &Path, error: &std::io::Error) -> Stop {
    Stop::failed(format!("{} cannot be used ({error}): name another file.", file.display()))
}

/// The text of a file, or of stdin for `-`.
fn read(file: &Path) -> Result<String, Stop> {
    let failed = |e: std::io::Error| unreadable(file, &e);
    let mut source: Box<dyn Read> = match file == Path::new("-") {
        true => Box::new(std::io::stdin()),
        false => Box::new(fs::File::open(file).map_err(failed)?),
    };
    let mut text = String::new();
    let length = source.by_ref().take(LARGEST + 1).read_to_string(&mut text).map_err(failed)?;
    if length as u64 > LARGEST {
        return Err(Stop::failed(format!("{} has more than {LARGEST} bytes: no profile has.", file.display())));
    }
    Ok(text)
}

/// A report for a terminal.
pub fn text(report: &Report) -> String {
    let file = report.file.display();
    match &report.answer {
        Answer::Chips(chips) if chips.is_empty() => format!("{file}: nothing is known yet."),
        Answer::Chips(chips) => {
            let paragraphs: Vec<_> = chips.iter().map(paragraph).collect();
            format!("{file}\n\n{}", paragraphs.join("\n"))
        }
        Answer::Exported(1) => format!("{file}: what is known under 1 fingerprint was written."),
        Answer::Exported(n) => format!("{file}: what is known under {n} fingerprints was written."),
        Answer::Imported(Imported { costs, decisions, kept }) => {
            format!("{file}: {costs} costs and {decisions} decisions taken over, {kept} known as well or better.")
        }
        Answer::Forgotten(n) => format!("{file}: what was known under {n} fingerprints is forgotten."),
    }
}

/// One fingerprint: the chip, what ran it, what is known.
fn paragraph(known: &Known) -> String {
    let mut text = String::new();
    let hardware: Vec<_> = known.parts.parts().filter(|(part, _)| part.hardware() && *part != Part::Isa).collect();
    let chip: Vec<_> = hardware.iter().map(|(part, text)| format!("{} {text}", part.name())).collect();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}", chip.join(" | "));
    let software = known.parts.parts().filter(|(part, _)| !part.hardware());
    let software: Vec<_> = software.map(|(part, text)| format!("{} {text}", part.name())).collect();
    let _ = writeln!(text, "  with       {}", software.join(", "));
    let _ = writeln!(text, "  learned    {} to {}", day(known.since), day(known.last));
    for (engine, amount) in &known.engines {
        let _ = writeln!(text, "  {engine:<10} {} costs from {} measurements", amount.costs, amount.samples);
    }
    let _ = writeln!(text, "  decisions  {}", known.decisions);
    text
}

/// The day of a time, in UTC.
fn day(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    time.map_or_else(|| "?".to_owned(), |time| time.strftime("%Y-%m-%d").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_a_date() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(1_709_164_800), "2024-02-29");
        assert_eq!(day(u64::MAX), "?");
    }
}
