//! Which ggml a real tool runs on, and whether that can load a plugin.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::child;
use super::stop::Stop;

/// How a host gets its backends. Both kinds read `GGML_BACKEND_PATH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loading {
    /// They are files, found at start (`GGML_BACKEND_DL=ON`).
    Files,
    /// They are linked into libggml.so.
    Linked,
}

/// A ggml in shared libraries.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Ggml {
    /// Its `libggml-base.so`.
    pub base: PathBuf,
    /// What its `ggml_version()` returns.
    pub version: String,
    /// How it gets its backends.
    pub loading: Loading,
}

/// The ggml of a real tool.
///
/// # Errors
/// The tool is a script, has ggml linked in statically, or its libggml-base.so does not tell its version.
pub fn of(tool: &Path) -> Result<Ggml, Stop> {
    let base = base(tool)?;
    let version = ask(&base, "ggml_version").map_err(|why| {
        Stop::failed(format!("{} {why}: use a llama.cpp whose ggml is 0.25.3 or newer and whole.", base.display()))
    })?;
    let linked = library(&folder(&base), "libggml.so").and_then(|file| fs::read(file).ok()).is_some_and(|bytes| {
        // The name stands in the list of needed libraries only where the CPU backend is linked.
        bytes.windows(b"libggml-cpu.so".len()).any(|window| window == b"libggml-cpu.so")
    });
    Ok(Ggml { base, version, loading: if linked { Loading::Linked } else { Loading::Files } })
}

/// Has a child of this executable load a library and call its function; the error completes "FILE ...".
pub fn ask(library: &Path, symbol: &str) -> Result<String, String> {
    child::ask(&[OsStr::new("library"), library.as_os_str(), OsStr::new(symbol)], "loads it")
        .map_err(|why| why.to_string())
}

/// The libggml-base.so that the tool uses: the one beside it or in the lib folder next to it, else the one that the
/// system's loader would take.
fn base(tool: &Path) -> Result<PathBuf, Stop> {
    let real = fs::canonicalize(tool)
        .map_err(|e| Stop::failed(format!("{} cannot be read ({e}): check its permissions.", tool.display())))?;
    for place in around(&real) {
        if let Some(file) = library(&place, "libggml-base.so") {
            return Ok(fs::canonicalize(&file).unwrap_or(file));
        }
    }
    if !fs::read(&real).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF")) {
        return Err(Stop::failed(format!(
            "{} is not a program file but a script, so its ggml cannot be found: set TRI_LLAMA_DIR to the folder of the \
             real tools.",
            real.display()
        )));
    }
    let loader = Command::new("ldd").arg(&real).output().map_err(|e| {
        Stop::failed(format!(
            "{} has no libggml-base.so beside it and ldd cannot be run ({e}): install ldd (package libc-bin).",
            real.display()
        ))
    })?;
    let text = String::from_utf8_lossy(&loader.stdout);
    if let Some(base) = resolved(&text) {
        return Ok(base);
    }
    // A library that is missing on the way would hide ggml, so it is told apart from a host without ggml libraries.
    Err(Stop::failed(match missing(&text).as_slice() {
        [] => format!(
            "{} has ggml linked in and cannot load a plugin: use a llama.cpp built with -DBUILD_SHARED_LIBS=ON \
             -DGGML_BACKEND_DL=ON.",
            real.display()
        ),
        names => format!(
            "{} cannot start, the loader does not find {}: install llama.cpp again or set LD_LIBRARY_PATH.",
            real.display(),
            names.join(", ")
        ),
    }))
}

/// The libraries that `ldd` did not find.
fn missing(ldd: &str) -> Vec<&str> {
    ldd.lines().filter_map(|line| line.trim().strip_suffix(" => not found")).collect()
}

/// The libggml-base.so in what `ldd` prints.
fn resolved(ldd: &str) -> Option<PathBuf> {
    ldd.lines().find_map(|line| {
        let (name, rest) = line.trim().split_once(" => ")?;
        let path = rest.split(" (").next()?;
        (name.starts_with("libggml-base.so") && path.starts_with('/')).then(|| PathBuf::from(path))
    })
}

/// The library of this name in a folder, with or without a version behind it; the shortest name first.
fn library(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|file| file.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
        .collect();
    found.sort_unstable();
    found.first().map(|file| folder.join(file))
}

/// The folder that a file lies in.
pub fn folder(file: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new(".")).to_owned()
}

/// Where the libraries of a tool are looked for: beside it, and in the lib folders next to its own.
fn around(tool: &Path) -> [PathBuf; 3] {
    let bin = folder(tool);
    [bin.clone(), bin.join("../lib"), bin.join("../lib64")]
}

/// The backends that lie as files around a tool, by ggml's names for them (`cpu`, `vulkan`, ...).
pub fn backends(tool: &Path) -> Vec<String> {
    let real = fs::canonicalize(tool).unwrap_or_else(|_| tool.to_owned());
    let mut names: Vec<_> = around(&real)
        .iter()
        .filter_map(|place| fs::read_dir(place).ok())
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|file| Some(file.strip_prefix("libggml-")?.strip_suffix(".so")?.to_owned()))
        // ggml-base is no backend; the CPU backend may come in many variants.
        .map(|name| if name.starts_with("cpu-") { "cpu".to_owned() } else { name })
        .filter(|name| name != "base")
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_answer_is_read() {
        let text = "\tlinux-vdso.so.1 (0x7ffe)\n\tlibggml.so.0 => /opt/l/libggml.so.0 (0x1)\n\
                    \tlibggml-base.so.0 => /opt/my llama/libggml-base.so.0 (0x7f5)\n";
        assert_eq!(resolved(text), Some(PathBuf::from("/opt/my llama/libggml-base.so.0")));
        assert_eq!(resolved("\tlibggml-base.so.0 => not found\n"), None);
        assert_eq!(missing("\tlibllama.so.0 => not found\n\tlibc.so.6 => /lib/libc.so.6 (0x7)\n"), ["libllama.so.0"]);
        assert_eq!(resolved("\tnot a dynamic executable\n"), None);
    }

    #[test]
    fn backends_are_named_as_ggml_names_them() {
        let folder = tempfile::tempdir().unwrap();
        for file in
            ["libggml-base.so", "libggml-cpu-zen4.so", "libggml-cpu-sse42.so", "libggml-vulkan.so", "libggml.so"]
        {
            fs::write(folder.path().join(file), "").unwrap();
        }
        assert_eq!(backends(&folder.path().join("llama-cli")), ["cpu", "vulkan"]);
    }
}
