//! Where bytes came from: the file behind a mapped address, and reading them from it again.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

/// A place in a file, and what the file was when it was noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    path: PathBuf,
    offset: u64,
    state: FileState,
}

/// What changes when a file is replaced or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileState {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl FileState {
    fn of(file: &File) -> std::io::Result<FileState> {
        let m = file.metadata()?;
        Ok(FileState { device: m.dev(), inode: m.ino(), size: m.size(), modified: (m.mtime(), m.mtime_nsec()) })
    }
}

impl Origin {
    /// The file that is mapped at `address` in this process; `None` for memory without a file.
    pub fn of(address: usize) -> Option<Origin> {
        let (path, offset, inode) = mapped(&std::fs::read_to_string("/proc/self/maps").ok()?, address)?;
        let state = FileState::of(&File::open(&path).ok()?).ok()?;
        (state.inode == inode).then_some(Origin { path, offset, state })
    }

    /// Reads `to.len()` bytes, `skip` bytes after the noted place.
    ///
    /// # Errors
    /// When the file is gone, changed, or shorter.
    pub fn read(&self, skip: u64, to: &mut [u8]) -> std::io::Result<()> {
        let file = File::open(&self.path)?;
        if FileState::of(&file)? != self.state {
            return Err(std::io::Error::other(format!("{} has changed since it was loaded", self.path.display())));
        }
        file.read_exact_at(to, self.offset + skip)
    }
}

/// Finds an address in the text of `/proc/self/maps`: path, offset in the file, inode.
fn mapped(maps: &str, address: usize) -> Option<(PathBuf, u64, u64)> {
    maps.lines().find_map(|line| {
        // 7f2c00000000-7f2c05e00000 r--s 00000000 fe:00 131090    /models/a b.gguf
        let (range, rest) = line.split_once(' ')?;
        let (first, end) = range.split_once('-')?;
        let (first, end) = (usize::from_str_radix(first, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        if !(first..end).contains(&address) {
            return None;
        }
        let mut fields = rest.splitn(4, ' ');
        let (_permissions, offset, _device) = (fields.next()?, fields.next()?, fields.next()?);
        let (inode, path) = fields.next()?.split_once(' ')?;
        let path = path.trim_start();
        let offset = u64::from_str_radix(offset, 16).ok()? + (address - first) as u64;
        path.starts_with('/').then(|| Some((PathBuf::from(path), offset, inode.parse().ok()?)))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const MAPS: &str = "\
55d0a0000000-55d0a0001000 r-xp 00000000 fe:00 99 /bin/x
7f2c00000000-7f2c00002000 r--s 00003000 fe:00 131090                     /models/a b.gguf
7f2c00002000-7f2c00003000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00001000 rw-p 00000000 00:00 0                          [stack]
";

    #[test]
    fn an_address_in_a_mapped_file_gives_path_offset_and_inode() {
        assert_eq!(mapped(MAPS, 0x7f2c_0000_1010), Some((PathBuf::from("/models/a b.gguf"), 0x4010, 131_090)));
    }

    #[test]
    fn memory_without_a_file_has_no_origin() {
        for address in [0x7f2c_0000_2800, 0x7ffd_0000_0010, 0x10] {
            assert_eq!(mapped(MAPS, address), None);
        }
        assert_eq!(Origin::of(std::ptr::from_ref(&MAPS) as usize & 0xfff), None);
    }

    #[test]
    fn a_changed_file_is_not_read() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"0123456789").unwrap();
        let state = FileState::of(file.as_file()).unwrap();
        let origin = Origin { path: file.path().to_owned(), offset: 2, state };
        let mut bytes = [0; 3];
        origin.read(1, &mut bytes).unwrap();
        assert_eq!(&bytes, b"345");
        assert!(origin.read(8, &mut bytes).is_err());
        file.write_all(b"x").unwrap();
        assert!(origin.read(1, &mut bytes).unwrap_err().to_string().contains("has changed"));
    }
}
