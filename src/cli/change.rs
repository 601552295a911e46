//! What `--backend` changes in the call of a tool. Pure: facts in, arguments, variables and remarks out.

use std::ffi::OsString;

use ggml_tri::config::host::Host;

use super::flags::{Repack, Said};
use super::stop::Stop;
use super::tools::{DRAFT, Tool};

/// A call of the real tool.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The variables that differ from ours.
    pub vars: Vec<(&'static str, OsString)>,
    /// What the user should know, one line each.
    pub remarks: Vec<String>,
}

/// Adds the flags that name these devices, unless the user named some; `skip` arguments stand before all flags.
pub fn name_devices(call: &mut Call, tool: &Tool, skip: usize, said: &Said, host: &Host, names: &[String]) {
    let Some(devices) = tool.devices else {
        let name = tool.name;
        call.remarks.push(format!("{name} takes no device flag, so none was added; ggml chooses among its devices."));
        return;
    };
    let value = match devices.join {
        Some(join) => names.join(join),
        None => names.first().cloned().unwrap_or_default(),
    };
    if devices.join.is_none() && names.len() > 1 {
        call.remarks.push(format!("{} takes one device: {value} of {}.", tool.name, names.join(", ")));
    }
    // In front, so that a flag whose value the user forgot does not swallow ours; but llama.cpp knows the devices of
    // `--rpc` only once it has read that.
    let mut added: Vec<OsString> = Vec::new();
    let variable = devices.variable.filter(|variable| host.var(variable).is_some());
    if let Some(by) = said.devices.as_deref().or(variable) {
        call.remarks.push(format!("{by} names the devices, so {} {value} was not added.", devices.flags[0]));
    } else {
        added.extend([devices.flags[0].into(), value.clone().into()]);
    }
    if tool.draft && said.draft_devices.is_none() && drafts(said, host) {
        added.extend([DRAFT[0].into(), value.into()]);
    }
    let at = said.rpc.map_or(skip, |rpc| rpc + 2).min(call.args.len());
    call.args.splice(at..at, added);
}

/// Whether a draft model was named, by flag or by variable.
fn drafts(said: &Said, host: &Host) -> bool {
    said.draft_model
        || ["LLAMA_ARG_SPEC_DRAFT_MODEL", "LLAMA_ARG_SPEC_DRAFT_HF_REPO"].iter().any(|name| host.var(name).is_some())
}

/// Names the modes that mean something else for TRI0 than for other devices.
pub fn explain(call: &mut Call, tool: &Tool, said: &Said, host: &Host) {
    // The tools that read the variable of their devices read these too.
    let reads = tool.devices.is_some_and(|devices| devices.variable.is_some());
    let told = |modes: &[String], wanted: &str, flag: &str, variable: &str| {
        if !modes.is_empty() {
            return modes.iter().any(|mode| mode == wanted).then(|| format!("{flag} {wanted}"));
        }
        (reads && host.var(variable).is_some_and(|value| value == wanted)).then(|| format!("{variable}={wanted}"))
    };
    if let Some(by) = told(&said.load_modes, "mlock", "--load-mode", "LLAMA_ARG_LOAD_MODE") {
        call.remarks.push(format!(
            "{by}: mlock does not lock the weights that TRI0 holds in buffers of its own; use mmap+mlock."
        ));
    }
    if let Some(by) = told(&said.split_modes, "tensor", "--split-mode", "LLAMA_ARG_SPLIT_MODE") {
        call.remarks.push(format!(
            "{by} holds weights in the file's layout (as --no-repack): text and speed can differ from the default."
        ));
    }
}

/// Names the flags that TRI0 does not get, and carries "no repacking" to it in our own variable.
pub fn carry(call: &mut Call, said: &Said, host: &Host) {
    if !said.pool.is_empty() {
        call.remarks.push(format!(
            "not applied to TRI0: {} (thread pool settings reach the host's own CPU backend only).",
            said.pool.join(", ")
        ));
    }
    let (by, repack) = match said.repack {
        Some(repack) => ("--no-repack".to_owned(), repack),
        None => match repack_variable(host) {
            Some(by) => (by, Repack::Off),
            None => return,
        },
    };
    let set = host.var("TRI_LAYOUT").filter(|value| !value.is_empty());
    match (repack, set) {
        (Repack::On, _) => {}
        (Repack::Both, _) => call.remarks.push(
            "not applied to TRI0: --repack with both values (one process has one layout); run llama-bench once per value."
                .to_owned(),
        ),
        (Repack::Off, Some(value)) => call.remarks.push(format!(
            "not applied to TRI0: {by}, because TRI_LAYOUT={} is set; unset it or set it to 'plain'.",
            value.to_string_lossy()
        )),
        (Repack::Off, None) => {
            call.vars.push(("TRI_LAYOUT", "plain".into()));
            call.remarks.push(format!("{by} reaches TRI0 as TRI_LAYOUT=plain."));
        }
    }
}

