//! A prefix as `tri install` and `tri uninstall` hold it: by one of them at a time, and without the rest of a call that
//! broke off.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ggml_tri::config::host::Host;

use super::builds::INSTALLED;
use super::manifest::PLACE;
use super::stop::Stop;
use super::tools;

/// What stands in the name of a file that waits to be swapped in.
const WAITING: &str = ".tri-new";

/// The prefix that was given, else /usr/local for root and ~/.local for others.
///
/// # Errors
/// Neither is known.
pub fn of(host: &Host, given: Option<PathBuf>) -> Result<PathBuf, Stop> {
    if let Some(prefix) = given {
        return Ok(prefix);
    }
    // The owner of /proc/self is the user that this process acts as.
    if fs::metadata("/proc/self").is_ok_and(|owner| owner.uid() == 0) {
        return Ok(PathBuf::from("/usr/local"));
    }
    let home = host.path("HOME").ok_or_else(|| Stop::usage("HOME is not set: say where with --prefix DIR."))?;
    Ok(home.join(".local"))
}

/// The right to change a prefix; other calls of `tri install` and `tri uninstall` wait until it is dropped.
///
/// The lock lies on the prefix folder itself, so no lock file is left behind. The system frees it when a process dies.
pub struct Held {
    /// Whether the folder was made for this.
    pub made: bool,
    _folder: File,
}

/// Waits for a prefix, and makes its folder if it is missing.
///
/// # Errors
/// The folder cannot be made or read.
pub fn hold(prefix: &Path) -> io::Result<Held> {
    let mut made = false;
    loop {
        if !prefix.is_dir() {
            fs::create_dir_all(prefix)?;
            made = true;
        }
        if let Some(folder) = lock(prefix)? {
            return Ok(Held { made, _folder: folder });
        }
    }
}

/// Waits for a prefix; `None` if there is no such folder.
///
/// # Errors
/// The folder cannot be read.
pub fn hold_present(prefix: &Path) -> io::Result<Option<Held>> {
    while prefix.is_dir() {
        if let Some(folder) = lock(prefix)? {
            return Ok(Some(Held { made: false, _folder: folder }));
        }
    }
    Ok(None)
}

/// The locked folder; `None` if it went away meanwhile.
fn lock(prefix: &Path) -> io::Result<Option<File>> {
    let folder = match File::open(prefix) {
        Ok(folder) => folder,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    if let Err(e) = folder.lock() {
        // Some network file systems lock no folders.
        log::warn!("{} cannot be locked ({e}): run one 'tri install' at a time there.", prefix.display());
    }
    // An uninstallation that held the lock before may have removed the folder, and another call may have made a new one.
    let (ours, now) = (folder.metadata()?, fs::metadata(prefix));
    Ok(now.is_ok_and(|now| (now.dev(), now.ino()) == (ours.dev(), ours.ino())).then_some(folder))
}

/// The name under which a file of this process waits to be swapped in.
pub fn staged(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}{WAITING}.{}", std::process::id()))
}

/// Removes the files that wait for nobody: whoever holds the prefix knows that the call that staged them broke off.
pub fn sweep(_held: &Held, prefix: &Path) {
    let record = Path::new(PLACE);
    let shelf = prefix.join(record.parent().unwrap_or(Path::new("")));
    let mut names: Vec<_> = tools::linked().map(OsString::from).collect();
    names.extend(["tri".into(), INSTALLED.into()]);
    names.extend(record.file_name().map(OsString::from));
    let builds = entries(&shelf).into_iter().filter(|path| path.is_dir() && !path.is_symlink());
    for folder in [prefix.join("bin"), shelf.clone()].into_iter().chain(builds) {
        for path in entries(&folder).into_iter().filter(|path| names.iter().any(|name| waits_for(path, name))) {
            // What cannot be removed now is tried again by the next call.
            let _ = fs::remove_file(path);
        }
    }
}

/// Whether this is the waiting name of a file of that name, of this or an older version.
fn waits_for(path: &Path, name: &OsStr) -> bool {
    let waiting = path.file_name().unwrap_or_default().to_string_lossy();
    let rest = waiting.strip_prefix('.').and_then(|rest| rest.strip_prefix(&*name.to_string_lossy()));
    let Some(rest) = rest.and_then(|rest| rest.strip_prefix(WAITING)) else { return false };
    rest.is_empty() || rest.strip_prefix('.').is_some_and(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_waiting_files_of_ours_are_swept() {
        let prefix = tempfile::tempdir().unwrap();
        let path = |below: &str| prefix.path().join(below);
        fs::create_dir_all(path("lib/ggml-tri/0.26.0")).unwrap();
        fs::create_dir(path("bin")).unwrap();
        let ours = [
            "bin/.tri.tri-new",
            "bin/.llama-cli.tri-new.17",
            "lib/ggml-tri/.installed.json.tri-new.1",
            "lib/ggml-tri/0.26.0/.libggml-tri.so.tri-new.2",
        ];
        let foreign = ["bin/tri", "bin/.tri.tri-newer", "bin/.other.tri-new", "bin/.tri.tri-new.x", "bin/tri.tri-new"];
        for file in ours.iter().chain(&foreign) {
            fs::write(path(file), "").unwrap();
        }
        sweep(&hold(prefix.path()).unwrap(), prefix.path());
        assert!(ours.iter().all(|file| !path(file).exists()) && foreign.iter().all(|file| path(file).exists()));
        assert!(waits_for(&staged(&path("bin/tri")), OsStr::new("tri")));
    }

    #[test]
    fn a_prefix_is_held_by_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("a/prefix");
        assert!(hold_present(&prefix).unwrap().is_none());
        let held = hold(&prefix).unwrap();
        assert!(held.made && File::open(&prefix).unwrap().try_lock().is_err());
        drop(held);
        assert!(!hold_present(&prefix).unwrap().unwrap().made);
    }
}
