//! What the kernel only counts: the time of the CPU, and the energy of its package.

use std::fs;
use std::path::Path;

use super::{entries, number};

/// The counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Counters {
    /// Ticks in which the CPU worked, and all of them.
    ticks: Option<(u64, u64)>,
    /// Millionths of a joule of the first package, and where its counter begins again.
    energy: Option<(f64, f64)>,
}

/// Reads the counters of the machine whose file system starts at `root`.
pub fn read(root: &Path) -> Counters {
    let stat = fs::read_to_string(root.join("proc/stat")).unwrap_or_default();
    Counters { ticks: ticks(&stat), energy: energy(root) }
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal (`proc_stat(5)`). What guests take is
/// in user and nice already.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().take(8).map_while(|field| field.parse().ok()).collect();
    let idle = fields.get(3)? + fields.get(4).unwrap_or(&0);
    let all: u64 = fields.iter().sum();
    Some((all - idle, all))
}

/// The energy of the first package in powercap, whose RAPL driver serves Intel and AMD. Since Linux 5.10 only root may
/// read it.
fn energy(root: &Path) -> Option<(f64, f64)> {
    let folder = root.join("sys/class/powercap");
    let package = |name: &String| {
        let text = fs::read_to_string(folder.join(name).join("name")).unwrap_or_default();
        text.trim().starts_with("package")
    };
    let zone = folder.join(entries(&folder).into_iter().find(package)?);
    Some((number(&zone.join("energy_uj"))?, number(&zone.join("max_energy_range_uj"))?))
}

/// The share of the time between two moments in which the CPU worked.
pub fn busy(before: &Counters, after: &Counters) -> Option<f64> {
    let ((worked, all), (worked_then, all_then)) = (after.ticks?, before.ticks?);
    let (worked, all) = (worked.checked_sub(worked_then)?, all.checked_sub(all_then)?);
    (all > 0).then(|| worked as f64 / all as f64)
}

/// Watts between two moments that lie `seconds` apart.
pub fn watts(before: &Counters, after: &Counters, seconds: f64) -> Option<f64> {
    let ((now, range), (then, _)) = (after.energy?, before.energy?);
    let spent = if now < then { now + range - then } else { now - then };
    (seconds > 0.0 && spent >= 0.0).then(|| spent / 1e6 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iowait_is_idle_and_old_kernels_have_fewer_numbers() {
        assert_eq!(ticks("cpu  10 1 20 60 9 0 0 0 5 5\ncpu0 1 1 1 1\n"), Some((31, 100)));
        assert_eq!(ticks("cpu  10 1 20 69\n"), Some((31, 100)));
        assert_eq!((ticks("cpu0 1 1 1 1\n"), ticks("cpu  1 2\n"), ticks("")), (None, None, None));
    }

    #[test]
    fn a_counter_that_began_again_is_no_negative_power() {
        let at = |energy: f64| Counters { ticks: None, energy: Some((energy, 100e6)) };
        assert_eq!(watts(&at(10e6), &at(40e6), 2.0), Some(15.0));
        assert_eq!(watts(&at(90e6), &at(20e6), 2.0), Some(15.0));
        assert_eq!(watts(&at(10e6), &at(40e6), 0.0), None);
        assert_eq!(watts(&Counters::default(), &at(40e6), 1.0), None);
    }

    #[test]
    fn time_that_runs_backwards_is_no_share() {
        let at = |worked, all| Counters { ticks: Some((worked, all)), energy: None };
        assert_eq!(busy(&at(10, 100), &at(40, 200)), Some(0.3));
        // The kernel lets iowait shrink.
        assert_eq!((busy(&at(10, 100), &at(9, 200)), busy(&at(10, 100), &at(10, 100))), (None, None));
    }
}
