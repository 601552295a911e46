//! The `tri` command: a launcher for the tools of llama.cpp, and what keeps the plugin in order.
//!
//! One executable with several names. Called by any name but `tri` it is the launcher for the tool of that name. It links
//! no ggml, so that `tri doctor` runs on a broken machine.

mod args;
mod builds;
mod change;
mod child;
mod devices;
mod doctor;
mod drivers;
mod find;
mod flags;
mod ggml;
mod gpu;
mod install;
mod launch;
mod logging;
mod machine;
mod manifest;
mod plan;
mod prefix;
mod profile;
mod settings;
mod stop;
mod tools;
mod uninstall;

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use ggml_tri::config::Config;
use ggml_tri::config::host::Host;
use ggml_tri::probe;

use args::{Action, Doctor, Install, Place, Probe, ProfileAction, Tri};
use stop::Stop;

fn main() -> ExitCode {
    let host = Host::read();
    match run(&host) {
        Ok(code) => ExitCode::from(code),
        Err(stop) => {
            eprintln!("tri: {stop}");
            ExitCode::from(stop.code)
        }
    }
}

/// Does what the command line says; the number is the exit code.
fn run(host: &Host) -> Result<u8, Stop> {
    let own = host.args.first().map_or(OsStr::new("tri"), |name| name.as_os_str());
    let name = Path::new(own).file_name().unwrap_or(own);
    if name != "tri" {
        return Err(launch::launch(host, name, own, &host.args[1..]));
    }
    // The tool's arguments are bytes that are not ours to interpret, so they go past the parser.
    match &host.args[..] {
        [_, run, tool, args @ ..] if run == "run" && !tool.as_encoded_bytes().starts_with(b"-") => {
            return Err(launch::launch(host, tool, tool, args));
        }
        _ => {}
    }
    match Tri::parse_from(&host.args).action {
        Action::Run(_) => Err(Stop::usage("'tri run' needs the name of a tool, for example 'tri run llama-server'.")),
        Action::Doctor(options) => doctor(host, options),
        Action::Install(options) => install(host, options),
        Action::Uninstall(place) => uninstall(host, place),
        Action::Profile(action) => profile(&action),
        Action::Plan(options) => {
            let answer = plan::plan(&options)?;
            if options.json {
                return show_json(&answer).map(|()| 0);
            }
            Ok(show(&answer.text()))
        }
        Action::Probe(Probe::Library { file, symbol }) => {
            let answer = probe::in_child(&file, &symbol);
            answer.map(|text| show(&text)).map_err(|e| Stop::failed(e.to_string()))
        }
        Action::Probe(Probe::Vulkan) => {
            let answer = probe::vulkan::ask().map_err(Stop::failed)?;
            show(&json(&answer, serde_json::to_string)?);
            Ok(0)
        }
    }
}

/// Prints a text on stdout; a reader that went away is no failure.
fn show(text: &str) -> u8 {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
    0
}

/// A value as JSON, written by a function of serde_json.
fn json<T>(value: &T, write: fn(&T) -> serde_json::Result<String>) -> Result<String, Stop> {
    write(value).map_err(|e| Stop::failed(format!("No JSON could be made ({e}).")))
}

/// Prints a value as JSON.
fn show_json(value: &impl serde::Serialize) -> Result<(), Stop> {
    show(&json(value, serde_json::to_string_pretty)?);
    Ok(())
}

fn doctor(host: &Host, options: Doctor) -> Result<u8, Stop> {
    if options.env {
        return match (options.markdown, options.json) {
            (true, _) => Ok(show(&settings::markdown())),
            (_, true) => show_json(&settings::all(host)).map(|()| 0),
            _ => Ok(show(&settings::text(host))),
        };
    }
    let report = doctor::examine(host, options.llama_dir, Path::new("/"));
    if options.json {
        show_json(&report)?;
        return Ok(report.exit);
    }
    let mut text = String::new();
    for check in &report.checks {
        let mark = match check.state {
            doctor::State::Ok => "ok     ",
            doctor::State::Failed => "FAILED ",
            doctor::State::Unknown => "unknown",
            doctor::State::Fact => "       ",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{mark} {:<20} {}", check.name, check.found);
        if let Some(remedy) = &check.remedy {
            let _ = writeln!(text, "        {:<20} remedy: {remedy}", "");
        }
    }
    show(&text);
    Ok(report.exit)
}

fn profile(action: &ProfileAction) -> Result<u8, Stop> {
    match profile::run(action)? {
        profile::Output::Export(export) => show_json(&export).map(|()| 0),
        profile::Output::Report(report) if action.json() => show_json(&report).map(|()| 0),
        profile::Output::Report(report) => Ok(show(&profile::text(&report))),
    }
}

fn install(host: &Host, options: Install) -> Result<u8, Stop> {
    let config = Config::get().map_err(|e| Stop::usage(e.to_string()))?;
    logging::start(config.log);
    let prefix = prefix::of(host, options.place.prefix)?;
    let report = install::install(&prefix, &find::own()?, &options.plugin)?;
    if options.place.json {
        show_json(&report)?;
    } else {
        let (written, unchanged) = (report.written.len(), report.unchanged.len());
        show(&format!("{}: {written} written, {unchanged} unchanged.", report.prefix.display()));
    }
    let bin = prefix.join("bin");
    let first = std::path::absolute(&bin).unwrap_or(bin);
    if !launch::places(host).leads(&first, OsStr::new("llama-server")) {
        log::warn!(
            "{} is not on PATH before the real tools: put it first ('export PATH={}:$PATH'), or use 'tri run TOOL'.",
            first.display(),
            first.display()
        );
    }
    Ok(0)
}

fn uninstall(host: &Host, place: Place) -> Result<u8, Stop> {
    let prefix = prefix::of(host, place.prefix)?;
    let report = uninstall::uninstall(&prefix)?;
    if place.json {
        show_json(&report)?;
    } else {
        match report.removed.len() + report.left.len() {
            0 => show(&format!(
                "{}: nothing of ggml-tri is installed there; '--prefix DIR' names another place.",
                prefix.display()
            )),
            _ => show(&format!("{}: {} removed.", prefix.display(), report.removed.len())),
        };
    }
    if report.left.is_empty() {
        return Ok(0);
    }
    Err(Stop::failed(format!(
        "Changed after the installation and left under {}: {}. Remove them yourself if you do not need them.",
        prefix.display(),
        report.left.join(", ")
    )))
}
