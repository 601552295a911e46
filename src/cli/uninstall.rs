//! `tri uninstall`: removes exactly what `tri install` put under a prefix.

use std::fs;
use std::path::{Path, PathBuf};

use super::manifest::{Manifest, PLACE, What};
use super::prefix;
use super::stop::Stop;

/// What an uninstallation did.
#[derive(Debug, serde::Serialize)]
pub struct Report {
    /// The prefix.
    pub prefix: PathBuf,
    /// Paths under the prefix that were removed.
    pub removed: Vec<String>,
    /// Paths under the prefix that were changed after the installation and are left.
    pub left: Vec<String>,
}

/// Removes every file that is still as it was installed, the record, and the folders that are empty then.
///
/// # Errors
/// The record is damaged, or a file cannot be removed; the rest is kept on record then.
pub fn uninstall(prefix: &Path) -> Result<Report, Stop> {
    let mut report = Report { prefix: prefix.to_owned(), removed: Vec::new(), left: Vec::new() };
    let held = prefix::hold_present(prefix)
        .map_err(|e| Stop::failed(format!("{} cannot be read ({e}): run as a user who may.", prefix.display())))?;
    let Some(held) = held else { return Ok(report) };
    prefix::sweep(&held, prefix);
    let manifest = Manifest::read(prefix)?;
    for (at, entry) in manifest.entries.iter().enumerate() {
        // An installation that broke off has the old and the new of one path on record.
        if manifest.entries[..at].iter().any(|earlier| earlier.path == entry.path) {
            continue;
        }
        let path = prefix.join(&entry.path);
        let failed = |e| Stop::failed(format!("{} cannot be removed ({e}): run as a user who may.", path.display()));
        match What::at(&path).map_err(failed)? {
            None => {}
            Some(now) if manifest.knows(&entry.path, &now) => {
                fs::remove_file(&path).map_err(failed)?;
                report.removed.push(entry.path.clone());
            }
            Some(_) => report.left.push(entry.path.clone()),
        }
    }
    let record = prefix.join(PLACE);
    if record.is_file() {
        fs::remove_file(&record).map_err(|e| {
            Stop::failed(format!("{} cannot be removed ({e}): run as a user who may.", record.display()))
        })?;
    }
    for folder in manifest.folders.iter().rev() {
        // A folder in which something else lies by now stays, and so do the folders around it.
        let _ = fs::remove_dir(prefix.join(folder));
    }
    Ok(report)
}
