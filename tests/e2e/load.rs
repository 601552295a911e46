//! A plugin that cannot be used says so in one line, and llama.cpp goes on as if it had never been there.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::host::{Outcome, Setup, clean, file_from, run};

/// Sixteen tokens by whatever devices llama.cpp finds, with a plugin file on offer.
fn complete(host: &Path, plugin: Option<&Path>, setup: &Setup) -> Command {
    let mut command = clean(&host.join("llama-completion"));
    command.envs(plugin.map(|plugin| ("GGML_BACKEND_PATH", plugin)));
    command.arg("-m").arg(setup.model("smollm2.gguf")).args(["-p", "Behind the mill", "-n", "16", "-c", "256"]);
    command.args(["--temp", "0", "-no-cnv", "-t", "2"]);
    command
}

/// The host with the refused plugin says and exits as without it, plus one line of ours; that line.
fn declines(mut with: Command, mut without: Command) -> String {
    let (with, without) = (run(&mut with), run(&mut without));
    assert_eq!(with.code(), without.code(), "{with:#?}");
    assert_eq!(with.stdout, without.stdout);
    the_line(&with)
}

fn the_line(outcome: &Outcome) -> String {
    let mut ours = outcome.lines_with("TRI0");
    assert_eq!(ours.len(), 1, "exactly one line of ours is expected: {outcome:#?}");
    ours.remove(0)
}

fn assert_names_both_versions(line: &str) {
    assert!(line.contains("0.25.3") && line.contains("0.26.0"), "both versions are expected: {line}");
}

#[test]
fn a_wrong_path_is_named_and_changes_nothing() {
    let Some(setup) = Setup::find("load::a_wrong_path_is_named_and_changes_nothing", &["smollm2.gguf"]) else {
        return;
    };
    let nowhere = setup.host.join("no-such-plugin.so");
    let stock = run(&mut complete(&setup.host, None, &setup)).success();
    let outcome = run(&mut complete(&setup.host, Some(&nowhere), &setup)).success();
    assert_eq!(outcome.stdout, stock.stdout);
    assert_eq!(outcome.lines_with("no-such-plugin.so").len(), 1, "{outcome:#?}");
}

#[test]
fn a_plugin_for_an_older_ggml_declines() {
    let test = "load::a_plugin_for_an_older_ggml_declines";
    let Some(setup) = Setup::find(test, &["smollm2.gguf"]) else { return };
    let Some(old) = file_from(test, "E2E_PLUGIN_OLD") else { return };
    let without = complete(&setup.host, None, &setup);
    assert_names_both_versions(&declines(complete(&setup.host, Some(&old), &setup), without));
}

#[test]
fn a_plugin_for_a_newer_ggml_declines() {
    let test = "load::a_plugin_for_a_newer_ggml_declines";
    let Some(setup) = Setup::find(test, &["smollm2.gguf"]) else { return };
    let Some(old) = file_from(test, "E2E_HOST_OLD") else { return };
    let without = complete(&old, None, &setup);
    assert_names_both_versions(&declines(complete(&old, Some(&setup.plugin), &setup), without));
}

#[test]
fn each_ggml_has_its_plugin() {
    let test = "load::each_ggml_has_its_plugin";
    let Some(setup) = Setup::find(test, &["smollm2.gguf"]) else { return };
    let Some(host) = file_from(test, "E2E_HOST_OLD") else { return };
    let Some(plugin) = file_from(test, "E2E_PLUGIN_OLD") else { return };
    let mut with = complete(&host, Some(&plugin), &setup);
    let outcome = run(with.args(["--device", "TRI0"])).success();
    assert_eq!(outcome.stdout, run(&mut complete(&host, None, &setup)).success().stdout);
}

/// The host folder again, by links, without the CPU backend.
fn without_cpu(host: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for entry in fs::read_dir(host).expect("the host folder can be listed").flatten() {
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with("libggml-cpu") && entry.path().is_file() {
            // ggml looks for backends beside the executable, whose real path a symbolic link would reveal.
            let (from, to) = (entry.path(), folder.path().join(name));
            if fs::hard_link(&from, &to).is_err() {
                fs::copy(&from, &to).expect("a file of the host can be copied");
            }
        }
    }
    folder
}

