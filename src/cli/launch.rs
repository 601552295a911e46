//! The launcher: this process becomes the real llama.cpp tool.
//!
//! Without `--backend` nothing is changed, neither the arguments nor the environment. The one thing that an exec from
//! Rust cannot keep is a signal mask: SIGPIPE is back at its default and no signal is blocked.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ggml_tri::config::Config;
use ggml_tri::config::host::Host;

use super::change::{self, Call};
use super::find::{self, Places};
use super::stop::{NOT_STARTED, Stop};
use super::{builds, devices, flags, ggml, logging, tools};

/// The device of the plugin.
const TRI0: &str = "TRI0";

/// Becomes `tool` with these arguments; `argv0` is the name it is called by. Returns only if that failed.
pub fn launch(host: &Host, tool: &OsStr, argv0: &OsStr, args: &[OsString]) -> Stop {
    match prepare(host, tool, args) {
        Ok((real, call)) => become_tool(&real, argv0, call),
        Err(stop) => stop,
    }
}

/// The places where this process's caller wants tools to be looked for.
pub fn places(host: &Host) -> Places {
    Places { folder: host.path("TRI_LLAMA_DIR"), path: host.var("PATH").unwrap_or_default().to_owned() }
}

/// Finds the tool and works out how to call it.
fn prepare(host: &Host, tool: &OsStr, args: &[OsString]) -> Result<(PathBuf, Call), Stop> {
    let real = places(host).find(tool)?;
    let (args, Some(backend)) = flags::take_backend(args)? else {
        return Ok((real, Call { args: args.to_vec(), ..Call::default() }));
    };
    // A wrong setting stops us only here: without --backend the settings decide nothing.
    let config = Config::get().map_err(|e| Stop::usage(e.to_string()))?;
    logging::start(config.log);
    let backend = backend.to_string_lossy().to_lowercase();
    let name = Path::new(tool).file_name().unwrap_or(tool).to_string_lossy().into_owned();
    let call = match backend.as_str() {
        "tri" => tri(host, config, &real, &name, args)?,
        other => stock(host, other, &real, &name, args)?,
    };
    Ok((real, call))
}

/// The call with `--backend tri`.
fn tri(host: &Host, config: &Config, real: &Path, name: &str, args: Vec<OsString>) -> Result<Call, Stop> {
    let ggml = ggml::of(real)?;
    let build = builds::choose(&find::own()?, host.path("TRI_PLUGIN").as_deref(), &ggml)?;
    let mut call = Call::default();
    call.remarks.extend(
        config
            .unknown
            .iter()
            .map(|name| format!("{name} is set and is no setting of ggml-tri; 'tri doctor --env' lists them.")),
    );
    if let Some(other) = host.path("GGML_BACKEND_PATH").filter(|path| *path != build.file) {
        let (other, ours) = (other.display(), build.file.display());
        call.remarks.push(format!("GGML_BACKEND_PATH={other} is replaced by {ours}: it holds one plugin."));
    }
    call.vars.push(("GGML_BACKEND_PATH", build.file.into_os_string()));
    match tools::row(name, &args) {
        Some((tool, skip)) => {
            let said = flags::read(tool, &args);
            call.args = args;
            change::name_devices(&mut call, tool, skip, &said, host, &[TRI0.to_owned()]);
            change::explain(&mut call, tool, &said, host);
            change::carry(&mut call, &said, host);
        }
        None => {
            call.args = args;
            call.remarks.push(format!(
                "tri does not know how '{name}' names devices, so no device flag was added; name {TRI0} yourself if it is \
                 not taken."
            ));
        }
    }
    Ok(call)
}

/// The call with a backend of the host.
fn stock(host: &Host, backend: &str, real: &Path, name: &str, args: Vec<OsString>) -> Result<Call, Stop> {
    let (tool, skip, known) = tools::row(name, &args)
        .and_then(|(tool, skip)| Some((tool, skip, tool.devices?)))
        .ok_or_else(|| change::cannot_be_told(name, backend))?;
    let said = flags::read(tool, &args);
    let rpc = said.rpc.map_or(&[][..], |at| &args[at..args.len().min(at + 2)]);
    let names = match backend {
        "cpu" => vec![known.cpu.to_owned()],
        other => devices::of(other, real, tool, &args[..skip], rpc)?,
    };
    let mut call = Call { args, ..Call::default() };
    change::name_devices(&mut call, tool, skip, &said, host, &names);
    Ok(call)
}

/// Replaces this process by the tool.
fn become_tool(real: &Path, argv0: &OsStr, call: Call) -> Stop {
    for remark in &call.remarks {
        log::info!("{remark}");
    }
    let error = Command::new(real).arg0(argv0).args(call.args).envs(call.vars).exec();
    Stop {
        code: NOT_STARTED,
        message: format!("{} cannot be started ({error}): check the file and its permissions.", real.display()),
    }
}
