//! How much memory this process may use, and how much of it is free: the machine's figures, narrowed by every cgroup above it.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Memory that a process may use, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Memory {
    /// What there is: `MemTotal`, or the smallest cgroup limit where one is smaller.
    pub total: u64,
    /// What can be taken without swapping; never above `total`.
    pub available: u64,
}

/// What one cgroup says about its memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    limit: u64,
    used: u64,
    /// Pages of files that the kernel drops when it needs memory.
    reclaimable: u64,
}

/// The names under which a cgroup version keeps the same three figures.
struct Names {
    limit: &'static str,
    used: &'static str,
    /// The lines of `memory.stat` that are reclaimable, children included.
    reclaimable: [&'static str; 2],
}

const V1: Names = Names {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    reclaimable: ["total_active_file", "total_inactive_file"],
};
const V2: Names = Names { limit: "memory.max", used: "memory.current", reclaimable: ["active_file", "inactive_file"] };

/// Reads the memory of the machine whose file system starts at `root` (`/` for this one); both figures are 0 where
/// `/proc/meminfo` cannot be read.
pub fn available(root: &Path) -> Memory {
    let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    narrow(machine(&text("proc/meminfo")), &groups(root, &text("proc/self/cgroup")))
}

/// The machine's own figures from the text of `/proc/meminfo`.
fn machine(meminfo: &str) -> Memory {
    let bytes = |name| field(meminfo, name).map(|kib| kib.saturating_mul(1024));
    let total = bytes("MemTotal:").unwrap_or(0);
    // Kernels before 3.14 have no MemAvailable.
    let available = bytes("MemAvailable:").or_else(|| bytes("MemFree:")).unwrap_or(0);
    Memory { total, available: available.min(total) }
}

/// Applies every limit: the process gets the smallest of each figure.
fn narrow(machine: Memory, groups: &[Group]) -> Memory {
    let mut memory = machine;
    for group in groups {
        let held = group.used.saturating_sub(group.reclaimable);
        memory.total = memory.total.min(group.limit);
        memory.available = memory.available.min(group.limit.saturating_sub(held));
    }
    memory.available = memory.available.min(memory.total);
    memory
}

/// The limited cgroups that hold this process, from its own up to the root of each hierarchy.
fn groups(root: &Path, cgroup: &str) -> Vec<Group> {
    let mut found = Vec::new();
    for line in cgroup.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        if controllers.is_empty() {
            // Version 2 is mounted alone, or beside version 1 under `unified`.
            climb(&root.join("sys/fs/cgroup"), path, &V2, &mut found);
            climb(&root.join("sys/fs/cgroup/unified"), path, &V2, &mut found);
        } else if controllers.split(',').any(|c| c == "memory") {
            climb(&root.join("sys/fs/cgroup/memory"), path, &V1, &mut found);
        }
    }
    found
}

/// Adds the limited groups from `path` up to `mount`, both included.
///
/// In a container the path can be the host's while the mount is the container's own: then the folders of the path are
/// missing and only the mount itself answers, which is the group that is meant.
fn climb(mount: &Path, path: &str, names: &Names, found: &mut Vec<Group>) {
    let mut below: PathBuf = Path::new(path).components().filter(|part| matches!(part, Component::Normal(_))).collect();
    loop {
        found.extend(group(&mount.join(&below), names));
        if !below.pop() {
            return;
        }
    }
}

/// The group in this folder, if it has a limit.
fn group(folder: &Path, names: &Names) -> Option<Group> {
    let number = |name| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    // "max" is not a number and means that this group sets no limit.
    let limit = number(names.limit)?;
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let reclaimable = names.reclaimable.iter().filter_map(|name| field(&stat, name)).sum();
    Some(Group { limit, used: number(names.used).unwrap_or(0), reclaimable })
}

/// The number after a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// A recorded machine of 16 GiB with 12 GiB available.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let meminfo = ("proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 1024 kB\nMemAvailable: 12582912 kB\n");
        for (path, text) in [meminfo].iter().chain(files) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn without_a_limit_the_machine_decides() {
        let root = tree(&[("proc/self/cgroup", "0::/user\n"), ("sys/fs/cgroup/user/memory.max", "max\n")]);
        assert_eq!(available(root.path()), Memory { total: 16 * GIB, available: 12 * GIB });
    }

    #[test]
    fn file_pages_of_the_group_count_as_available() {
        let root = tree(&[
            ("proc/self/cgroup", "0::/job\n"),
            ("sys/fs/cgroup/job/memory.max", "4294967296\n"),
            ("sys/fs/cgroup/job/memory.current", "4294967296\n"),
            ("sys/fs/cgroup/job/memory.stat", "anon 1\nactive_file 1073741824\ninactive_file 2147483648\n"),
        ]);
        assert_eq!(available(root.path()), Memory { total: 4 * GIB, available: 3 * GIB });
    }

    #[test]
    fn a_limit_further_up_counts_too() {
        let root = tree(&[
            ("proc/self/cgroup", "0::/a/b/c\n"),
            ("sys/fs/cgroup/a/b/c/memory.max", "8589934592\n"),
            ("sys/fs/cgroup/a/memory.max", "2147483648\n"),
            ("sys/fs/cgroup/a/memory.current", "1073741824\n"),
        ]);
        assert_eq!(available(root.path()), Memory { total: 2 * GIB, available: GIB });
    }

    #[test]
    fn version_1_in_a_container_whose_path_is_the_hosts() {
        let root = tree(&[
            ("proc/self/cgroup", "4:memory:/docker/abc\n1:name=systemd:/docker/abc\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "536870912\n"),
            ("sys/fs/cgroup/memory/memory.stat", "active_file 7\ntotal_active_file 0\ntotal_inactive_file 268435456\n"),
        ]);
        assert_eq!(available(root.path()), Memory { total: GIB, available: GIB * 3 / 4 });
    }

    #[test]
    fn a_group_over_its_limit_has_nothing_left() {
        let group = Group { limit: GIB, used: 2 * GIB, reclaimable: 0 };
        assert_eq!(
            narrow(Memory { total: 4 * GIB, available: 4 * GIB }, &[group]),
            Memory { total: GIB, available: 0 }
        );
    }

    #[test]
    fn nothing_to_read_is_zero() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(available(root.path()), Memory { total: 0, available: 0 });
    }
}
