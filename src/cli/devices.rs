//! The devices of the host that belong to a backend's name.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::ggml::{self, folder};
use super::stop::Stop;
use super::tools::{TOOLS, Tool};

/// Backends whose devices are not called as the backend is: (our name, how the device's name starts).
const PREFIXES: &[(&str, &str)] = &[
    ("cuda", "CUDA"),
    ("vulkan", "Vulkan"),
    ("rocm", "ROCm"),
    ("hip", "ROCm"),
    ("musa", "MUSA"),
    ("sycl", "SYCL"),
    ("rpc", "RPC"),
    ("opencl", "GPUOpenCL"),
    ("hexagon", "HTP"),
    ("metal", "MTL"),
    ("cann", "CANN"),
    ("openvino", "OPENVINO"),
    ("webgpu", "WebGPU"),
];

/// The names of the devices of this backend, as the host lists them; `words` stand before the tool's flags, `rpc` are
/// its arguments that bring devices.
///
/// # Errors
/// The host cannot list its devices, the name is no backend, or there is no such device.
pub fn of(backend: &str, real: &Path, tool: &Tool, words: &[OsString], rpc: &[OsString]) -> Result<Vec<String>, Stop> {
    let listed = list(lister(real, tool, words)?, rpc)?;
    let found = matching(backend, &listed);
    if !found.is_empty() {
        return Ok(found);
    }
    let files = ggml::backends(real);
    if files.iter().any(|name| name == backend) || PREFIXES.iter().any(|(name, _)| *name == backend) {
        return Err(absent(backend, &files, &listed));
    }
    Err(unknown(backend, &files, &listed))
}

/// The backend could be meant and has no device here: what is missing, and what there is instead.
fn absent(backend: &str, files: &[String], listed: &[String]) -> Stop {
    let names = if listed.is_empty() { "none".to_owned() } else { listed.join(", ") };
    let remedy = match (backend, files.iter().any(|name| name == backend)) {
        (_, false) => format!("Use a llama.cpp that has the {backend} backend"),
        ("rpc", true) => "Start ggml-rpc-server and name it with '--rpc HOST:PORT'".to_owned(),
        ("vulkan", true) => "Install a Vulkan driver for the GPU ('tri doctor' shows what Vulkan offers)".to_owned(),
        (_, true) => format!("Check the driver, which shows the {backend} backend no device"),
    };
    let others: Vec<_> = files.iter().filter(|name| *name != backend).cloned().collect();
    let valid = valid(&others, listed);
    Stop::failed(format!(
        "--backend {backend}: the host has no such device (its devices: {names}). {remedy}, or take one of: {valid}."
    ))
}

/// The name is none that could be meant; lists the ones that are.
fn unknown(backend: &str, files: &[String], listed: &[String]) -> Stop {
    Stop::usage(format!("--backend '{backend}' is unknown. Valid here: {}.", valid(files, listed)))
}

