//! Memory of the GPU engine: weights exist once, nothing is lost, and Vulkan is used as its rules say.

use std::fs;
use std::path::Path;

use crate::chost::Program;
use crate::gpu::assert_all_on_gpu;
use crate::host::{Arm, Outcome, Setup, file_from, report, run};

/// KiB that are no buffer of ggml: mostly code that lavapipe compiles.
const BESIDES: f64 = (64 << 10) as f64;

fn cycles(
    setup: &Setup,
    headers: &Path,
    count: u32,
    model: &str,
    sizes: &[&str],
    settings: &[(&str, &Path)],
) -> Outcome {
    let program = Program::new(setup, headers, "cycles", &[]);
    let mut command = program.command(setup, Arm::Gpu);
    command.args(["TRI0-GPU", &count.to_string()]).arg(setup.model(model)).args(sizes);
    let outcome = run(command.envs(settings.iter().copied())).success();
    assert_all_on_gpu(&outcome);
    outcome
}

/// The numbers after a word at the beginning of lines.
fn numbers(outcome: &Outcome, word: &str) -> Vec<i64> {
    let number = |line: &str| line.strip_prefix(word).map(|rest| rest.trim().parse().expect("a number"));
    outcome.stdout.lines().filter_map(number).collect()
}

#[test]
fn weights_exist_once() {
    let test = "gpu_memory::weights_exist_once";
    let Some(setup) = Setup::find_gpu(test, &["gemma.gguf"]) else { return };
    let Some(headers) = file_from(test, "E2E_HEADERS") else { return };
    let outcome = cycles(&setup, &headers, 1, "gemma.gguf", &["1"], &[]);
    // What llama.cpp asked for. The model ties its output to its embedding, which llama.cpp keeps on the CPU, too.
    let asked = |what: &str| -> f64 {
        let lines = outcome.lines_with(what).into_iter().filter(|line| line.ends_with("MiB") && line.contains('='));
        let number = |line: String| line.split_whitespace().rev().nth(1).and_then(|word| word.parse::<f64>().ok());
        1024.0 * lines.filter_map(number).sum::<f64>()
    };
    let (model, rest) = (asked("model buffer size"), asked("KV buffer size") + asked("compute buffer size ="));
    let used = (numbers(&outcome, "highest")[0] - numbers(&outcome, "resident")[0]) as f64;
    let file = fs::metadata(setup.model("gemma.gguf")).expect("the model is there").len() as f64 / 1024.0;
    assert!(file <= 1.1 * model, "llama.cpp's lines tell {model} KiB of a file of {file} KiB: {outcome:#?}");
    let mib = |kib: f64| (kib / 1024.0).round();
    report(test, &format!("at most {} MiB for {} MiB of weights and {} MiB besides", mib(used), mib(model), mib(rest)));
    assert!(used <= 1.1 * model + rest + BESIDES, "{used} KiB, asked for {model} + {rest} KiB: {outcome:#?}");
}

#[test]
fn a_hundred_loads_leave_nothing_behind() {
    let test = "gpu_memory::a_hundred_loads_leave_nothing_behind";
    let Some(setup) = Setup::find_gpu(test, &["random-tiny-q4_k_m.gguf"]) else { return };
    let Some(headers) = file_from(test, "E2E_HEADERS") else { return };
    let resident = numbers(&cycles(&setup, &headers, 100, "random-tiny-q4_k_m.gguf", &["1"], &[]), "resident");
    let (early, late) = (resident[10], resident[100]);
    report(test, &format!("{early} KiB after 10 loads, {late} KiB after 100"));
    // One lost buffer of a graph in ten loads would be 10 MiB; the allocator's own moods are smaller.
    assert!(late - early < 4 << 10, "{resident:?}");
}

#[test]
fn the_validation_layers_have_nothing_to_say() {
    let test = "gpu_memory::the_validation_layers_have_nothing_to_say";
    let Some(setup) = Setup::find_gpu(test, &["random-tiny-q4_k_m.gguf"]) else { return };
    let Some(headers) = file_from(test, "E2E_HEADERS") else { return };
    let layer = "/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json";
    if !Path::new(layer).exists() {
        return crate::host::skipped(test, "the package vulkan-validationlayers is missing");
    }
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (settings, log) = (folder.path().join("vk_layer_settings.txt"), folder.path().join("said.txt"));
    let lines = [
        "khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG".to_owned(),
        "khronos_validation.report_flags = error,warn,info".to_owned(),
        "khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT".to_owned(),
        format!("khronos_validation.log_filename = {}", log.display()),
    ];
    fs::write(&settings, lines.join("\n")).expect("a temporary file can be written");
    let settings =
        [("VK_INSTANCE_LAYERS", Path::new("VK_LAYER_KHRONOS_validation")), ("VK_LAYER_SETTINGS_PATH", folder.path())];
    // A prefill beyond the widths of decoding, a decode, a verification.
    cycles(&setup, &headers, 2, "random-tiny-q4_k_m.gguf", &["24", "1", "4"], &settings);
    let said = fs::read_to_string(&log).expect("the layers write their log");
    assert!(said.contains("Validation Layer Active"), "{said}");
    assert!(!said.contains("(ERROR") && !said.contains("(WARN"), "{said}");
}
