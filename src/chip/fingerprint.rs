//! Which chip this is and what runs it, in parts, so that another driver can be told from another chip.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::cpu;
use crate::engine::EngineKind;

/// The longest text of a part, in bytes; the longest name of a driver seen so far has 66.
const LONGEST: usize = 256;

/// One part of a fingerprint. The names are those in the profile's file: a change of them is another version of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The CPU's model and its threads.
    Cpu,
    /// The features of the CPU that ggml-cpu has own code for: a virtual machine can hide some.
    Isa,
    /// The GPU's name.
    Gpu,
    /// The NPU's PCI ids and name.
    Npu,
    /// `ac` or `battery`: a chip on battery is slower, and is not another chip.
    Power,
    /// Name and version of the GPU's driver.
    GpuDriver,
    /// The NPU's firmware.
    NpuFirmware,
    /// The machine's firmware (BIOS), which sets power limits.
    Firmware,
    /// The kernel's release.
    Kernel,
    /// The version of ggml.
    Ggml,
    /// The version of ggml-tri.
    Plugin,
}

impl Part {
    /// The name in every output.
    pub fn name(self) -> &'static str {
        match self {
            Part::Cpu => "CPU",
            Part::Isa => "CPU features",
            Part::Gpu => "GPU",
            Part::Npu => "NPU",
            Part::Power => "power source",
            Part::GpuDriver => "GPU driver",
            Part::NpuFirmware => "NPU firmware",
            Part::Firmware => "firmware",
            Part::Kernel => "kernel",
            Part::Ggml => "ggml",
            Part::Plugin => "ggml-tri",
        }
    }

    /// Whether a difference means other hardware, whose timings say nothing about this one.
    pub fn hardware(self) -> bool {
        matches!(self, Part::Cpu | Part::Isa | Part::Gpu | Part::Npu)
    }

    /// Whether the speed of an engine may depend on it. The CPU's model names the chip, so it concerns all.
    pub fn concerns(self, engine: EngineKind) -> bool {
        match self {
            Part::Isa | Part::Ggml => engine == EngineKind::Cpu,
            Part::Gpu | Part::GpuDriver => engine == EngineKind::Gpu,
            Part::Npu | Part::NpuFirmware => engine == EngineKind::Npu,
            Part::Cpu | Part::Power | Part::Firmware | Part::Kernel | Part::Plugin => true,
        }
    }
}

/// What differs between two fingerprints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The part.
    pub part: Part,
    /// What it was; nothing if there was none.
    pub was: Option<String>,
    /// What it is.
    pub now: Option<String>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
        write!(f, "{} {} -> {}", self.part.name(), text(&self.was), text(&self.now))
    }
}

/// A chip and what runs it. A part that is absent has no entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<Part, String>")]
pub struct Fingerprint(BTreeMap<Part, String>);

impl Fingerprint {
    /// The fingerprint of the machine whose file system starts at `root` (`/` for this one), with the GPU in use as (name,
    /// driver with version) and the version of ggml.
    pub fn read(root: &Path, gpu: Option<(&str, &str)>, ggml: &str) -> Fingerprint {
        let text = |path: &str| fs::read_to_string(root.join(path)).ok();
        let cpu = cpu::read(root);
        let (npu, npu_firmware) = npu(root);
        Fingerprint::of([
            (Part::Cpu, Some(format!("{}, {} threads", cpu.model, cpu.threads))),
            (Part::Isa, Some(cpu.features.join(" "))),
            (Part::Gpu, gpu.map(|(name, _)| name.to_owned())),
            (Part::Npu, npu),
            (Part::Power, Some(power(root).to_owned())),
            (Part::GpuDriver, gpu.map(|(_, driver)| driver.to_owned())),
            (Part::NpuFirmware, npu_firmware),
            (Part::Firmware, text("sys/class/dmi/id/bios_version")),
            (Part::Kernel, text("proc/sys/kernel/osrelease")),
            (Part::Ggml, Some(ggml.to_owned())),
            (Part::Plugin, Some(env!("CARGO_PKG_VERSION").to_owned())),
        ])
    }

