//! `tri doctor`: what this machine has, what fits together, and what to do where it does not.

use std::fs;
use std::path::{Path, PathBuf};

use ggml_tri::chip::{cpu, memory};
use ggml_tri::config::Config;
use ggml_tri::config::host::Host;
use serde::Serialize;

use super::builds::{self, Build};
use super::find::{self, Places};
use super::ggml::{self, Ggml, Loading};
use super::launch;
use super::stop::Stop;

/// How one look turned out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// Not as it should be; there is a remedy.
    Failed,
    /// It could not be checked.
    Unknown,
    /// A fact that is neither good nor bad.
    Fact,
}

/// One line of the report.
#[derive(Debug, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it turned out.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// The whole report.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The exit code: 0, 1 if a check failed, 2 if none failed and one could not be made.
    pub exit: u8,
    /// The lines, in the order in which they are shown.
    pub checks: Vec<Check>,
    /// The host's ggml, if there is one.
    pub host: Option<Ggml>,
    /// The plugin builds that can be opened.
    pub plugins: Vec<Build>,
    /// The CPU.
    pub cpu: cpu::Cpu,
    /// The memory that this process may use, in bytes.
    pub memory: memory::Memory,
}

/// Tools by which a host is recognised, the most used first.
const PROOF: &[&str] = &["llama-server", "llama-cli", "llama-completion", "llama-bench"];

/// Looks at everything; `folder` stands for `TRI_LLAMA_DIR`, `root` is where the machine's file system starts.
pub fn examine(host: &Host, folder: Option<PathBuf>, root: &Path) -> Report {
    let mut checks = vec![settings()];
    let mut places = launch::places(host);
    places.folder = folder.or(places.folder);
    let ggml = look_at_host(&places, &mut checks);
    let plugins = look_at_plugins(host, ggml.as_ref(), &mut checks);
    let cpu = cpu::read(root);
    let memory = memory::available(root);
    checks.extend([look_at_cpu(&cpu), look_at_memory(memory)]);
    checks.extend(look_at_limits(&fs::read_to_string(root.join("proc/self/limits")).unwrap_or_default()));
    checks.extend([gpu(root), npu(root)]);
    Report { exit: exit(&checks), checks, host: ggml, plugins, cpu, memory }
}

/// A failed check outweighs one that could not be made.
fn exit(checks: &[Check]) -> u8 {
    let any = |state| checks.iter().any(|check| check.state == state);
    match (any(State::Failed), any(State::Unknown)) {
        (true, _) => 1,
        (false, true) => 2,
        (false, false) => 0,
    }
}

fn check(name: &'static str, state: State, found: impl Into<String>) -> Check {
    Check { name, state, found: found.into(), remedy: None }
}

fn failed(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
    Check { name, state: State::Failed, found: found.into(), remedy: Some(remedy.into()) }
}

/// A message of ours has the finding before the colon and the remedy behind it.
fn stopped(name: &'static str, stop: &Stop) -> Check {
    match stop.message.rsplit_once(": ") {
        Some((found, remedy)) => failed(name, found, remedy),
        None => failed(name, &stop.message, "Correct that and run 'tri doctor' again."),
    }
}

fn settings() -> Check {
    match Config::get() {
        Err(e) => failed("settings", e.to_string(), format!("Set {} to one of: {}.", e.name, e.allowed)),
        Ok(config) if config.unknown.is_empty() => check("settings", State::Ok, "every TRI_ variable is valid"),
        Ok(config) => failed(
            "settings",
            format!("no such setting: {}", config.unknown.join(", ")),
            "Correct the name ('tri doctor --env' lists them) or unset it.",
        ),
    }
}

fn look_at_host(places: &Places, checks: &mut Vec<Check>) -> Option<Ggml> {
    let tools: Vec<_> = PROOF.iter().map(|tool| places.find(tool.as_ref())).collect();
    let Some(tool) = tools.iter().find_map(|tool| tool.as_ref().ok()) else {
        checks.extend(tools.into_iter().find_map(Result::err).map(|stop| stopped("llama.cpp", &stop)));
        return None;
    };
    checks.push(check("llama.cpp", State::Ok, tool.display().to_string()));
    match ggml::of(tool) {
        Err(stop) => {
            checks.push(stopped("host's ggml", &stop));
            None
        }
        Ok(ggml) => {
            checks.push(check("host's ggml", State::Ok, format!("{} ({})", ggml.version, ggml.base.display())));
            let loading = match ggml.loading {
                Loading::Files => "from files; GGML_BACKEND_PATH brings one more",
                Loading::Linked => "linked in (no GGML_BACKEND_DL); GGML_BACKEND_PATH brings one more all the same",
            };
            checks.push(check("host's backends", State::Ok, loading));
            Some(ggml)
        }
    }
}

