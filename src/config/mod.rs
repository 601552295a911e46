//! The settings: every `TRI_*` environment variable, read once, in this room only.

mod fault;
pub mod host;
mod keep;
mod plans;
#[cfg(test)]
pub mod testing;
mod variables;

pub use fault::{Fault, Slow};
pub use keep::Keep;
pub use variables::{VARIABLES, Variable};

use crate::plan::{Mode, Objective, Quota};
use std::path::PathBuf;
use std::sync::OnceLock;

/// The Vulkan device to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gpu {
    /// The engine chooses.
    Auto,
    /// None.
    Off,
    /// Mesa's CPU implementation, for tests.
    Lavapipe,
    /// The device with this index.
    Index(u8),
}

/// The NPU to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Npu {
    /// The engine chooses among real devices.
    Auto,
    /// None.
    Off,
    /// The simulator; named `npu-sim` in every output.
    Sim,
}

/// How weights are held for the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The faster one by the catalogue; the stock one where the catalogue says nothing.
    Auto,
    /// What llama.cpp's CPU backend would choose by itself: repacked wherever it can.
    Stock,
    /// As in the file.
    Plain,
    /// As `Stock`, and weights in plain buffers are converted again for each graph. For tests.
    Convert,
}

/// All settings of this process that are not paths; those go through [`host::Host::path`], which keeps every byte.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `TRI_GPU`.
    pub gpu: Gpu,
    /// `TRI_NPU`.
    pub npu: Npu,
    /// `TRI_LAYOUT`.
    pub layout: Layout,
    /// `TRI_LOG`.
    pub log: log::LevelFilter,
    /// `TRI_TRACE`.
    pub trace: bool,
    /// `TRI_MODE`.
    pub mode: Mode,
    /// `TRI_OBJECTIVE`.
    pub objective: Objective,
    /// `TRI_QUOTA`.
    pub quota: Option<Quota>,
    /// `TRI_FAULT`.
    pub fault: Option<Fault>,
    /// The folder for what can be computed again, such as compiled shaders: `$XDG_CACHE_HOME/ggml-tri`.
    pub cache: Option<PathBuf>,
    /// `TRI_PROFILE`.
    pub profile: Keep,
    /// Names that start with `TRI_` and are none of ours: probably typing mistakes.
    pub unknown: Vec<String>,
}

/// A variable holds something that it does not accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}='{value}' is not valid; allowed: {allowed}. Correct it or unset it.")]
pub struct ConfigError {
    /// The variable.
    pub name: &'static str,
    /// What it holds.
    pub value: String,
    /// What it accepts.
    pub allowed: &'static str,
}

impl Config {
    /// Reads the settings of this process, once; later calls give the same answer.
    ///
    /// # Errors
    /// The first malformed variable.
    pub fn get() -> Result<&'static Config, ConfigError> {
        static CONFIG: OnceLock<Result<Config, ConfigError>> = OnceLock::new();
        CONFIG
            .get_or_init(|| {
                // Values that are not UTF-8 are shown with replacement characters and then refused or used as such.
                let pairs = std::env::vars_os()
                    .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
                let path = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
                let cache = path("XDG_CACHE_HOME").or_else(|| path("HOME").map(|home| home.join(".cache")));
                let profile = Keep::of(path("TRI_PROFILE"), path("XDG_STATE_HOME"), path("HOME"));
                Config::parse(pairs).map(|c| Config { cache: cache.map(|c| c.join("ggml-tri")), profile, ..c })
            })
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Parses `(name, value)` pairs; names that do not start with `TRI_` are skipped, empty values count as unset.
    ///
    /// # Errors
    /// The first malformed variable in the order of [`VARIABLES`].
    pub fn parse(pairs: impl Iterator<Item = (String, String)>) -> Result<Config, ConfigError> {
        let pairs: Vec<_> = pairs.filter(|(name, _)| name.starts_with("TRI_")).collect();
        let value = |name: &str| pairs.iter().find(|(n, v)| n == name && !v.is_empty()).map(|(_, v)| v.as_str());
        let mut unknown: Vec<_> = pairs.iter().map(|(n, _)| n.clone()).filter(|n| variable(n).is_none()).collect();
        unknown.sort();
        Ok(Config {
            gpu: read(&value, "TRI_GPU", Gpu::Auto, gpu)?,
            npu: read(&value, "TRI_NPU", Npu::Auto, npu)?,
            layout: read(&value, "TRI_LAYOUT", Layout::Auto, layout)?,
            log: read(&value, "TRI_LOG", log::LevelFilter::Info, level)?,
            trace: read(&value, "TRI_TRACE", false, trace)?,
            mode: read(&value, "TRI_MODE", Mode::Off, plans::mode)?,
            objective: read(&value, "TRI_OBJECTIVE", Objective::Speed, plans::objective)?,
            quota: read(&value, "TRI_QUOTA", None, plans::quota)?,
            fault: read(&value, "TRI_FAULT", None, fault::read)?,
            cache: None,
            profile: Keep::NoHome,
            unknown,
        })
    }
}

/// The list entry of a variable.
fn variable(name: &str) -> Option<&'static Variable> {
    VARIABLES.iter().find(|v| v.name == name)
}