/// The variable by which llama.cpp was told not to repack, if it was.
fn repack_variable(host: &Host) -> Option<String> {
    // llama.cpp looks at the NO form first and takes any value, the empty one too, for "no".
    if host.var("LLAMA_ARG_NO_REPACK").is_some() {
        return Some("LLAMA_ARG_NO_REPACK".to_owned());
    }
    let value = host.var("LLAMA_ARG_REPACK")?.to_str()?;
    ["off", "disabled", "false", "0"].contains(&value).then(|| format!("LLAMA_ARG_REPACK={value}"))
}

/// The tool has no flag by which a host device could be chosen.
pub fn cannot_be_told(name: &str, backend: &str) -> Stop {
    Stop::usage(format!(
        "{name} takes no device flag that tri knows, so '--backend {backend}' cannot be carried out: call it without \
         --backend and with its own flags."
    ))
}

#[cfg(test)]
mod tests {
    use super::super::{flags, tools};
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn changed(tool: &str, text: &str, vars: &[(&'static str, &str)]) -> (String, Call) {
        let args = words(text);
        let (row, skip) = tools::row(tool, &args).unwrap();
        let said = flags::read(row, &args);
        let mut call = Call { args, ..Call::default() };
        let host = Host::with_vars(vars);
        name_devices(&mut call, row, skip, &said, &host, &["TRI0".to_owned()]);
        carry(&mut call, &said, &host);
        let args: Vec<_> = call.args.iter().map(|a| a.to_string_lossy().into_owned()).collect();
        (args.join(" "), call)
    }

    #[test]
    fn the_app_gets_its_flags_behind_its_own_word() {
        assert_eq!(changed("llama", "serve -m x", &[]).0, "serve --device TRI0 -m x");
    }

    #[test]
    fn a_draft_gets_its_device_even_where_the_user_named_the_models() {
        assert_eq!(changed("llama-cli", "-dev CUDA0 -md y", &[]).0, "--spec-draft-device TRI0 -dev CUDA0 -md y");
        assert_eq!(changed("llama-cli", "-devd none -md y", &[]).0, "--device TRI0 -devd none -md y");
        // llama-imatrix takes a draft model and no draft devices.
        assert_eq!(changed("llama-imatrix", "-md y", &[]).0, "--device TRI0 -md y");
    }

    #[test]
    fn devices_are_named_behind_the_servers_that_bring_them() {
        assert_eq!(changed("llama-cli", "-m x --rpc host:1 -n 1", &[]).0, "-m x --rpc host:1 --device TRI0 -n 1");
        assert_eq!(changed("llama-bench", "-rpc host:1", &[]).0, "-rpc host:1 --device TRI0");
    }

    #[test]
    fn the_benchs_devices_are_not_named_by_a_variable() {
        assert_eq!(changed("llama-bench", "", &[("LLAMA_ARG_DEVICE", "x")]).0, "--device TRI0");
    }

    #[test]
    fn no_repack_is_carried_over_by_every_spelling() {
        for (tool, args, vars) in [
            ("llama-cli", "-nr", &[][..]),
            ("llama-bench", "--repack 0", &[]),
            ("llama-cli", "", &[("LLAMA_ARG_NO_REPACK", "")]),
            ("llama-cli", "", &[("LLAMA_ARG_REPACK", "off")]),
        ] {
            assert_eq!(changed(tool, args, vars).1.vars, [("TRI_LAYOUT", "plain".into())], "{tool} {args} {vars:?}");
        }
        let (_, call) = changed("llama-cli", "-nr", &[("TRI_LAYOUT", "stock")]);
        assert!(call.vars.is_empty() && call.remarks[0].contains("TRI_LAYOUT=stock"), "{call:?}");
        let (_, call) = changed("llama-bench", "--repack 0,1", &[]);
        assert!(call.vars.is_empty() && call.remarks[0].contains("both"), "{call:?}");
        assert!(changed("llama-cli", "--repack", &[("LLAMA_ARG_REPACK", "0")]).1.vars.is_empty());
    }
}
