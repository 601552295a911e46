//! How warm, how fast and how busy the processors are, from the files that the kernel keeps about them.
//!
//! Files are found once and read when somebody asks, which is never while a graph is computed. What cannot be read is
//! absent, not zero. Each parser takes the root of the file system, so that a recorded tree can stand for a machine.

mod counters;
mod hwmon;

use std::fs;
use std::path::{Path, PathBuf};

use crate::chip::drm;
use counters::Counters;
use hwmon::Hwmon;

/// What one processor's sensors say.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize)]
pub struct Reading {
    /// Degrees Celsius at its warmest sensor.
    pub celsius: Option<f64>,
    /// Clock ticks per second; of several cores the mean.
    pub hertz: Option<f64>,
    /// Watts; of the CPU those of its whole package.
    pub watts: Option<f64>,
    /// Share of the time in which it works, 0 to 1.
    pub busy: Option<f64>,
}

impl Reading {
    /// Whether no sensor answered.
    pub fn is_empty(&self) -> bool {
        *self == Reading::default()
    }
}

/// What the sensors of a chip say.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize)]
pub struct Readings {
    /// The CPU.
    pub cpu: Reading,
    /// The GPU: the first card that has a sensor.
    pub gpu: Reading,
    /// The NPU. The amdxdna driver of Linux 7 keeps no such files; one that registers with hwmon is read.
    pub npu: Reading,
}

/// Where a machine keeps its sensors, and the counters at the last look.
#[derive(Debug)]
pub struct Monitor {
    root: PathBuf,
    cpu: Option<Hwmon>,
    gpu: Option<Hwmon>,
    npu: Option<Hwmon>,
    /// Files with the clock of each core, in kHz.
    cores: Vec<PathBuf>,
    /// The file with the GPU's busy share, in percent.
    gpu_busy: Option<PathBuf>,
    last: Option<Counters>,
}

/// Drivers of sensors in a CPU: AMD's, the one that many AMD users build themselves, and Intel's.
const CPU: &[&str] = &["k10temp", "zenpower", "coretemp"];
/// Drivers of GPUs that register their sensors.
const GPU: &[&str] = &["amdgpu", "nouveau", "xe", "i915"];
/// The NPU's driver.
const NPU: &[&str] = &["amdxdna"];

impl Monitor {
    /// Finds the sensors of the machine whose file system starts at `root` (`/` for this one).
    pub fn find(root: &Path) -> Monitor {
        let all = hwmon::all(root);
        let first = |names: &[&str]| all.iter().find(|h| names.contains(&h.name.as_str())).cloned();
        let cards = drm::cards(root).into_iter().map(|card| root.join("sys/class/drm").join(card.name).join("device"));
        Monitor {
            root: root.to_owned(),
            cpu: first(CPU),
            gpu: first(GPU),
            npu: first(NPU),
            cores: cores(root),
            gpu_busy: cards.map(|device| device.join("gpu_busy_percent")).find(|file| file.is_file()),
            last: None,
        }
    }

    /// Reads every sensor. `seconds` have passed since the last look; what is counted over time, such as energy, is absent
    /// at the first one.
    pub fn read(&mut self, seconds: f64) -> Readings {
        let of = |hwmon: &Option<Hwmon>| hwmon.as_ref().map_or(Reading::default(), Hwmon::read);
        let mut readings = Readings { cpu: of(&self.cpu), gpu: of(&self.gpu), npu: of(&self.npu) };
        readings.cpu.hertz = readings.cpu.hertz.or(self.clock());
        readings.gpu.busy = self.gpu_busy.as_ref().and_then(|file| number(file)).map(|percent| percent / 100.0);
        let now = counters::read(&self.root);
        if let Some(last) = self.last.replace(now) {
            readings.cpu.busy = counters::busy(&last, &now);
            readings.cpu.watts = counters::watts(&last, &now, seconds).or(readings.cpu.watts);
        }
        readings
    }

    /// The mean clock of the cores.
    fn clock(&self) -> Option<f64> {
        let clocks: Vec<f64> = self.cores.iter().filter_map(|file| number(file)).collect();
        (!clocks.is_empty()).then(|| clocks.iter().sum::<f64>() / clocks.len() as f64 * 1e3)
    }
}