/// The names that work with this host.
fn valid(files: &[String], listed: &[String]) -> String {
    // Every device of the plugin, the pinned ones too, is called TRI...
    let devices = listed.iter().map(|device| stem(device)).filter(|stem| !stem.starts_with("TRI")).map(|stem| {
        let named = PREFIXES.iter().find(|(_, prefix)| *prefix == stem);
        named.map_or_else(|| stem.to_lowercase(), |(name, _)| (*name).to_owned())
    });
    let mut names = Vec::new();
    for name in ["tri".to_owned(), "cpu".to_owned()].into_iter().chain(files.iter().cloned()).chain(devices) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

/// The devices whose name is the backend's prefix and a number.
fn matching(backend: &str, listed: &[String]) -> Vec<String> {
    let prefix = PREFIXES.iter().find(|(name, _)| *name == backend).map_or(backend, |(_, prefix)| prefix);
    listed.iter().filter(|device| stem(device).eq_ignore_ascii_case(prefix)).cloned().collect()
}

/// A device's name without its number.
fn stem(device: &str) -> &str {
    device.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// The call that lists the devices: of this tool, or of one beside it; `words` stand before the tool's flags.
fn lister(real: &Path, tool: &Tool, words: &[OsString]) -> Result<Command, Stop> {
    let lists = |tool: &Tool| tool.devices.is_some_and(|devices| devices.lists);
    if lists(tool) {
        let mut command = Command::new(real);
        command.args(words);
        return Ok(command);
    }
    let beside = folder(&fs::canonicalize(real).unwrap_or_else(|_| real.to_owned()));
    let mut others = TOOLS.iter().filter(|tool| lists(tool)).map(|tool| beside.join(tool.name));
    others.find(|path| path.is_file()).map(Command::new).ok_or_else(|| {
        Stop::failed(format!(
            "{} cannot list its devices and no tool beside it can: name the device with the tool's own flag.",
            real.display()
        ))
    })
}

/// Runs `--list-devices`; servers named by `--rpc` are asked for theirs.
fn list(mut command: Command, rpc: &[OsString]) -> Result<Vec<String>, Stop> {
    let output = command.args(rpc).arg("--list-devices").stdin(Stdio::null()).output();
    let tool = Path::new(command.get_program()).display();
    match output {
        Ok(output) if output.status.success() => Ok(parse(&String::from_utf8_lossy(&output.stdout))),
        Ok(output) => Err(Stop::failed(format!(
            "'{tool} --list-devices' failed ({}): {} Correct that, or name the device with the tool's own flag.",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim().lines().last().unwrap_or_default()
        ))),
        Err(e) => Err(Stop::failed(format!("{tool} cannot be run ({e}): check the installation."))),
    }
}

/// The names in the list that llama.cpp prints: two spaces, the name, a colon.
fn parse(text: &str) -> Vec<String> {
    text.lines()
        .skip_while(|line| !line.starts_with("Available devices:"))
        .filter_map(|line| Some(line.strip_prefix("  ")?.split_once(": ")?.0.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "load_backend: loaded\nAvailable devices:\n  TRI0: ggml-tri: cpu (24105 MiB, 22969 MiB free)\n  \
                        Vulkan0: AMD Radeon 8060S (1 MiB, 1 MiB free)\n  Vulkan1: llvmpipe: x (1 MiB, 1 MiB free)\n  \
                        RPC0: 127.0.0.1:50052 (1 MiB, 1 MiB free)\n";

    #[test]
    fn the_list_of_llama_cpp_is_read() {
        assert_eq!(parse(LIST), ["TRI0", "Vulkan0", "Vulkan1", "RPC0"]);
        assert!(parse("Available devices:\n  (none)\n").is_empty());
    }

    #[test]
    fn a_backend_gets_its_own_devices_only() {
        let listed = parse(LIST);
        assert_eq!(matching("vulkan", &listed), ["Vulkan0", "Vulkan1"]);
        assert_eq!(matching("rpc", &listed), ["RPC0"]);
        assert!(matching("cuda", &listed).is_empty());
        assert_eq!(matching("et", &["ET0".to_owned()]), ["ET0"]);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_valid_ones() {
        let message = unknown("volkan", &["cpu".to_owned(), "rpc".to_owned()], &parse(LIST)).message;
        assert_eq!(message, "--backend 'volkan' is unknown. Valid here: tri, cpu, rpc, vulkan.");
    }

    #[test]
    fn a_backend_without_a_device_is_answered_with_what_it_lacks() {
        let files = ["cpu", "rpc", "vulkan"].map(str::to_owned);
        let says = |backend, text: &str| {
            let message = absent(backend, &files, &["TRI0".to_owned()]).message;
            assert!(message.contains(text) && message.contains("(its devices: TRI0)"), "{message}");
            assert!(!message.split("one of:").nth(1).unwrap().contains(backend), "{message}");
        };
        says("rpc", "'--rpc HOST:PORT'");
        says("vulkan", "Install a Vulkan driver");
        says("cuda", "a llama.cpp that has the cuda backend");
    }
}
