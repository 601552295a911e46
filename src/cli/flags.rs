//! What a command line for a llama.cpp tool says about devices. Pure text; nothing is looked up.
//!
//! Which words are values of the flag before them is known only to the tool, so every word is compared: a prompt that
//! is exactly `--backend` cannot be given together with ours.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::stop::Stop;
use super::tools::{DRAFT, Tool};

/// Flags that set up the host's own thread pool, which a device other than its CPU backend does not get.
const POOL: &[&str] = &[
    "-C",
    "--cpu-mask",
    "-Cr",
    "--cpu-range",
    "--cpu-strict",
    "--prio",
    "--poll",
    "-Cb",
    "--cpu-mask-batch",
    "-Crb",
    "--cpu-range-batch",
    "--cpu-strict-batch",
    "--prio-batch",
    "--poll-batch",
    "--spec-draft-cpu-mask",
    "-Cd",
    "--cpu-mask-draft",
    "--spec-draft-cpu-range",
    "-Crd",
    "--cpu-range-draft",
    "--spec-draft-cpu-strict",
    "--cpu-strict-draft",
    "--spec-draft-prio",
    "--prio-draft",
    "--spec-draft-poll",
    "--poll-draft",
    "--spec-draft-cpu-mask-batch",
    "-Cbd",
    "--cpu-mask-batch-draft",
    "--spec-draft-cpu-range-batch",
    "-Crbd",
    "--cpu-range-batch-draft",
    "--spec-draft-cpu-strict-batch",
    "--cpu-strict-batch-draft",
    "--spec-draft-prio-batch",
    "--prio-batch-draft",
    "--spec-draft-poll-batch",
    "--poll-batch-draft",
];

/// Flags that bring a draft model.
const DRAFT_MODEL: &[&str] = &[
    "--spec-draft-model",
    "-md",
    "--model-draft",
    "--spec-draft-hf",
    "-hfd",
    "-hfrd",
    "--hf-repo-draft",
    "--fim-qwen-7b-spec",
    "--fim-qwen-14b-spec",
];

/// The flags that say how a model is loaded, and how it is split over devices.
const LOAD_MODE: &[&str] = &["--load-mode", "-lm"];
const SPLIT_MODE: &[&str] = &["--split-mode", "-sm"];

/// Whether weights may be repacked, as the command line says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repack {
    /// Yes.
    On,
    /// No.
    Off,
    /// Both, one after the other: llama-bench only.
    Both,
}

/// What a command line says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The flag that named the devices.
    pub devices: Option<String>,
    /// The flag that named the draft's devices.
    pub draft_devices: Option<String>,
    /// Whether a draft model was named.
    pub draft_model: bool,
    /// The thread pool flags, in order, each once.
    pub pool: Vec<String>,
    /// The last word on repacking.
    pub repack: Option<Repack>,
    /// How a model is loaded; several values for llama-bench only.
    pub load_modes: Vec<String>,
    /// How a model is split; several values for llama-bench only.
    pub split_modes: Vec<String>,
    /// Where `--rpc` stands, if it is given: it brings devices, so their names may only come behind its value.
    pub rpc: Option<usize>,
}

/// Takes every `--backend NAME` and `--backend=NAME` out of the arguments; the last one counts.
///
/// # Errors
/// `--backend` stands last, or its name is empty.
pub fn take_backend(args: &[OsString]) -> Result<(Vec<OsString>, Option<OsString>), Stop> {
    let mut rest = Vec::with_capacity(args.len());
    let mut backend = None;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--backend" {
            backend = Some(args.next().cloned().unwrap_or_default());
        } else if let Some(name) = arg.as_bytes().strip_prefix(b"--backend=") {
            backend = Some(OsString::from_vec(name.to_vec()));
        } else {
            rest.push(arg.clone());
        }
    }
    if backend.as_ref().is_some_and(|name| name.is_empty()) {
        return Err(Stop::usage("--backend needs a name, for example '--backend tri' or '--backend cpu'."));
    }
    Ok((rest, backend))
}

