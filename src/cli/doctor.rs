//! `tri doctor`: what this machine has, what fits together, and what to do where it does not.

use std::fs;
use std::path::{Path, PathBuf};

use ggml_tri::chip::{cpu, memory};
use ggml_tri::config::host::Host;
use ggml_tri::config::{Config, Gpu};
use ggml_tri::monitor::{Monitor, Readings};
use serde::Serialize;

use super::builds::{self, Build};
use super::find::{self, Places};
use super::ggml::{self, Ggml, Loading};
use super::gpu::{self, Gpus};
use super::launch;
use super::machine;
use super::prefix;
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
    pub name: String,
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
    /// The GPUs.
    pub gpu: Gpus,
    /// What the sensors say at this moment.
    pub sensors: Readings,
}

/// Tools by which a host is recognised, the most used first.
const PROOF: &[&str] = &["llama-server", "llama-cli", "llama-completion", "llama-bench"];

/// Looks at everything; `folder` stands for `TRI_LLAMA_DIR`, `root` is where the machine's file system starts.
pub fn examine(host: &Host, folder: Option<PathBuf>, root: &Path) -> Report {
    let mut checks = vec![settings()];
    let mut places = launch::places(host);
    places.folder = folder.or(places.folder);
    let ggml = look_at_host(&places, &mut checks);
    checks.extend(links(host, &places));
    let plugins = look_at_plugins(host, ggml.as_ref(), &mut checks);
    let cpu = cpu::read(root);
    let memory = memory::available(root);
    checks.extend([machine::cpu(&cpu), machine::memory(memory)]);
    let limits = fs::read_to_string(root.join("proc/self/limits")).unwrap_or_default();
    checks.extend(machine::limits(&limits));
    // A malformed setting has its own line by now.
    let (gpu, looks) = gpu::examine(root, Config::get().map_or(Gpu::Auto, |config| config.gpu));
    checks.extend(looks);
    checks.push(machine::npu(root));
    let sensors = Monitor::find(root).read(0.0);
    checks.extend(machine::sensors(&sensors));
    Report { exit: exit(&checks), checks, host: ggml, plugins, cpu, memory, gpu, sensors }
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

/// A line without a remedy.
pub fn check(name: impl Into<String>, state: State, found: impl Into<String>) -> Check {
    Check { name: name.into(), state, found: found.into(), remedy: None }
}

/// A failed check and what to do about it.
pub fn failed(name: impl Into<String>, found: impl Into<String>, remedy: impl Into<String>) -> Check {
    Check { name: name.into(), state: State::Failed, found: found.into(), remedy: Some(remedy.into()) }
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

/// Whether the links of an installation are what a shell runs: of the one that this executable belongs to, else of the one
/// at the usual place. Nothing is said where nothing is installed.
fn links(host: &Host, places: &Places) -> Option<Check> {
    const TOOL: &str = "llama-server";
    let own = find::own().ok().map(|own| ggml::folder(&own));
    let usual = prefix::of(host, None).ok().map(|prefix| prefix.join("bin"));
    let ours = |bin: &PathBuf| fs::read_link(bin.join(TOOL)).is_ok_and(|target| target == Path::new("tri"));
    let bin = own.into_iter().chain(usual).find(ours)?;
    let found = match places.first(TOOL.as_ref()) {
        _ if places.leads(&bin, TOOL.as_ref()) => {
            return Some(check("links", State::Ok, format!("{} stands first on PATH", bin.display())));
        }
        Some(other) => format!("'{TOOL}' runs {}, not the link in {}", other.join(TOOL).display(), bin.display()),
        None => format!("{} is not on PATH", bin.display()),
    };
    let remedy = format!("Put it first ('export PATH={}:$PATH'), or use 'tri run TOOL'.", bin.display());
    Some(failed("links", found, remedy))
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
            Ok(build) if builds.contains(&build) => {}
            Ok(build) => builds.push(build),
            Err(stop) => checks.push(stopped("plugin builds", &stop)),
        }
    }
    let listed: Vec<_> = builds.iter().map(|b| format!("{} ({})", b.version, b.file.display())).collect();
    if listed.is_empty() {
        let version = ggml.map_or("VERSION", |ggml| ggml.version.as_str());
        let remedy = format!(
            "Make one ('scripts/plugin {version}' in the source of ggml-tri prints its path) and run 'tri install --plugin \
             FILE', or name it in TRI_PLUGIN."
        );
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
}
