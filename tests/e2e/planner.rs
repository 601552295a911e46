//! TRI0 with two true engines, the CPU and lavapipe: rows are divided, and who is slower has nothing to do.

use crate::chost::Program;
use crate::gpu::exact;
use crate::host::{Arm, Outcome, Setup, file_from, report, run};
use crate::prompts::PROMPTS;

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
fn a_software_device_beside_the_cpu_has_nothing_to_do() {
    let test = "planner::a_software_device_beside_the_cpu_has_nothing_to_do";
    let Some(setup) = Setup::find_gpu(test, &["smollm2.gguf"]) else { return };
    for mode in ["off", "adaptive"] {
        let mut command = setup.tool("llama-bench", Arm::Tri);
        command.env("TRI_GPU", "lavapipe").env("TRI_MODE", mode).env("OMP_WAIT_POLICY", "passive");
        command.arg("-m").arg(setup.model("smollm2.gguf")).args(["-p", "0", "-n", "16", "-r", "8", "-t", "2", "-v"]);
        let (gpu, cpu) = computed(&run(&mut command).success());
        report(test, &format!("{mode}: {gpu} nodes on lavapipe, {cpu} on the CPU"));
        assert!(cpu > 0 && gpu * 20 <= cpu, "{mode}: {gpu} nodes on lavapipe, {cpu} on the CPU");
    }
}
