//! TRI0 with two true engines, the CPU and lavapipe: rows are divided, and plans follow what the engines can do.

use std::process::Command;

use crate::chost::Program;
use crate::gpu::exact;
use crate::host::{Arm, Outcome, Setup, file_from, report, run};
use crate::prompts::PROMPTS;

/// A tool with everything on TRI0, which has lavapipe beside the CPU.
fn both(setup: &Setup, tool: &str) -> Command {
    let mut command = setup.tool(tool, Arm::Tri);
    command.env("TRI_GPU", "lavapipe");
    command
}

/// Nodes that the GPU and the CPU computed, by the line at the end of a stream.
fn computed(outcome: &Outcome) -> (u64, u64) {
    let line = outcome.lines_with("TRI0: computed").pop().unwrap_or_else(|| panic!("no counts: {outcome:#?}"));
    let number = |name: &str| {
        let (_, rest) = line.split_once(name).unwrap_or_else(|| panic!("no {name} in {line}"));
        rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).expect("a number")
    };
    (number(": gpu "), number(", cpu "))
}

#[test]
fn divided_rows_give_the_logits_of_whole_products() {
    let test = "planner::divided_rows_give_the_logits_of_whole_products";
    let Some(setup) = Setup::find_gpu(test, &["smollm2.gguf"]) else { return };
    let Some(headers) = file_from(test, "E2E_HEADERS") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    // With float weights, since int8 activations scatter the logits by more than 1e-4 (docs/measurements.md).
    let model = exact(&setup, "smollm2.gguf", folder.path());
    let program = Program::new(&setup, &headers, "logits", &[]);
    let mut command = program.command(&setup, Arm::Tri);
    command.env("TRI_GPU", "lavapipe").env("TRI_QUOTA", "cpu:0.5,gpu:0.5");
    command.args(["on", "f16", "6", "none"]).arg(&model).arg("TRI0").arg(&model).arg("--").args(&PROMPTS[..2]);
    let outcome = run(&mut command).success();
    let errors: Vec<f64> = outcome.stdout.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    report(test, &format!("NMSE of the logits {errors:?}"));
    assert_eq!(errors.len(), 2, "{outcome:#?}");
    assert!(errors.iter().all(|e| *e <= 1e-4), "{errors:?}");
    let (gpu, cpu) = computed(&outcome);
    assert!(gpu > 0 && cpu > 0, "{gpu} nodes on the GPU, {cpu} on the CPU");
}

#[test]
fn a_slow_engine_loses_its_work() {
    let test = "planner::a_slow_engine_loses_its_work";
    let Some(setup) = Setup::find_gpu(test, &["smollm2.gguf"]) else { return };
    let answer = |fault: &str, repetitions: &str| {
        let mut command = both(&setup, "llama-bench");
        command.arg("-m").arg(setup.model("smollm2.gguf")).env("TRI_FAULT", fault).env("OMP_WAIT_POLICY", "passive");
        command.args(["-p", "0", "-n", "8", "-r", repetitions, "-t", "2", "--no-warmup", "-v"]);
        run(&mut command).success()
    };
    // By itself the software device has nothing to do: it is the CPU, only slower.
    let (gpu, cpu) = computed(&answer("off", "3"));
    assert!(gpu * 20 <= cpu, "{gpu} nodes on lavapipe, {cpu} on the CPU");
    // With a CPU that takes 100 times as long, the GPU is the better one; plans change between two answers.
    let outcome = answer("slow:cpu:100@1-64", "8");
    let (gpu, cpu) = computed(&outcome);
    report(test, &format!("{gpu} nodes on lavapipe, {cpu} on a CPU that is 100 times as slow"));
    assert!(gpu > cpu, "{gpu} nodes on lavapipe, {cpu} on the CPU: {:#?}", outcome.lines_with("TRI0:"));
}
