//! Broken models and failures inside the plugin: the tool ends with an error, and the process never with a signal.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::host::{Arm, Outcome, Setup, run};
use crate::http::{Server, greedy_request};

fn complete(setup: &Setup, arm: Arm, model: &Path) -> Command {
    let mut command = setup.tool("llama-completion", arm);
    command.arg("-m").arg(model).args(["-p", "Behind the mill", "-n", "16", "-c", "256"]);
    command.args(["--temp", "0", "-no-cnv", "-t", "2"]);
    command
}

/// Tries to load a model. llama-bench writes its log at once; the other tools do so in a thread of their own, whose
/// last lines are lost when a tool ends early.
fn load(setup: &Setup, arm: Arm, model: &Path) -> Outcome {
    let mut command = setup.bare("llama-bench", arm);
    run(command.arg("-v").arg("-m").arg(model).args(["-dev", arm.device(), "-p", "1", "-n", "0", "-r", "1", "-t", "2"]))
}

/// What llama.cpp says about a model, without the lines of the loader of backends and of the plugin.
fn complaints(outcome: &Outcome) -> Vec<&str> {
    let ours = |line: &&str| line.starts_with("load_backend:") || line.starts_with("tri: TRI0: engines");
    outcome.stderr.lines().filter(|line| !ours(line)).collect()
}

#[test]
fn a_truncated_model_is_llama_cpps_own_error() {
    let Some(setup) = Setup::find("faults::a_truncated_model_is_llama_cpps_own_error", &["smollm2.gguf"]) else {
        return;
    };
    let whole = fs::read(setup.model("smollm2.gguf")).expect("the model can be read");
    // Nothing, half the magic, twice inside the keys; then inside the weights: early, in the middle, one byte short.
    let in_keys = [0, 2, 1000, 400_000];
    let in_weights = [1_900_000, whole.len() / 2, whole.len() - 1];
    for length in in_keys.into_iter().chain(in_weights) {
        let mut model = tempfile::NamedTempFile::new().expect("a temporary file can be made");
        model.write_all(&whole[..length]).expect("a temporary file can be written");
        let (tri, stock) = (load(&setup, Arm::Tri, model.path()), load(&setup, Arm::Stock, model.path()));
        assert_ne!(tri.code(), 0, "{length} bytes: {tri:#?}");
        assert_eq!(tri.code(), stock.code(), "{length} bytes: {tri:#?}");
        assert!(!tri.lines_with("failed to load model").is_empty(), "{length} bytes: {tri:#?}");
        assert_eq!(complaints(&tri), complaints(&stock), "{length} bytes");
    }
}

#[test]
fn an_injected_fault_ends_the_tool_with_an_error() {
    let Some(setup) = Setup::find("faults::an_injected_fault_ends_the_tool_with_an_error", &["smollm2.gguf"]) else {
        return;
    };
    let model = setup.model("smollm2.gguf");
    run(complete(&setup, Arm::Tri, &model).env("TRI_FAULT", "off")).success();
    for (fault, said) in [("alloc@1", "no memory"), ("compute@3", "graph 3 fails"), ("panic@3", "graph 3 panics")] {
        let outcome = run(complete(&setup, Arm::Tri, &model).env("TRI_FAULT", fault));
        assert_ne!(outcome.code(), 0, "{fault}: {outcome:#?}");
        let lines: Vec<_> = outcome.lines_with(said).into_iter().filter(|line| line.contains("TRI0")).collect();
        assert_eq!(lines.len(), 1, "{fault}: one line of ours says what happened: {outcome:#?}");
    }
}

#[test]
fn a_server_outlives_a_failed_graph() {
    let Some(setup) = Setup::find("faults::a_server_outlives_a_failed_graph", &["smollm2.gguf"]) else { return };
    let mut command = setup.tool("llama-server", Arm::Tri);
    command.arg("-m").arg(setup.model("smollm2.gguf")).args(["-t", "2", "-np", "1", "-c", "512", "--no-warmup"]);
    let whole = Server::start(command).greedy("The bell rang", 24);
    for fault in ["compute@9", "panic@9"] {
        let mut command = setup.tool("llama-server", Arm::Tri);
        command.arg("-m").arg(setup.model("smollm2.gguf")).args(["-t", "2", "-np", "1", "-c", "512", "--no-warmup"]);
        command.env("TRI_FAULT", fault);
        let server = Server::start(command);
        let answer = server.try_post("/completion", &greedy_request("The bell rang", 24));
        let (status, answer) = answer.unwrap_or_else(|| panic!("{fault}: the server is gone\n{}", server.log()));
        assert_eq!(status, 500, "{fault}: {answer}");
        assert_eq!(
            server.greedy("The bell rang", 24),
            whole,
            "{fault}: the next request is as if nothing had happened"
        );
    }
}
