//! Broken models and failures inside the plugin: the tool ends with an error, and the process never with a signal.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::host::{Arm, Outcome, Server, Setup, greedy_request, run};

fn complete(setup: &Setup, arm: Arm, model: &Path) -> Command {
    let mut command = setup.tool("llama-completion", arm);
    command.arg("-m").arg(model).args(["-p", "Behind the mill", "-n", "16", "-c", "256"]);
    command.args(["--temp", "0", "-no-cnv", "-t", "2"]);
    command
}

/// The error lines of llama.cpp, without the time and without the name of the file.
fn errors(outcome: &Outcome, model: &Path) -> Vec<String> {
    let model = model.to_string_lossy();
    outcome.lines_with(" E ").iter().map(|line| line.split(" E ").skip(1).collect::<String>().replace(&*model, "MODEL")).collect()
}

#[test]
fn a_truncated_model_is_llama_cpps_own_error() {
    let Some(setup) = Setup::find("faults::a_truncated_model_is_llama_cpps_own_error", &["smollm2.gguf"]) else {
        return;
    };
    let whole = fs::read(setup.model("smollm2.gguf")).expect("the model can be read");
    // Nothing, half the magic, inside the keys, inside the list of tensors, and inside the weights: at the start, in
    // the middle, one byte short.
    let lengths = [0, 2, 1000, 400_000, 1_900_000, whole.len() / 2, whole.len() - 1];
    for length in lengths {
        let mut model = tempfile::NamedTempFile::new().expect("a temporary file can be made");
        model.write_all(&whole[..length]).expect("a temporary file can be written");
        let tri = run(&mut complete(&setup, Arm::Tri, model.path()));
        let stock = run(&mut complete(&setup, Arm::Stock, model.path()));
        assert_ne!(tri.code(), 0, "{length} bytes: {tri:#?}");
        assert_eq!(tri.code(), stock.code(), "{length} bytes: {tri:#?}");
        assert_eq!(errors(&tri, model.path()), errors(&stock, model.path()), "{length} bytes");
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
        let server = Server::start({ command.env("TRI_FAULT", fault); command });
        let answer = server.try_post("/completion", &greedy_request("The bell rang", 24));
        let (status, answer) = answer.unwrap_or_else(|| panic!("{fault}: the server is gone\n{}", server.log()));
        assert_eq!(status, 500, "{fault}: {answer}");
        assert_eq!(server.greedy("The bell rang", 24), whole, "{fault}: the next request is as if nothing had happened");
    }
}
