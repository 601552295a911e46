//! What `tri doctor` says about the GPUs: what Vulkan offers, what the kernel tells, and which one TRI0 would use.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use ggml_tri::chip::drm::{self, Card, Use};
use ggml_tri::config::Gpu as Wish;
use ggml_tri::probe::vulkan::{Answer, Device};
use serde::Serialize;

use super::child::{self, Failure};
use super::doctor::{Check, State, check, failed};
use super::drivers;

const MIB: u64 = 1 << 20;

/// Everything about the GPUs, for `--json`.
#[derive(Debug, Serialize)]
pub struct Gpus {
    /// What Vulkan offers.
    pub vulkan: Option<Answer>,
    /// Why Vulkan did not answer.
    pub error: Option<String>,
    /// What the kernel shows.
    pub cards: Vec<Card>,
    /// What is known of the drivers, with the index of the device.
    pub notes: Vec<(usize, &'static str)>,
}

/// Asks Vulkan in a child process, and the kernel's files under `root`.
pub fn examine(root: &Path, wish: Wish) -> (Gpus, Vec<Check>) {
    report(root, wish, ask())
}

fn ask() -> Result<Answer, Failure> {
    let text = child::ask(&[OsStr::new("vulkan")], "asks it for its devices")?;
    // A driver may print something of its own before.
    let answer = text.lines().last().unwrap_or_default();
    serde_json::from_str(answer).map_err(|e| Failure::Said(format!("the child's answer cannot be read ({e})")))
}

fn report(root: &Path, wish: Wish, answer: Result<Answer, Failure>) -> (Gpus, Vec<Check>) {
    let kernel = fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
    let cards = drm::cards(root);
    let devices = answer.as_ref().map_or(&[][..], |answer| &answer.devices);
    let mut notes = Vec::new();
    for device in devices {
        notes.extend(drivers::notes(device, &kernel).into_iter().map(|note| (device.index, note)));
    }
    let mut checks: Vec<_> = cards.iter().map(of_card).collect();
    for device in devices {
        checks.extend(of_device(device));
        let own = notes.iter().filter(|(index, _)| *index == device.index);
        checks.extend(own.map(|(index, note)| fact(format!("GPU {index} note"), *note)));
    }
    checks.push(chosen(wish, &answer, &cards));
    let error = answer.as_ref().err().map(ToString::to_string);
    (Gpus { vulkan: answer.ok(), error, cards, notes }, checks)
}

fn fact(name: impl Into<String>, found: impl Into<String>) -> Check {
    check(name, State::Fact, found)
}

fn of_card(card: &Card) -> Check {
    let memory = |name: &str, memory: Option<Use>| {
        memory.map(|m| format!("{name} {} MiB, {} used", m.total / MIB, m.used / MIB))
    };
    let vendor = match card.vendor {
        0x1002 => "AMD".to_owned(),
        0x10de => "NVIDIA".to_owned(),
        0x8086 => "Intel".to_owned(),
        other => format!("PCI vendor {other:#06x}"),
    };
    let parts =
        [Some(vendor), card.pci.clone(), card.driver.clone(), memory("VRAM", card.vram), memory("GTT", card.gtt)];
    fact(card.name.clone(), parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn of_device(device: &Device) -> [Check; 4] {
    let line = |what: &str, found: String| fact(format!("GPU {}{what}", device.index), found);
    let kind = if device.software { "a software device" } else { "hardware" };
    let usable = match &device.unusable {
        Some(reason) => format!("cannot be used: {reason}"),
        None if device.software => "usable, only when TRI_GPU asks for it".to_owned(),
        None => "usable".to_owned(),
    };
    let pci = device.pci.as_deref().map_or(String::new(), |pci| format!(" at {pci}"));
    let heap = |heap: &ggml_tri::probe::vulkan::Heap| {
        format!("{} MiB{}", heap.bytes / MIB, if heap.device { " (device)" } else { "" })
    };
    let heaps: Vec<_> = device.heaps.iter().map(heap).collect();
    let memory = if device.unified { "one with the CPU" } else { "its own, all of it visible to the CPU" };
    let limits = &device.limits;
    let shapes = limits.matrices.iter().map(|(ty, m, n, k)| format!(", {ty} matrices {m}x{n}x{k}"));
    let names = |there: bool| {
        let names: Vec<_> = device.features.iter().filter(|f| f.1 == there).map(|f| f.0.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    [
        line("", format!("{}{pci}, {kind}, driver {}: {usable}", device.name, device.driver)),
        line(" memory", format!("{memory}; heaps of {}", heaps.join(", "))),
        line(
            " limits",
            format!(
                "subgroups of {}, workgroups of {} with {} KiB, {} MiB in one piece{}",
                limits.subgroup,
                limits.invocations,
                limits.shared >> 10,
                limits.allocation / MIB,
                shapes.collect::<String>()
            ),
        ),
        line(" features", format!("used: {}; missing: {}", names(true), names(false))),
    ]
}

/// Which device TRI0 would use now. That there is none is a failure only where somebody wants one.
fn chosen(wish: Wish, answer: &Result<Answer, Failure>, cards: &[Card]) -> Check {
    const NAME: &str = "GPU of TRI0";
    if wish == Wish::Off {
        return fact(NAME, "none: switched off by TRI_GPU=off");
    }
    let (devices, reason) = match answer {
        Ok(Answer { devices, chosen: Some(index), .. }) => {
            let name = devices.iter().find(|d| d.index == *index).map_or("", |d| d.name.as_str());
            return check(NAME, State::Ok, format!("{index}: {name}"));
        }
        Err(Failure::Died(why)) => {
            let remedy = "Update the Vulkan driver: it would take llama.cpp with it too. Until then set TRI_GPU=off.";
            return failed(NAME, format!("Vulkan {why}"), remedy);
        }
        Err(Failure::Said(why)) => (&[][..], why.as_str()),
        Ok(Answer { devices, reason, .. }) => (&devices[..], reason.as_deref().unwrap_or("unknown")),
    };
    let found = format!("none: {reason}");
    if wish != Wish::Auto {
        return failed(NAME, found, "Set TRI_GPU to the index of a usable device, or unset it.");
    }
    // Display adapters of servers are no GPUs.
    let present = cards.iter().find(|card| matches!(card.vendor, 0x1002 | 0x10de | 0x8086));
    match present.filter(|_| devices.iter().all(|device| device.software)) {
        None => fact(NAME, found),
        Some(card) => failed(
            NAME,
            format!("{found}; but the kernel shows {}", card.name),
            "Install its Vulkan driver (AMD and Intel: the package mesa-vulkan-drivers) and let this user open \
             /dev/dri/renderD* (group render), or set TRI_GPU=off.",
        ),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use ggml_tri::probe::vulkan::{Heap, Limits};

    /// A usable device with one memory.
    pub fn device(driver: &str, vendor: u32) -> Device {
        let limits =
            Limits { subgroup: 32, shared: 65536, invocations: 1024, allocation: 4 << 30, matrices: Vec::new() };
        let heaps = vec![Heap { bytes: 2 << 30, device: true }, Heap { bytes: 1 << 30, device: false }];
        Device {
            index: 0,
            name: "a GPU".to_owned(),
            driver: driver.to_owned(),
            software: driver.starts_with("llvmpipe"),
            vendor,
            pci: None,
            unified: vendor != 0x10de,
            unusable: None,
            heaps,
            limits,
            features: vec![("packed integer dot product".to_owned(), true), ("memory budget".to_owned(), false)],
        }
    }

    fn answer(devices: Vec<Device>, chosen: Option<usize>) -> Result<Answer, Failure> {
        Ok(Answer { devices, chosen, reason: chosen.is_none().then(|| "nothing fits".to_owned()) })
    }

    fn apu() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines/amd-apu")
    }

    #[test]
    fn an_apu_is_shown_with_its_memory_and_what_is_known_of_it() {
        let (gpus, checks) = report(&apu(), Wish::Auto, answer(vec![device("radv Mesa 25.0.7", 0x1002)], Some(0)));
        let found = |name: &str| checks.iter().find(|check| check.name == name).map(|check| check.found.as_str());
        let card = "AMD, 0000:c5:00.0, amdgpu, VRAM 512 MiB, 100 used, GTT 63488 MiB, 2048 used";
        assert_eq!(found("card1"), Some(card));
        assert_eq!(found("card0"), Some("PCI vendor 0x1a03, 0000:02:00.0, ast"));
        assert_eq!(found("GPU 0"), Some("a GPU, hardware, driver radv Mesa 25.0.7: usable"));
        assert_eq!(found("GPU 0 memory"), Some("one with the CPU; heaps of 2048 MiB (device), 1024 MiB"));
        assert_eq!(found("GPU 0 features"), Some("used: packed integer dot product; missing: memory budget"));
        assert_eq!(found("GPU of TRI0"), Some("0: a GPU"));
        assert!(gpus.notes.iter().any(|(index, note)| *index == 0 && note.contains("lockup_timeout")));
    }

    #[test]
    fn no_device_is_a_failure_only_where_one_is_wanted() {
        let empty = tempfile::tempdir().unwrap();
        let software = || answer(vec![device("llvmpipe Mesa 22.3.6", 0x10005)], None);
        let state = |root: &Path, wish, answer| {
            let (_, checks) = report(root, wish, answer);
            let last = checks.last().unwrap();
            assert_eq!(last.state == State::Failed, last.remedy.is_some(), "{last:?}");
            last.state
        };
        assert_eq!(state(empty.path(), Wish::Auto, software()), State::Fact);
        assert_eq!(state(empty.path(), Wish::Auto, Err(Failure::Said("no Vulkan".into()))), State::Fact);
        assert_eq!(state(empty.path(), Wish::Index(3), software()), State::Failed);
        assert_eq!(state(empty.path(), Wish::Auto, Err(Failure::Died("kills".into()))), State::Failed);
        assert_eq!(state(&apu(), Wish::Auto, software()), State::Failed, "a card without a driver");
        for answer in [software(), Err(Failure::Died("kills".into()))] {
            assert_eq!(state(&apu(), Wish::Off, answer), State::Fact);
        }
    }
}
