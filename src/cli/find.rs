//! Finds the real llama.cpp tool behind a name, passing over `tri` itself.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
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

    /// The folder of `PATH` whose `tool` a call by its name alone runs.
    pub fn first(&self, tool: &OsStr) -> Option<&Path> {
        self.folders().find(|entry| entry.join(tool).is_file())
    }

    /// Whether a call of `tool` by its name alone runs the one in `folder`.
    pub fn leads(&self, folder: &Path, tool: &OsStr) -> bool {
        let whole = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        self.first(tool).is_some_and(|first| whole(first) == whole(folder))
    }

    /// The folders of `PATH`; an empty entry means the current one, as for the shell.
    fn folders(&self) -> impl Iterator<Item = &Path> {
        self.path.as_bytes().split(|b| *b == b':').map(|entry| match entry {
            b"" => Path::new("."),
            entry => Path::new(OsStr::from_bytes(entry)),
        })
    }
}

/// Stands in every copy of `tri`, whatever its name; it never changes, so that copies of any version know each other.
#[used]
static MARK: [u8; 44] = *b"ggml-tri launcher: this executable is a tri.";

/// Whether this is an executable file and not `tri`.
///
/// The same file is the same device and inode, through symbolic and hard links alike. Another copy of `tri` is known by
/// the name of what a link points to, or by its mark; else two copies would call each other for ever.
fn real(path: &Path) -> bool {
    let Ok(found) = fs::metadata(path) else { return false };
    let executable = found.is_file() && found.permissions().mode() & 0o111 != 0;
    let same = fs::metadata(SELF).is_ok_and(|own| (own.dev(), own.ino()) == (found.dev(), found.ino()));
    let copy = || fs::canonicalize(path).is_ok_and(|target| target.file_name() == Some(OsStr::new("tri")));
    executable && !same && !copy() && !marked(path, found.len())
}

/// Whether a file of this size holds the mark. A file that cannot be read has none.
fn marked(path: &Path, size: u64) -> bool {
    /// A tri with debug information has some 70 MiB; larger files are tools with everything linked in.
    const LARGEST: u64 = 128 << 20;
    // Opaque to the compiler, which else could compare with pieces of the mark in its code and leave out the whole.
    let mark = std::hint::black_box(&MARK);
    size <= LARGEST
        && fs::File::open(path).is_ok_and(|mut file| {
            let mut bytes = Vec::new();
            // The first four bytes tell a program from a script, so that nothing else is read to the end.
            let elf = file.by_ref().take(4).read_to_end(&mut bytes).is_ok() && bytes == b"\x7fELF";
            elf && file.take(LARGEST).read_to_end(&mut bytes).is_ok() && holds(&bytes, mark)
        })
}

/// Searches as Boyer, Moore and Horspool do: it looks at few bytes, for a whole tool is searched at every start.
fn holds(bytes: &[u8], text: &[u8]) -> bool {
    let mut steps = [text.len(); 256];
    for (at, byte) in text.iter().enumerate().take(text.len() - 1) {
        steps[usize::from(*byte)] = text.len() - 1 - at;
    }
    let mut at = 0;
    while let Some(window) = bytes.get(at..at + text.len()) {
        if window == text {
            return true;
        }
        at += steps[usize::from(window[text.len() - 1])];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_wherever_it_stands() {
        for at in 0..100 {
            let bytes = [&b"ab".repeat(60)[..at], b"abcab", &b"cab".repeat(9)].concat();
            assert!(holds(&bytes, b"abcab") && !holds(&bytes[..at + 4], b"abcab"), "{at}");
        }
        assert!(!holds(b"", b"abc") && holds(b"abc", b"abc"));
    }
}
