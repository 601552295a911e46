//! The report for a terminal.

use std::fmt::Write as _;

use super::report::{EngineLine, Report, SiteLine};
use super::sites::ranges;
use super::units::{bytes, joule, operations, percent, time};

/// The report as text.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    let mut line = |words: std::fmt::Arguments| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{words}");
    };
    let (model, chip) = (&report.model, &report.chip);
    let name = if model.name.is_empty() { &model.file } else { &model.name };
    let millions = model.elements as f64 / 1e6;
    line(format_args!(
        "{}: {}, {} layers, {millions:.0} M weights in {}",
        printable(name),
        printable(&model.architecture),
        model.layers,
        bytes(model.bytes as f64)
    ));
    line(format_args!("{}: {}", chip.name, chip.origin));
    let guesses = chip.sources.iter().filter(|source| source.guess).count();
    line(format_args!(
        "Everything below is predicted, nothing is measured; {guesses} of the chip's {} numbers are guesses (--json lists them).",
        chip.sources.len()
    ));
    for note in chip.notes.iter().chain(&model.notes) {
        line(format_args!("Note: {}", printable(note)));
    }
    let tokens = if report.width == 1 { "1 token".to_owned() } else { format!("{} tokens", report.width) };
    let (ms, rate) = (time(report.seconds), report.tokens_per_second);
    line(format_args!(
        "\nA pass of {tokens} at {} positions, for {}: {ms}, {rate:.1} tokens/s, {} (predicted)",
        report.context,
        report.objective,
        joule(report.joules)
    ));
    if report.rest > 0.0 {
        line(format_args!("Before each pass it rests {}, so that the chip cools down.", time(report.rest)));
    }
    if report.passes > 0 {
        let first = time(report.first_seconds);
        line(format_args!(
            "The planner begins with another plan ({first}) and has this one after {} passes.",
            report.passes
        ));
    }
    line(format_args!(
        "\n{}",
        table(&["engine", "processor", "busy", "memory", "arithmetic"], report.engines.iter().map(engine))
    ));
    line(format_args!(
        "{}",
        table(&["engine", "what", "size", "layers", "each", "together"], report.sites.iter().map(site))
    ));
    line(format_args!("Why"));
    for sentence in &report.why {
        line(format_args!("  {}", printable(sentence)));
    }
    text
}

fn engine(line: &EngineLine) -> Vec<String> {
    if line.busy == 0.0 {
        return [line.engine, &line.name, "not used"].map(str::to_owned).to_vec();
    }
    let reached = |amount: f64, share: f64, peak: f64, unit: fn(f64) -> String| {
        format!("{}/s, {} of {}/s", unit(amount / line.busy), percent(share), unit(peak))
    };
    vec![
        line.engine.to_owned(),
        line.name.clone(),
        time(line.busy),
        reached(line.bytes, line.bandwidth_share, line.bandwidth, bytes),
        reached(line.operations, line.operations_share, line.rate, operations),
    ]
}

fn site(line: &SiteLine) -> Vec<String> {
    let nodes =
        if line.layers.is_empty() && line.count > 1 { format!(" ({} nodes)", line.count) } else { String::new() };
    let rows = line.rows.map_or(String::new(), |rows| format!(", {rows} rows"));
    vec![
        line.engine.to_owned(),
        format!("{}{nodes}{rows}", line.name),
        line.work.clone(),
        ranges(&line.layers),
        time(line.seconds / line.count.max(1) as f64),
        time(line.seconds),
    ]
}

/// Columns as wide as their widest cell.
fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let head = head.iter().map(|cell| (*cell).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let wide = |i: usize| rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(wide).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text += &format!("  {}\n", cells.join("  ").trim_end());
    }
    text
}

/// A text of a file, without characters that could drive a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_needed_and_lines_end_without_blanks() {
        let rows = [vec!["a".to_owned(), "long cell".to_owned()], vec!["bb".to_owned(), String::new()]];
        assert_eq!(table(&["x", "y"], rows.into_iter()), "  x   y\n  a   long cell\n  bb\n");
    }

    #[test]
    fn a_name_in_a_file_cannot_drive_the_terminal() {
        assert_eq!(printable("a\u{1b}[2J\nb"), "a [2J b");
    }
}