    /// A fingerprint of these parts; empty texts are absent, control characters become spaces, long texts are cut.
    pub fn of(parts: impl IntoIterator<Item = (Part, Option<String>)>) -> Fingerprint {
        let clean = |text: String| {
            let mut text: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            while text.len() > LONGEST {
                text.pop();
            }
            Some(text).filter(|text| !text.is_empty())
        };
        Fingerprint(parts.into_iter().filter_map(|(part, text)| Some((part, clean(text?)?))).collect())
    }

    /// The text of a part.
    pub fn get(&self, part: Part) -> Option<&str> {
        self.0.get(&part).map(String::as_str)
    }

    /// The parts that are there, in order.
    pub fn parts(&self) -> impl Iterator<Item = (Part, &str)> {
        self.0.iter().map(|(part, text)| (*part, text.as_str()))
    }

    /// This fingerprint with another text for a part.
    pub fn with(&self, part: Part, text: &str) -> Fingerprint {
        let kept = self.0.iter().filter(|(own, _)| **own != part).map(|(own, text)| (*own, Some(text.clone())));
        Fingerprint::of(kept.chain([(part, Some(text.to_owned()))]))
    }

    /// What is different in `now`.
    pub fn changes(&self, now: &Fingerprint) -> Vec<Change> {
        let mut parts: Vec<Part> = self.0.keys().chain(now.0.keys()).copied().collect();
        parts.sort_unstable();
        parts.dedup();
        let owned = |of: &Fingerprint, part| of.get(part).map(str::to_owned);
        let change = |part| Change { part, was: owned(self, part), now: owned(now, part) };
        parts.into_iter().map(change).filter(|change| change.was != change.now).collect()
    }
}

impl TryFrom<BTreeMap<Part, String>> for Fingerprint {
    type Error = String;

    /// Accepts only what [`Fingerprint::of`] would leave as it is.
    fn try_from(parts: BTreeMap<Part, String>) -> Result<Fingerprint, String> {
        let clean = Fingerprint::of(parts.clone().into_iter().map(|(part, text)| (part, Some(text))));
        match parts.into_iter().find(|(part, text)| clean.get(*part) != Some(text)) {
            Some((part, _)) => Err(format!("the {} is empty, longer than {LONGEST} or no plain text", part.name())),
            None => Ok(clean),
        }
    }
}

/// Ids and firmware of the first NPU: `vbnv` and `fw_version` are what amdxdna adds to its PCI device.
fn npu(root: &Path) -> (Option<String>, Option<String>) {
    let folder = root.join("sys/class/accel");
    let mut names: Vec<_> = fs::read_dir(&folder).into_iter().flatten().flatten().map(|e| e.file_name()).collect();
    names.sort_unstable();
    let Some(name) = names.first() else { return (None, None) };
    let text = |file: &str| fs::read_to_string(folder.join(name).join("device").join(file)).ok();
    let ids = ["vendor", "device", "revision", "vbnv"].map(|file| text(file).map(|text| text.trim().to_owned()));
    (Some(ids.into_iter().flatten().collect::<Vec<_>>().join(" ")), text("fw_version"))
}

/// `battery` if the machine has one and no supply is connected; a battery of a mouse (scope Device) is none.
fn power(root: &Path) -> &'static str {
    let supplies = fs::read_dir(root.join("sys/class/power_supply")).into_iter().flatten().flatten();
    let mut battery = false;
    for supply in supplies {
        let text = |file: &str| fs::read_to_string(supply.path().join(file)).unwrap_or_default();
        let (kind, scope) = (text("type"), text("scope"));
        match kind.trim() {
            "Battery" => battery |= scope.trim() != "Device",
            // Mains, and USB for chargers on a Type-C port.
            _ if text("online").trim() == "1" => return "ac",
            _ => {}
        }
    }
    if battery { "battery" } else { "ac" }
}

#[cfg(test)]
mod tests {
    use super::*;
    // Files after the kernel's documentation of these folders.
    use crate::config::testing::tree;

    const LAPTOP: &[(&str, &str)] = &[
        (
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: AMD Ryzen 7 PRO 250\nflags\t\t: avx2 avx512f\nprocessor\t: 1\n",
        ),
        ("proc/sys/kernel/osrelease", "6.17.2\n"),
        ("sys/class/dmi/id/bios_version", "R2XET42W (1.22 )\n"),
        ("sys/class/accel/accel0/device/vendor", "0x1022\n"),
        ("sys/class/accel/accel0/device/device", "0x1502\n"),
        ("sys/class/accel/accel0/device/revision", "0x00\n"),
        ("sys/class/accel/accel0/device/vbnv", "NPU Phoenix\n"),
        ("sys/class/accel/accel0/device/fw_version", "1.5.5.391\n"),
        ("sys/class/power_supply/AC/type", "Mains\n"),
        ("sys/class/power_supply/AC/online", "1\n"),
        ("sys/class/power_supply/BAT0/type", "Battery\n"),
    ];

