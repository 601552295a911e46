//! Finds the real llama.cpp tool behind a name, passing over `tri` itself.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::stop::{NOT_FOUND, Stop};

/// Where this process's own executable is found, whatever name it was called by.
const SELF: &str = "/proc/self/exe";

/// The executable of this process, links resolved.
///
/// # Errors
/// `/proc` is not mounted.
pub fn own() -> Result<PathBuf, Stop> {
    fs::read_link(SELF).map_err(|e| Stop::failed(format!("{SELF} cannot be read ({e}): mount /proc.")))
}

/// Where a tool is looked for.
#[derive(Debug, Clone)]
pub struct Places {
    /// `TRI_LLAMA_DIR`: if set, the only place, itself or its folder `bin`.
    pub folder: Option<PathBuf>,
    /// `PATH`.
    pub path: OsString,
}

impl Places {
    /// The real tool: `tool` itself when it is a path, else the first match that is not `tri`.
    ///
    /// # Errors
    /// Nothing is found; the message says where it was looked for.
    pub fn find(&self, tool: &OsStr) -> Result<PathBuf, Stop> {
        let name = tool.to_string_lossy();
        let not_found = |message| Err(Stop { code: NOT_FOUND, message });
        if tool.as_bytes().contains(&b'/') {
            let path = PathBuf::from(tool);
            return match real(&path) {
                true => Ok(path),
                false => not_found(format!("'{name}' is not an executable file other than tri: name the real tool.")),
            };
        }
        if let Some(folder) = &self.folder {
            let places = [folder.join(tool), folder.join("bin").join(tool)];
            return match places.into_iter().find(|path| real(path)) {
                Some(path) => Ok(path),
                None => not_found(format!(
                    "TRI_LLAMA_DIR='{}' has no real '{name}': point it to the folder of the llama.cpp tools, or unset it \
                     to search PATH.",
                    folder.display()
                )),
            };
        }
        match self.folders().map(|folder| folder.join(tool)).find(|path| real(path)) {
            Some(path) => Ok(path),
            None => not_found(format!(
                "No real '{name}' stands on PATH='{}': install llama.cpp, or set TRI_LLAMA_DIR to the folder of its tools.",
                self.path.to_string_lossy()
            )),
        }
    }

    /// Whether a call of `tool` by its name alone runs the one in `folder`.
    pub fn leads(&self, folder: &Path, tool: &OsStr) -> bool {
        self.folders().find(|entry| entry.join(tool).is_file()).is_some_and(|first| first == folder)
    }

    /// The folders of `PATH`; an empty entry means the current one, as for the shell.
    fn folders(&self) -> impl Iterator<Item = &Path> {
        self.path.as_bytes().split(|b| *b == b':').map(|entry| match entry {
            b"" => Path::new("."),
            entry => Path::new(OsStr::from_bytes(entry)),
        })
    }
}

/// Whether this is an executable file and not `tri`.
///
/// The same file is the same device and inode, through symbolic and hard links alike. A link to another copy of `tri`,
/// of a second installation, is known by the name of what it points to; else two copies would call each other for ever.
fn real(path: &Path) -> bool {
    let Ok(found) = fs::metadata(path) else { return false };
    let executable = found.is_file() && found.permissions().mode() & 0o111 != 0;
    let same = fs::metadata(SELF).is_ok_and(|own| (own.dev(), own.ino()) == (found.dev(), found.ino()));
    let copy = fs::canonicalize(path).is_ok_and(|target| target.file_name() == Some(OsStr::new("tri")));
    executable && !same && !copy
}