/// The files with the clocks of the cores, as cpufreq keeps them.
fn cores(root: &Path) -> Vec<PathBuf> {
    let numbered = |name: &str| name.strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok());
    let folder = root.join("sys/devices/system/cpu");
    let files = entries(&folder).into_iter().filter(|name| numbered(name));
    files.map(|name| folder.join(name).join("cpufreq/scaling_cur_freq")).filter(|file| file.is_file()).collect()
}

/// The names in a folder, sorted; none if it is missing.
fn entries(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// The number that a file holds.
fn number(file: &Path) -> Option<f64> {
    fs::read_to_string(file).ok()?.trim().parse::<f64>().ok().filter(|n| n.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    pub(super) use crate::config::testing::tree;

    #[test]
    fn an_apu_is_read_whole() {
        // Written by hand after the kernel's documentation of hwmon, amdgpu, cpufreq and powercap: no such machine was at
        // hand.
        let root = tree(&[]);
        let copied = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines/amd-apu");
        copy(&copied, root.path());
        let mut monitor = Monitor::find(root.path());
        let first = monitor.read(0.0);
        let cpu = Reading { celsius: Some(54.625), hertz: Some(3.0e9), watts: None, busy: None };
        let gpu = Reading { celsius: Some(48.0), hertz: Some(2.7e9), watts: Some(21.184), busy: Some(0.07) };
        assert_eq!((first.cpu, first.gpu), (cpu, gpu));
        assert!(first.npu.is_empty());
        // Two seconds later: 30 J more, and 100 of 400 ticks were idle.
        fs::write(root.path().join("sys/class/powercap/intel-rapl:0/energy_uj"), "1030000000\n").unwrap();
        fs::write(root.path().join("proc/stat"), "cpu  1250 0 1050 8090 110 0 0 0 0 0\n").unwrap();
        let second = monitor.read(2.0);
        assert_eq!((second.cpu.watts, second.cpu.busy), (Some(15.0), Some(0.75)));
        assert_eq!(Reading { watts: None, busy: None, ..second.cpu }, cpu);
    }

    #[test]
    fn absent_sensors_are_absent() {
        let root = tree(&[]);
        let mut monitor = Monitor::find(root.path());
        for seconds in [0.0, 1.0] {
            assert_eq!(monitor.read(seconds), Readings::default());
        }
        let virtual_machine = tree(&[("proc/stat", "cpu  10 0 10 80 0\n"), ("sys/class/hwmon/hwmon0/name", "nvme\n")]);
        let mut monitor = Monitor::find(virtual_machine.path());
        assert!(monitor.read(0.0).cpu.is_empty());
        // Nothing happened in between, so there is no share of anything.
        assert_eq!(monitor.read(1.0), Readings::default());
    }

    #[test]
    fn an_npu_that_registers_is_read() {
        let root =
            tree(&[("sys/class/hwmon/hwmon3/name", "amdxdna\n"), ("sys/class/hwmon/hwmon3/power1_input", "2500000\n")]);
        let npu = Monitor::find(root.path()).read(0.0).npu;
        assert_eq!(npu, Reading { watts: Some(2.5), ..Reading::default() });
    }

    #[test]
    fn a_sensor_that_goes_away_becomes_absent() {
        let file = "sys/class/hwmon/hwmon0/temp1_input";
        let root = tree(&[("sys/class/hwmon/hwmon0/name", "k10temp\n"), (file, "50000\n")]);
        let mut monitor = Monitor::find(root.path());
        assert_eq!(monitor.read(0.0).cpu.celsius, Some(50.0));
        for nonsense in ["", "NaN", "x"] {
            fs::write(root.path().join(file), nonsense).unwrap();
            assert_eq!(monitor.read(1.0).cpu.celsius, None, "{nonsense}");
        }
        fs::remove_file(root.path().join(file)).unwrap();
        assert_eq!(monitor.read(1.0).cpu.celsius, None);
    }

    fn copy(from: &Path, to: &Path) {
        for name in entries(from) {
            let (from, to) = (from.join(&name), to.join(&name));
            if from.is_dir() {
                fs::create_dir_all(&to).unwrap();
                copy(&from, &to);
            } else {
                fs::copy(&from, &to).unwrap();
            }
        }
    }
}
