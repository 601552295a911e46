//! The tools of llama.cpp and how each is told which devices to use, one row per tool.
//!
//! Read off the sources of llama.cpp with ggml 0.25.3 and 0.26.0, which agree in all of this: `common/arg.cpp`
//! (`--device`, `LLAMA_ARG_DEVICE`, `--spec-draft-device`), `tools/llama-bench/llama-bench.cpp`,
//! `tools/rpc/rpc-server.cpp`, `tests/test-backend-ops.cpp`, `app/llama.cpp`.

use std::ffi::OsString;

/// How a tool is told which devices to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Devices {
    /// The spellings of its flag; the first is the one that we add.
    pub flags: &'static [&'static str],
    /// The variable that says the same.
    pub variable: Option<&'static str>,
    /// What stands between several names; without it the tool takes one device.
    pub join: Option<&'static str>,
    /// The value that means "the CPU alone".
    pub cpu: &'static str,
    /// Whether it has `--list-devices`.
    pub lists: bool,
}

/// The flags of the draft model's devices; no variable says the same.
pub const DRAFT: &[&str] = &["--spec-draft-device", "-devd", "--device-draft"];

/// The tools that use llama.cpp's common argument parser.
const COMMON: Devices = Devices {
    flags: &["--device", "-dev"],
    variable: Some("LLAMA_ARG_DEVICE"),
    join: Some(","),
    cpu: "none",
    lists: true,
};
/// llama-bench: a comma separates runs, a slash the devices of one run; it reads no variable.
const BENCH: Devices =
    Devices { flags: &["--device", "-dev"], variable: None, join: Some("/"), cpu: "none", lists: true };
/// ggml-rpc-server: `-d` is the device here, and the CPU is a device like any other.
const RPC: Devices = Devices { flags: &["--device", "-d"], variable: None, join: Some(","), cpu: "CPU", lists: false };
/// test-backend-ops: one device, by its whole name.
const OPS: Devices = Devices { flags: &["-b"], variable: None, join: None, cpu: "CPU", lists: false };

/// One tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tool {
    /// The name of its executable.
    pub name: &'static str,
    /// How it is told the devices; `None` for a tool that cannot be told.
    pub devices: Option<Devices>,
    /// Whether it takes the flags of [`DRAFT`].
    pub draft: bool,
}

const fn tool(name: &'static str, devices: Devices) -> Tool {
    Tool { name, devices: Some(devices), draft: false }
}

const fn drafting(name: &'static str) -> Tool {
    Tool { name, devices: Some(COMMON), draft: true }
}

const fn without(name: &'static str) -> Tool {
    Tool { name, devices: None, draft: false }
}

/// Every tool that the launcher knows.
pub const TOOLS: &[Tool] = &[
    drafting("llama-server"),
    drafting("llama-cli"),
    drafting("llama-speculative"),
    drafting("llama-speculative-simple"),
    tool("llama-completion", COMMON),
    tool("llama-bench", BENCH),
    tool("llama-batched-bench", COMMON),
    tool("llama-perplexity", COMMON),
    tool("llama-imatrix", COMMON),
    tool("llama-embedding", COMMON),
    tool("llama-mtmd-cli", COMMON),
    tool("llama-tts", COMMON),
    tool("llama-parallel", COMMON),
    tool("llama-batched", COMMON),
    tool("llama-lookahead", COMMON),
    tool("llama-lookup", COMMON),
    tool("llama-lookup-create", COMMON),
    tool("llama-lookup-stats", COMMON),
    tool("llama-retrieval", COMMON),
    tool("llama-passkey", COMMON),
    tool("llama-diffusion-cli", COMMON),
    tool("llama-eval-callback", COMMON),
    tool("llama-debug", COMMON),
    tool("llama-mtmd-debug", COMMON),
    tool("llama-idle", COMMON),
    tool("llama-results", COMMON),
    tool("llama-finetune", COMMON),
    tool("llama-cvector-generator", COMMON),
    tool("llama-export-lora", COMMON),
    tool("llama-fit-params", COMMON),
    tool("llama-tokenize", COMMON),
    tool("ggml-rpc-server", RPC),
    tool("test-backend-ops", OPS),
    without("llama-quantize"),
    without("llama-simple"),
    without("llama-simple-chat"),
    without("llama-gguf"),
    without("llama-gguf-hash"),
    without("llama-gguf-split"),
    without("llama-lookup-merge"),
    without("llama-convert-llama2c-to-ggml"),
];

/// The program `llama`, which holds several tools, and its words for them.
pub const APP: &str = "llama";
const APP_WORDS: &[(&str, &str)] = &[
    ("serve", "llama-server"),
    ("server", "llama-server"),
    ("cli", "llama-cli"),
    ("client", "llama-cli"),
    ("completion", "llama-completion"),
    ("complete", "llama-completion"),
    ("bench", "llama-bench"),
    ("batched-bench", "llama-batched-bench"),
    ("fit-params", "llama-fit-params"),
    ("perplexity", "llama-perplexity"),
    ("quantize", "llama-quantize"),
];

/// The row of a tool, and how many of its arguments come before its flags (1 for `llama serve`, else 0).
pub fn row(name: &str, args: &[OsString]) -> Option<(&'static Tool, usize)> {
    let find = |name: &str| TOOLS.iter().find(|tool| tool.name == name);
    if name != APP {
        return find(name).map(|tool| (tool, 0));
    }
    let word = args.first()?.to_str()?;
    let (_, name) = APP_WORDS.iter().find(|(known, _)| *known == word)?;
    find(name).map(|tool| (tool, 1))
}

/// The names under which `tri install` links itself: every tool for users that can be told its devices.
pub fn linked() -> impl Iterator<Item = &'static str> {
    TOOLS
        .iter()
        .filter(|tool| tool.devices.is_some() && !tool.name.starts_with("test-"))
        .map(|tool| tool.name)
        .chain([APP])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tool_has_two_rows_and_every_word_of_the_app_has_one() {
        let mut names: Vec<_> = TOOLS.iter().map(|tool| tool.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TOOLS.len());
        for (word, name) in APP_WORDS {
            assert_eq!(row(APP, &[word.into()]).map(|(tool, skip)| (tool.name, skip)), Some((*name, 1)));
        }
    }

    #[test]
    fn an_unknown_tool_has_no_row() {
        assert_eq!(row("llama-nothing", &[]), None);
        assert_eq!(row(APP, &[]), None);
        assert_eq!(row(APP, &["update".into()]), None);
    }
}
