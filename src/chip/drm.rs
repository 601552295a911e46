//! The graphics cards that the kernel shows, and the memory that amdgpu gives them.

use std::fs;
use std::path::Path;

/// How much of a memory there is and how much of it is taken, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Use {
    /// All of it.
    pub total: u64,
    /// Taken by all processes together.
    pub used: u64,
}

/// One graphics card. What the kernel's driver does not tell is absent.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Card {
    /// The kernel's name, `card0`.
    pub name: String,
    /// PCI vendor.
    pub vendor: u32,
    /// The kernel's driver.
    pub driver: Option<String>,
    /// `dddd:bb:dd.f`.
    pub pci: Option<String>,
    /// The card's own memory, on an APU what the firmware set aside of the machine's.
    pub vram: Option<Use>,
    /// The machine's memory that the card may use.
    pub gtt: Option<Use>,
}

/// The cards of the machine whose file system starts at `root`, by name.
pub fn cards(root: &Path) -> Vec<Card> {
    let folder = root.join("sys/class/drm");
    let names = fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    // Connectors are called card0-DP-1.
    names.retain(|name| name.strip_prefix("card").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit())));
    names.sort_unstable();
    names.into_iter().filter_map(|name| card(&folder.join(&name).join("device"), name)).collect()
}

fn card(device: &Path, name: String) -> Option<Card> {
    let text = |file: &str| fs::read_to_string(device.join(file)).ok();
    let number = |file: String| text(&file)?.trim().parse::<u64>().ok();
    let memory = |kind: &str| {
        let figure = |what: &str| number(format!("mem_info_{kind}_{what}"));
        Some(Use { total: figure("total")?, used: figure("used")? })
    };
    let vendor = u32::from_str_radix(text("vendor")?.trim().strip_prefix("0x")?, 16).ok()?;
    let event = text("uevent").unwrap_or_default();
    let named = |key: &str| event.lines().find_map(|line| Some(line.strip_prefix(key)?.trim().to_owned()));
    let (driver, pci) = (named("DRIVER="), named("PCI_SLOT_NAME="));
    Some(Card { name, vendor, driver, pci, vram: memory("vram"), gtt: memory("gtt") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_read_and_what_is_absent_stays_absent() {
        // Written by hand after the kernel's documentation of amdgpu: no such machine was at hand.
        let cards = cards(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines/amd-apu"));
        let [other, apu] = &cards[..] else { panic!("{cards:?}") };
        assert_eq!((other.name.as_str(), other.vendor, other.vram, other.gtt), ("card0", 0x1a03, None, None));
        assert_eq!((apu.name.as_str(), apu.vendor, apu.pci.as_deref()), ("card1", 0x1002, Some("0000:c5:00.0")));
        assert_eq!(apu.driver.as_deref(), Some("amdgpu"));
        assert_eq!(apu.vram, Some(Use { total: 512 << 20, used: 100 << 20 }));
        assert_eq!(apu.gtt, Some(Use { total: 66_571_993_088, used: 2 << 30 }));
    }

    #[test]
    fn a_machine_without_cards_has_none() {
        assert!(cards(tempfile::tempdir().unwrap().path()).is_empty());
    }
}
