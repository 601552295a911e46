//! For tests: what they skip.

use std::io::Write;

/// Says on stderr that tests were skipped, and notes it in the file that `E2E_SKIPS` names, whose lines `scripts/test` counts.
pub fn skipped(what: &str) {
    let line = format!("SKIPPED: {what}\n");
    eprint!("{line}");
    if let Some(file) = std::env::var_os("E2E_SKIPS") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
        file.and_then(|mut f| f.write_all(line.as_bytes())).expect("the file of skipped tests can be written");
    }
}
