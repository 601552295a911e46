//! What `tri doctor` says about the machine itself: CPU, memory, limits, NPU. The GPU has a file of its own.

use std::fs;
use std::path::Path;

use ggml_tri::chip::cpu::Cpu;
use ggml_tri::chip::memory::Memory;
use ggml_tri::monitor::{Reading, Readings};

use super::doctor::{Check, State, check, failed};

/// The CPU and its features.
pub fn cpu(cpu: &Cpu) -> Check {
    if cpu.threads == 0 {
        return check("CPU", State::Unknown, "/proc/cpuinfo cannot be read");
    }
    check("CPU", State::Fact, format!("{}, {} threads, {}", cpu.model, cpu.threads, cpu.features.join(" ")))
}

/// The memory that this process may use.
pub fn memory(memory: Memory) -> Check {
    const MIB: u64 = 1 << 20;
    if memory.total == 0 {
        return check("memory", State::Unknown, "/proc/meminfo cannot be read");
    }
    let found =
        format!("{} MiB, {} MiB available (cgroup limits included)", memory.total / MIB, memory.available / MIB);
    check("memory", State::Fact, found)
}

/// The limits of this process, from the text of `/proc/self/limits`.
pub fn limits(limits: &str) -> [Check; 2] {
    /// A llama-server with its connections, model files and libraries stays well below this.
    const FILES: u64 = 256;
    let soft = |name: &str| limits.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
    let files = match soft("Max open files") {
        None => check("open files", State::Unknown, "/proc/self/limits cannot be read"),
        Some(text) if text.parse().is_ok_and(|limit: u64| limit < FILES) => failed(
            "open files",
            format!("the limit is {text}, below {FILES}"),
            "Raise it: 'ulimit -n 1024' in the shell, or LimitNOFILE= in the service.",
        ),
        Some(text) => check("open files", State::Ok, format!("limit {text}")),
    };
    let locked = match soft("Max locked memory") {
        None => check("locked memory", State::Unknown, "/proc/self/limits cannot be read"),
        Some(text) => {
            check("locked memory", State::Fact, format!("limit {text} bytes (matters for --load-mode mmap+mlock)"))
        }
    };
    [files, locked]
}

/// The neural processors.
pub fn npu(root: &Path) -> Check {
    let nodes = entries(&root.join("dev/accel"));
    let found = if nodes.is_empty() { "absent".to_owned() } else { format!("present: {}", nodes.join(", ")) };
    check("NPU", State::Fact, format!("{found} (no engine in this version)"))
}

/// What the processors' sensors say at this moment; nothing where there are none, as in most virtual machines.
pub fn sensors(readings: &Readings) -> Vec<Check> {
    let line = |(name, reading): (&str, &Reading)| {
        let parts = [
            reading.celsius.map(|n| format!("{n:.0} degrees Celsius")),
            reading.hertz.map(|n| format!("{:.2} GHz", n / 1e9)),
            reading.watts.map(|n| format!("{n:.1} W")),
            reading.busy.map(|n| format!("{:.0} % busy", 100.0 * n)),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| check(format!("{name} sensors"), State::Fact, parts.join(", ")))
    };
    [("CPU", &readings.cpu), ("GPU", &readings.gpu), ("NPU", &readings.npu)].into_iter().filter_map(line).collect()
}

/// The names in a folder, sorted; none if it is missing.
fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use ggml_tri::monitor::Monitor;

    #[test]
    fn a_low_limit_fails_with_a_remedy() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max open files            64                   1024                 files     \n\
                    Max locked memory         8388608              8388608              bytes     \n";
        let [files, locked] = limits(text);
        assert_eq!((files.state, locked.state), (State::Failed, State::Fact));
        assert!(locked.found.contains("--load-mode mmap+mlock"));
        assert!(files.found.contains("64") && files.remedy.is_some());
        assert!(limits("").iter().all(|check| check.state == State::Unknown));
    }

    #[test]
    fn a_neural_processor_is_a_fact() {
        let root = tempfile::tempdir().unwrap();
        let make = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert!(npu(root.path()).found.starts_with("absent"));
        make("dev/accel/accel0", "");
        assert_eq!(npu(root.path()).found, "present: accel0 (no engine in this version)");
    }

    #[test]
    fn sensors_that_are_there_have_a_line() {
        let apu = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines/amd-apu");
        let lines = sensors(&Monitor::find(&apu).read(0.0));
        let lines: Vec<_> = lines.iter().map(|line| (line.name.as_str(), line.found.as_str())).collect();
        let cpu = ("CPU sensors", "55 degrees Celsius, 3.00 GHz");
        assert_eq!(lines, [cpu, ("GPU sensors", "48 degrees Celsius, 2.70 GHz, 21.2 W, 7 % busy")]);
        assert!(sensors(&Readings::default()).is_empty());
    }
}
