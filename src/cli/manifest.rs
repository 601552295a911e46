//! The record of what `tri install` put under a prefix, by which `tri uninstall` knows its own.

use std::fs;
use std::io;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use super::stop::Stop;

/// Where the record lies under the prefix.
pub const PLACE: &str = "lib/ggml-tri/installed.json";

/// Everything that was put under one prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Files and links; while an installation is under way, the old and the new of one path.
    pub entries: Vec<Entry>,
    /// Folders that did not exist before, outermost first; the empty path is the prefix itself.
    pub folders: Vec<String>,
}

/// One file or link, by its path under the prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The path under the prefix.
    pub path: String,
    /// What lies there.
    #[serde(flatten)]
    pub what: What,
}

/// What lies at a path, exactly enough to notice a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum What {
    /// A file.
    File {
        /// Its length in bytes.
        size: u64,
        /// The FNV-1a hash of its bytes, 64 bits in hexadecimal: it finds changes and is no protection against forgery.
        hash: String,
    },
    /// A symbolic link.
    Link {
        /// The text of the link.
        target: String,
    },
}

impl What {
    /// What lies at a path now; `None` if nothing does. A folder or device is an empty link, which equals no record.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn at(path: &Path) -> io::Result<Option<What>> {
        let found = match fs::symlink_metadata(path) {
            Ok(found) => found,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
            Err(e) => return Err(e),
        };
        if found.is_file() {
            return Ok(Some(What::of(&fs::read(path)?)));
        }
        let target = if found.is_symlink() { fs::read_link(path)? } else { Path::new("").to_owned() };
        Ok(Some(What::Link { target: target.to_string_lossy().into_owned() }))
    }

    /// A file with these bytes.
    pub fn of(bytes: &[u8]) -> What {
        let hash = bytes
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        What::File { size: bytes.len() as u64, hash: format!("{hash:016x}") }
    }
}

impl Manifest {
    /// Reads the record of a prefix; an absent one is empty.
    ///
    /// # Errors
    /// It cannot be read, is damaged, or names a path outside the prefix.
    pub fn read(prefix: &Path) -> Result<Manifest, Stop> {
        let place = prefix.join(PLACE);
        let damaged = |why: String| {
            Stop::failed(format!(
                "{} cannot be used ({why}): what is installed is not known. Restore the file, or delete it and then the \
                 files that 'tri install' refuses.",
                place.display()
            ))
        };
        let text = match fs::read_to_string(&place) {
            Ok(text) => text,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Manifest::default());
            }
            Err(e) => return Err(damaged(e.to_string())),
        };
        let manifest: Manifest = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
        let paths = manifest.entries.iter().map(|entry| &entry.path).chain(&manifest.folders);
        match paths.into_iter().find(|path| !inside(path)) {
            Some(path) => Err(damaged(format!("'{path}' lies outside the prefix"))),
            None => Ok(manifest),
        }
    }

    /// The text of the record.
    ///
    /// # Errors
    /// None that can be caused; serde's signature.
    pub fn text(&self) -> Result<String, Stop> {
        serde_json::to_string_pretty(self).map_err(|e| Stop::failed(format!("The manifest cannot be written ({e}).")))
    }

    /// Whether this lies at the path as it was installed.
    pub fn knows(&self, path: &str, what: &What) -> bool {
        self.entries.iter().any(|entry| entry.path == path && entry.what == *what)
    }
}

/// Whether a relative path stays under the prefix.
fn inside(path: &str) -> bool {
    Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        // From the test suite of the FNV reference (isthe.com): the hash of "foobar".
        assert_eq!(What::of(b"foobar"), What::File { size: 6, hash: "85944171f73967e8".to_owned() });
    }

    #[test]
    fn a_record_that_points_outside_is_refused() {
        for path in ["../x", "/etc/passwd", "bin/../../x"] {
            let prefix = tempfile::tempdir().unwrap();
            fs::create_dir_all(prefix.path().join("lib/ggml-tri")).unwrap();
            let text = format!(r#"{{"entries":[{{"path":"{path}","kind":"link","target":"tri"}}],"folders":[]}}"#);
            fs::write(prefix.path().join(PLACE), text).unwrap();
            assert!(Manifest::read(prefix.path()).unwrap_err().message.contains("outside"), "{path}");
        }
    }
}