/// Reads what the arguments of this tool say.
pub fn read(tool: &Tool, args: &[OsString]) -> Said {
    let mut said = Said::default();
    let flags = tool.devices.map_or(&[][..], |devices| devices.flags);
    for (at, arg) in args.iter().enumerate() {
        let flag = spelled(arg);
        let known = |list: &[&str]| list.contains(&flag.as_str());
        if known(flags) {
            said.devices = Some(flag);
        } else if tool.draft && known(DRAFT) {
            said.draft_devices = Some(flag);
        } else if tool.draft && known(DRAFT_MODEL) {
            said.draft_model = true;
        } else if known(POOL) {
            if !said.pool.contains(&flag) {
                said.pool.push(flag);
            }
        } else if known(&["-nr", "--no-repack"]) {
            said.repack = Some(Repack::Off);
        } else if flag == "--repack" {
            said.repack = Some(repack(tool, args.get(at + 1)));
        } else if known(LOAD_MODE) {
            add_mode(tool, &mut said.load_modes, args.get(at + 1));
        } else if known(SPLIT_MODE) {
            add_mode(tool, &mut said.split_modes, args.get(at + 1));
        } else if known(&["--rpc", "-rpc"]) {
            said.rpc = Some(at);
        }
    }
    said
}

/// The flag as llama.cpp compares it: in long flags an underscore is a hyphen.
fn spelled(arg: &OsStr) -> String {
    let text = arg.to_string_lossy();
    if text.starts_with("--") { text.replace('_', "-") } else { text.into_owned() }
}

/// llama-bench's `--repack` has a list of 0 and 1 behind it; everywhere else it stands alone.
fn repack(tool: &Tool, value: Option<&OsString>) -> Repack {
    if tool.name != "llama-bench" {
        return Repack::On;
    }
    let text = value.map(|v| v.to_string_lossy().into_owned()).unwrap_or_default();
    match (text.contains('0'), text.contains('1')) {
        (true, true) => Repack::Both,
        (true, false) => Repack::Off,
        _ => Repack::On,
    }
}

/// llama-bench runs every value that it is given; everywhere else the last one counts.
fn add_mode(tool: &Tool, modes: &mut Vec<String>, value: Option<&OsString>) {
    let text = value.map(|v| v.to_string_lossy().into_owned()).unwrap_or_default();
    match tool.name {
        "llama-bench" => modes.extend(text.split(',').map(str::to_owned)),
        _ => *modes = vec![text],
    }
}

#[cfg(test)]
mod tests {
    use super::super::tools::row;
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn said(tool: &str, text: &str) -> Said {
        read(row(tool, &[]).unwrap().0, &words(text))
    }

    #[test]
    fn the_backend_is_taken_out_and_the_last_one_counts() {
        let (rest, backend) = take_backend(&words("-m x --backend cpu -n 1 --backend=tri")).unwrap();
        assert_eq!((rest, backend), (words("-m x -n 1"), Some("tri".into())));
        assert_eq!(take_backend(&words("-m --backends")).unwrap(), (words("-m --backends"), None));
    }

    #[test]
    fn a_backend_without_a_name_is_refused() {
        for text in ["-m x --backend", "--backend=", "--backend= -m x"] {
            assert_eq!(take_backend(&words(text)).unwrap_err().code, super::super::stop::USAGE, "{text}");
        }
    }

    #[test]
    fn d_is_a_device_for_the_rpc_server_and_a_depth_for_the_bench() {
        assert_eq!(said("ggml-rpc-server", "-d CPU").devices.as_deref(), Some("-d"));
        assert_eq!(said("llama-bench", "-d 512").devices, None);
        assert_eq!(said("llama-bench", "-dev TRI0").devices.as_deref(), Some("-dev"));
    }

    #[test]
    fn long_flags_may_have_underscores() {
        let said = said("llama-server", "--spec_draft_device TRI0 --model_draft x --cpu_mask f");
        assert_eq!(said.draft_devices.as_deref(), Some("--spec-draft-device"));
        assert!(said.draft_model);
        assert_eq!(said.pool, ["--cpu-mask"]);
    }

    #[test]
    fn the_last_word_on_repacking_counts() {
        assert_eq!(said("llama-server", "-nr").repack, Some(Repack::Off));
        assert_eq!(said("llama-server", "--no-repack --repack").repack, Some(Repack::On));
        assert_eq!(said("llama-bench", "--repack 0").repack, Some(Repack::Off));
        assert_eq!(said("llama-bench", "--repack 0,1").repack, Some(Repack::Both));
        assert_eq!(said("llama-bench", "-r 1").repack, None);
    }
}
