//! For tests: what they skip, and files that stand for a machine.

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

/// A file system of these (path, text), in a folder of its own.
pub fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary folder can be made");
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a folder can be made");
        std::fs::write(path, text).expect("a file can be written");
    }
    root
}