fn read<'a, T>(
    value: &impl Fn(&str) -> Option<&'a str>,
    name: &'static str,
    default: T,
    parse: fn(&str) -> Option<T>,
) -> Result<T, ConfigError> {
    let Some(text) = value(name) else { return Ok(default) };
    parse(text).ok_or_else(|| ConfigError {
        name,
        value: text.to_owned(),
        allowed: variable(name).map_or("", |v| v.allowed),
    })
}

fn gpu(text: &str) -> Option<Gpu> {
    match text {
        "auto" => Some(Gpu::Auto),
        "off" => Some(Gpu::Off),
        "lavapipe" => Some(Gpu::Lavapipe),
        _ => text.parse().ok().filter(|i| *i <= 15).map(Gpu::Index),
    }
}

fn npu(text: &str) -> Option<Npu> {
    match text {
        "auto" => Some(Npu::Auto),
        "off" => Some(Npu::Off),
        "sim" => Some(Npu::Sim),
        _ => None,
    }
}

fn layout(text: &str) -> Option<Layout> {
    match text {
        "auto" => Some(Layout::Auto),
        "stock" => Some(Layout::Stock),
        "plain" => Some(Layout::Plain),
        "convert" => Some(Layout::Convert),
        _ => None,
    }
}

fn level(text: &str) -> Option<log::LevelFilter> {
    match text {
        "error" => Some(log::LevelFilter::Error),
        "warn" => Some(log::LevelFilter::Warn),
        "info" => Some(log::LevelFilter::Info),
        "debug" => Some(log::LevelFilter::Debug),
        "off" => Some(log::LevelFilter::Off),
        _ => None,
    }
}

fn trace(text: &str) -> Option<bool> {
    match text {
        "off" => Some(false),
        "gpu" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineKind;

    fn parse(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::parse(pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())))
    }

    #[test]
    fn unset_and_empty_variables_give_the_listed_defaults() {
        let unset = parse(&[]).unwrap();
        let defaults: Vec<_> =
            VARIABLES.iter().filter(|v| !v.default.starts_with('(')).map(|v| (v.name, v.default)).collect();
        assert_eq!(unset, parse(&defaults).unwrap());
        assert_eq!(unset, parse(&[("TRI_GPU", ""), ("TRI_FAULT", "")]).unwrap());
    }

    #[test]
    fn a_malformed_value_is_refused_with_name_value_and_what_is_allowed() {
        for (name, value) in [
            ("TRI_GPU", "16"),
            ("TRI_NPU", "on"),
            ("TRI_LAYOUT", "Plain"),
            ("TRI_LOG", "verbose"),
            ("TRI_MODE", "on"),
            ("TRI_OBJECTIVE", "heat"),
            ("TRI_QUOTA", "cpu"),
            ("TRI_QUOTA", "cpu:0"),
            ("TRI_QUOTA", "cpu:1,cpu:2"),
            ("TRI_QUOTA", "gpu:-1,cpu:2"),
            ("TRI_QUOTA", "gpu:inf"),
            ("TRI_FAULT", "alloc@0"),
            ("TRI_FAULT", "alloc"),
            ("TRI_FAULT", "slow:tpu:8@1-2"),
            ("TRI_FAULT", "slow:cpu:1@1-2"),
            ("TRI_FAULT", "slow:cpu:2@9-2"),
        ] {
            let message = parse(&[(name, value)]).unwrap_err().to_string();
            assert!(message.contains(&format!("{name}='{value}'")), "{message}");
            assert!(message.contains(variable(name).unwrap().allowed), "{message}");
        }
    }

    #[test]
    fn every_fault_and_index_is_read() {
        let config = parse(&[("TRI_FAULT", "panic@3"), ("TRI_GPU", "2"), ("TRI_LAYOUT", "convert")]).unwrap();
        assert_eq!((config.fault, config.gpu), (Some(Fault::Panic(3)), Gpu::Index(2)));
        assert_eq!(config.layout, Layout::Convert);
        let fault = |text| parse(&[("TRI_FAULT", text)]).unwrap().fault;
        assert_eq!(fault("vulkan:lost@2"), Some(Fault::GpuLost(2)));
        assert_eq!(fault("vulkan:alloc@1"), Some(Fault::GpuAlloc(1)));
        let slow = Slow { engine: EngineKind::Cpu, factor: 8, graphs: (10, 90) };
        assert_eq!(fault("slow:cpu:8@10-90"), Some(Fault::Slow(slow)));
    }

    #[test]
    fn a_quota_is_read() {
        let config = parse(&[("TRI_QUOTA", "cpu:1,gpu:0.5"), ("TRI_MODE", "frozen")]).unwrap();
        let shares = vec![(EngineKind::Cpu, 1.0), (EngineKind::Gpu, 0.5)];
        assert_eq!((config.quota, config.mode), (Some(Quota { shares }), Mode::Frozen));
    }

    #[test]
    fn names_that_are_none_of_ours_are_reported_not_refused() {
        assert_eq!(parse(&[("TRI_LAYUOT", "plain"), ("PATH", "/bin")]).unwrap().unknown, ["TRI_LAYUOT"]);
    }
}
