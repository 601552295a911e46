//! What the caller gave this process: its command line, and the environment variables of others that `tri` looks at.
//!
//! They are read here so that the environment is read in one room; nothing is interpreted.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::VARIABLES;

/// The variables of the shell, of ggml and of llama.cpp that the launcher looks at.
const FOREIGN: &[&str] = &[
    "PATH",
    "HOME",
    "GGML_BACKEND_PATH",
    "LLAMA_ARG_DEVICE",
    "LLAMA_ARG_SPEC_DRAFT_MODEL",
    "LLAMA_ARG_SPEC_DRAFT_HF_REPO",
    "LLAMA_ARG_REPACK",
    "LLAMA_ARG_NO_REPACK",
    "LLAMA_ARG_LOAD_MODE",
    "LLAMA_ARG_SPLIT_MODE",
];

/// The command line and the variables of one process, as bytes.
#[derive(Debug, Clone, Default)]
pub struct Host {
    /// The arguments, the program's own name first.
    pub args: Vec<OsString>,
    vars: BTreeMap<&'static str, OsString>,
}

impl Host {
    /// Reads them from this process.
    pub fn read() -> Host {
        let names = FOREIGN.iter().copied().chain(VARIABLES.iter().map(|v| v.name));
        Host {
            args: std::env::args_os().collect(),
            vars: names.filter_map(|name| Some((name, std::env::var_os(name)?))).collect(),
        }
    }

    /// A process with these variables and no arguments; names that `tri` does not look at are ignored.
    pub fn with_vars(pairs: &[(&'static str, &str)]) -> Host {
        Host { args: Vec::new(), vars: pairs.iter().map(|(name, value)| (*name, OsString::from(value))).collect() }
    }

    /// The value of a variable that is set, empty or not.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        self.vars.get(name).map(OsString::as_os_str)
    }

    /// The path in a variable; an empty one counts as unset.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.var(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }
}
