//! Which CPU this is, as far as the speed of ggml's CPU code depends on it.

use std::fs;
use std::path::Path;

/// The features for which ggml-cpu has own code, by the name that `/proc/cpuinfo` gives them.
pub const FEATURES: &[&str] = &[
    "sse4_2",
    "avx",
    "f16c",
    "fma",
    "bmi2",
    "avx2",
    "avx_vnni",
    "avx512f",
    "avx512cd",
    "avx512vl",
    "avx512dq",
    "avx512bw",
    "avx512vbmi",
    "avx512_vnni",
    "avx512_bf16",
    "amx_tile",
    "amx_int8",
    "asimd",
    "asimddp",
    "i8mm",
    "sve",
    "sve2",
];

/// A CPU.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Cpu {
    /// The vendor's name for it; empty where the kernel gives none.
    pub model: String,
    /// Hardware threads that are online.
    pub threads: usize,
    /// Those of [`FEATURES`] that it has, in that order.
    pub features: Vec<&'static str>,
}

/// Reads the CPU of the machine whose file system starts at `root` (`/` for this one); without threads where
/// `/proc/cpuinfo` cannot be read.
pub fn read(root: &Path) -> Cpu {
    parse(&fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default())
}

/// The CPU that the text of `/proc/cpuinfo` describes.
pub fn parse(cpuinfo: &str) -> Cpu {
    let lines = || cpuinfo.lines().filter_map(|line| line.split_once(':')).map(|(k, v)| (k.trim(), v.trim()));
    let first = |names: &[&str]| lines().find(|(k, _)| names.contains(k)).map(|(_, v)| v).unwrap_or_default();
    // x86 calls the list "flags", Arm calls it "Features".
    let flags: Vec<_> = first(&["flags", "Features"]).split_whitespace().collect();
    Cpu {
        model: first(&["model name"]).to_owned(),
        threads: lines().filter(|(k, _)| *k == "processor").count(),
        features: FEATURES.iter().copied().filter(|f| flags.contains(f)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_zen5_is_read() {
        let text = "processor\t: 0\nmodel name\t: AMD RYZEN AI MAX+ 395 w/ Radeon 8060S\n\
                    flags\t\t: fpu sse4_2 avx f16c fma avx2 bmi2 avx512f avx512_vnni avx512_bf16\n\n\
                    processor\t: 1\nmodel name\t: AMD RYZEN AI MAX+ 395 w/ Radeon 8060S\nflags\t\t: fpu\n";
        let cpu = parse(text);
        assert_eq!((cpu.model.as_str(), cpu.threads), ("AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", 2));
        let expected = ["sse4_2", "avx", "f16c", "fma", "bmi2", "avx2", "avx512f", "avx512_vnni", "avx512_bf16"];
        assert_eq!(cpu.features, expected);
    }

    #[test]
    fn a_feature_is_a_whole_word() {
        assert!(parse("processor : 0\nflags : avx512fp16\n").features.is_empty());
    }

    #[test]
    fn text_without_a_cpu_has_no_threads() {
        assert_eq!(parse(""), Cpu { model: String::new(), threads: 0, features: vec![] });
    }
}