#[test]
fn a_host_without_cpu_backend_ends_as_it_would_anyway() {
    let Some(setup) = Setup::find("load::a_host_without_cpu_backend_ends_as_it_would_anyway", &["smollm2.gguf"]) else {
        return;
    };
    let bare = without_cpu(&setup.host);
    // llama-bench, since it ends early here and the other tools then lose lines of their log.
    let bench = |plugin: Option<&Path>| {
        let mut command = clean(&bare.path().join("llama-bench"));
        command.envs(plugin.map(|plugin| ("GGML_BACKEND_PATH", plugin))).arg("-m").arg(setup.model("smollm2.gguf"));
        command
    };
    let line = declines(bench(Some(&setup.plugin)), bench(None));
    assert!(line.contains("ggml-cpu"), "{line}");
}

const MALFORMED: [(&str, &str); 5] = [
    ("TRI_GPU", "99"),
    ("TRI_NPU", "maybe"),
    ("TRI_LAYOUT", "sideways"),
    ("TRI_LOG", "loud"),
    ("TRI_FAULT", "alloc@0"),
];

#[test]
fn a_malformed_setting_is_explained_and_there_is_no_device() {
    let Some(setup) = Setup::find("load::a_malformed_setting_is_explained_and_there_is_no_device", &["smollm2.gguf"])
    else {
        return;
    };
    for (name, value) in MALFORMED {
        let mut with = complete(&setup.host, Some(&setup.plugin), &setup);
        with.env(name, value);
        let line = declines(with, complete(&setup.host, None, &setup));
        assert!(line.contains(name) && line.contains(value) && line.contains("allowed"), "{line}");
    }
}

/// `tri run llama-completion --backend NAME` with host and plugin chosen.
fn launcher(tri: &Path, setup: &Setup, backend: &str) -> Command {
    let mut command = clean(tri);
    command.env("TRI_LLAMA_DIR", &setup.host).env("TRI_PLUGIN", &setup.plugin);
    command.args(["run", "llama-completion", "--backend", backend, "-p", "x"]);
    command
}

/// The launcher refuses with this code and one line, and starts nothing.
fn refused(command: &mut Command, code: i32) -> String {
    let outcome = run(command);
    assert_eq!(outcome.code(), code, "{outcome:#?}");
    assert_eq!(outcome.stdout, "", "nothing was started");
    let lines: Vec<_> = outcome.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    assert_eq!(lines.len(), 1, "one line says why: {outcome:#?}");
    lines[0].to_owned()
}

#[test]
fn the_launcher_refuses_what_cannot_work() {
    let test = "load::the_launcher_refuses_what_cannot_work";
    let Some(setup) = Setup::find(test, &["smollm2.gguf"]) else { return };
    let Some(tri) = file_from(test, "E2E_TRI") else { return };
    let line = refused(&mut launcher(&tri, &setup, "abacus"), 2);
    assert!(line.contains("abacus") && line.contains("tri") && line.contains("cpu"), "{line}");
    for (name, value) in MALFORMED {
        let line = refused(launcher(&tri, &setup, "tri").env(name, value), 2);
        assert!(line.contains(name) && line.contains(value) && line.contains("allowed"), "{line}");
    }
    let line = refused(launcher(&tri, &setup, "tri").env("TRI_PLUGIN", "/no/such/plugin.so"), 1);
    assert!(line.contains("/no/such/plugin.so"), "{line}");
}

#[test]
fn the_launcher_refuses_a_plugin_for_another_ggml() {
    let test = "load::the_launcher_refuses_a_plugin_for_another_ggml";
    let Some(setup) = Setup::find(test, &["smollm2.gguf"]) else { return };
    let Some(tri) = file_from(test, "E2E_TRI") else { return };
    let Some(old) = file_from(test, "E2E_PLUGIN_OLD") else { return };
    assert_names_both_versions(&refused(launcher(&tri, &setup, "tri").env("TRI_PLUGIN", old), 1));
}