fn look_at_plugins(host: &Host, ggml: Option<&Ggml>, checks: &mut Vec<Check>) -> Vec<Build> {
    let own = match find::own() {
        Ok(own) => own,
        Err(stop) => {
            checks.push(Check { state: State::Unknown, ..stopped("plugin builds", &stop) });
            return Vec::new();
        }
    };
    let set = host.path("TRI_PLUGIN");
    let mut builds = Vec::new();
    for file in builds::files(&own).iter().chain(&set) {
        match builds::open(file) {
            Ok(build) => builds.push(build),
            Err(stop) => checks.push(stopped("plugin builds", &stop)),
        }
    }
    let listed: Vec<_> = builds.iter().map(|b| format!("{} ({})", b.version, b.file.display())).collect();
    if listed.is_empty() {
        let remedy = "Run 'tri install --plugin FILE', or name a build in TRI_PLUGIN.";
        checks.push(failed("plugin builds", "none", remedy));
    } else {
        checks.push(check("plugin builds", State::Ok, listed.join(", ")));
    }
    checks.push(match ggml.map(|ggml| builds::choose(&own, set.as_deref(), ggml)) {
        Some(Ok(build)) => check("plugin fits the host", State::Ok, build.file.display().to_string()),
        Some(Err(stop)) => stopped("plugin fits the host", &stop),
        None => check("plugin fits the host", State::Unknown, "the host's ggml is not known"),
    });
    builds
}

fn look_at_cpu(cpu: &cpu::Cpu) -> Check {
    if cpu.threads == 0 {
        return check("CPU", State::Unknown, "/proc/cpuinfo cannot be read");
    }
    check("CPU", State::Fact, format!("{}, {} threads, {}", cpu.model, cpu.threads, cpu.features.join(" ")))
}

fn look_at_memory(memory: memory::Memory) -> Check {
    const MIB: u64 = 1 << 20;
    if memory.total == 0 {
        return check("memory", State::Unknown, "/proc/meminfo cannot be read");
    }
    let found =
        format!("{} MiB, {} MiB available (cgroup limits included)", memory.total / MIB, memory.available / MIB);
    check("memory", State::Fact, found)
}

/// The limits of this process, from the text of `/proc/self/limits`.
fn look_at_limits(limits: &str) -> [Check; 2] {
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
        Some(text) => check("locked memory", State::Fact, format!("limit {text} bytes (matters for --mlock)")),
    };
    [files, locked]
}

fn gpu(root: &Path) -> Check {
    let mut vendors: Vec<_> = entries(&root.join("sys/class/drm"))
        .into_iter()
        .filter(|name| name.strip_prefix("card").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit())))
        .filter_map(|name| fs::read_to_string(root.join("sys/class/drm").join(name).join("device/vendor")).ok())
        .map(|vendor| match vendor.trim() {
            "0x1002" => "AMD".to_owned(),
            "0x10de" => "NVIDIA".to_owned(),
            "0x8086" => "Intel".to_owned(),
            other => format!("PCI vendor {other}"),
        })
        .collect();
    vendors.sort_unstable();
    let nodes = entries(&root.join("dev/dri")).into_iter().filter(|name| name.starts_with("renderD")).count();
    let found = match (vendors.is_empty(), nodes) {
        (true, 0) => "absent".to_owned(),
        (true, nodes) => format!("present: {nodes} render nodes"),
        (false, nodes) => format!("present: {}; {nodes} render nodes", vendors.join(", ")),
    };
    check("GPU", State::Fact, format!("{found} (no engine in this version)"))
}

fn npu(root: &Path) -> Check {
    let nodes = entries(&root.join("dev/accel"));
    let found = if nodes.is_empty() { "absent".to_owned() } else { format!("present: {}", nodes.join(", ")) };
    check("NPU", State::Fact, format!("{found} (no engine in this version)"))
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

    #[test]
    fn the_exit_code_says_failed_before_unknown() {
        let of = |states: &[State]| exit(&states.iter().map(|state| check("x", *state, "")).collect::<Vec<_>>());
        assert_eq!(of(&[State::Ok, State::Fact]), 0);
        assert_eq!(of(&[State::Ok, State::Unknown, State::Failed]), 1);
        assert_eq!(of(&[State::Unknown, State::Fact]), 2);
    }

    #[test]
    fn a_low_limit_fails_with_a_remedy() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max open files            64                   1024                 files     \n\
                    Max locked memory         8388608              8388608              bytes     \n";
        let [files, locked] = look_at_limits(text);
        assert_eq!((files.state, locked.state), (State::Failed, State::Fact));
        assert!(files.found.contains("64") && files.remedy.is_some());
        assert!(look_at_limits("").iter().all(|check| check.state == State::Unknown));
    }

    #[test]
    fn devices_are_facts() {
        let root = tempfile::tempdir().unwrap();
        let make = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert!(gpu(root.path()).found.starts_with("absent") && npu(root.path()).found.starts_with("absent"));
        make("sys/class/drm/card1/device/vendor", "0x1002\n");
        make("sys/class/drm/card1-DP-1/device/vendor", "0x1002\n");
        make("dev/dri/renderD128", "");
        make("dev/accel/accel0", "");
        assert_eq!(gpu(root.path()).found, "present: AMD; 1 render nodes (no engine in this version)");
        assert_eq!(npu(root.path()).found, "present: accel0 (no engine in this version)");
    }
}