    #[test]
    fn every_part_of_a_laptop_is_read() {
        let print = Fingerprint::read(tree(LAPTOP).path(), Some(("AMD Radeon 780M", "radv 25.3.1")), "0.26.0");
        let texts: Vec<_> = print.parts().collect();
        let expected = [
            (Part::Cpu, "AMD Ryzen 7 PRO 250, 2 threads"),
            (Part::Isa, "avx2 avx512f"),
            (Part::Gpu, "AMD Radeon 780M"),
            (Part::Npu, "0x1022 0x1502 0x00 NPU Phoenix"),
            (Part::Power, "ac"),
            (Part::GpuDriver, "radv 25.3.1"),
            (Part::NpuFirmware, "1.5.5.391"),
            (Part::Firmware, "R2XET42W (1.22 )"),
            (Part::Kernel, "6.17.2"),
            (Part::Ggml, "0.26.0"),
            (Part::Plugin, env!("CARGO_PKG_VERSION")),
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn a_machine_without_anything_has_few_parts() {
        let print = Fingerprint::read(tempfile::tempdir().unwrap().path(), None, "0.26.0");
        let parts: Vec<_> = print.parts().map(|(part, _)| part).collect();
        assert_eq!(parts, [Part::Cpu, Part::Power, Part::Ggml, Part::Plugin]);
    }

    #[test]
    fn the_power_source_is_the_one_that_is_connected() {
        let of = |files: &[(&str, &str)]| {
            let files: Vec<_> = files.iter().map(|(p, t)| (format!("sys/class/power_supply/{p}"), *t)).collect();
            power(tree(&files.iter().map(|(p, t)| (p.as_str(), *t)).collect::<Vec<_>>()).path())
        };
        let battery = ("BAT0/type", "Battery\n");
        assert_eq!(of(&[]), "ac");
        assert_eq!(of(&[battery]), "battery");
        assert_eq!(of(&[battery, ("AC/type", "Mains\n"), ("AC/online", "0\n")]), "battery");
        assert_eq!(of(&[battery, ("AC/type", "Mains\n"), ("AC/online", "1\n")]), "ac");
        assert_eq!(of(&[battery, ("ucsi/type", "USB\n"), ("ucsi/online", "1\n")]), "ac");
        assert_eq!(of(&[("mouse/type", "Battery\n"), ("mouse/scope", "Device\n")]), "ac");
    }

    #[test]
    fn a_new_driver_is_one_change_and_another_gpu_is_hardware() {
        let before = Fingerprint::read(tree(LAPTOP).path(), Some(("AMD Radeon 780M", "radv 25.2.8")), "0.26.0");
        let changes = before.changes(&before.with(Part::GpuDriver, "radv 25.3.1"));
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].to_string(), "GPU driver radv 25.2.8 -> radv 25.3.1");
        assert!(!changes[0].part.hardware() && changes[0].part.concerns(EngineKind::Gpu));
        assert!(!changes[0].part.concerns(EngineKind::Cpu));
        let without = before.changes(&Fingerprint::read(tree(LAPTOP).path(), None, "0.26.0"));
        assert!(without[0].part.hardware() && without[0].now.is_none());
    }

    #[test]
    fn texts_that_no_machine_gives_are_refused() {
        let read = |text: &str| serde_json::from_str::<Fingerprint>(text);
        let print = read(r#"{"cpu":"x","gpu-driver":"radv"}"#).unwrap();
        assert_eq!(serde_json::to_string(&print).unwrap(), r#"{"cpu":"x","gpu-driver":"radv"}"#);
        let long = format!(r#"{{"cpu":"{}"}}"#, "x".repeat(LONGEST + 1));
        for text in [r#"{"cpu":""}"#, r#"{"cpu":"a\u001bb"}"#, r#"{"brand":"x"}"#, r#"{"cpu":7}"#, &long] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
