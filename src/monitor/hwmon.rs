//! Sensors that drivers register with the kernel's hwmon (`Documentation/hwmon/sysfs-interface.rst`).

use std::fs;
use std::path::{Path, PathBuf};

use super::{Reading, entries, number};

/// The sensors of one driver for one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hwmon {
    /// The driver's name for them.
    pub name: String,
    /// Temperatures, in thousandths of a degree.
    temperatures: Vec<PathBuf>,
    /// Power in millionths of a watt: the present one where there is such a file, else an average.
    power: Option<PathBuf>,
    /// The clock in Hz; the first one is that of the shaders in amdgpu.
    clock: Option<PathBuf>,
}

/// What is registered on the machine whose file system starts at `root`, in the kernel's order.
pub fn all(root: &Path) -> Vec<Hwmon> {
    let folder = root.join("sys/class/hwmon");
    entries(&folder).iter().filter_map(|name| open(&folder.join(name))).collect()
}

fn open(folder: &Path) -> Option<Hwmon> {
    let name = fs::read_to_string(folder.join("name")).ok()?.trim().to_owned();
    let file = |name: &str| Some(folder.join(name)).filter(|file| file.is_file());
    let temperature = |name: &String| name.starts_with("temp") && name.ends_with("_input");
    let temperatures = entries(folder).iter().filter(|name| temperature(name)).map(|name| folder.join(name)).collect();
    let power = file("power1_input").or_else(|| file("power1_average"));
    Some(Hwmon { name, temperatures, power, clock: file("freq1_input") })
}

impl Hwmon {
    /// What the sensors say now.
    pub fn read(&self) -> Reading {
        let celsius = self.temperatures.iter().filter_map(|file| number(file)).map(|n| n / 1e3).reduce(f64::max);
        let read = |file: &Option<PathBuf>| number(file.as_ref()?);
        Reading { celsius, hertz: read(&self.clock), watts: read(&self.power).map(|n| n / 1e6), busy: None }
    }
}
