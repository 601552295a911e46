//! What the GPU engine does when its device or its memory fails, on a device whose memory is the CPU's.

use std::fs;

use crate::chost::Program;
use crate::gpu::exact;
use crate::host::{Arm, Setup, file_from, report, run};

/// Allocations of a short run are far fewer; the sweep must end by itself before.
const MOST_ALLOCATIONS: u32 = 40;

#[test]
fn text_is_the_same_when_the_gpu_is_lost_on_the_way() {
    let test = "gpu_faults::text_is_the_same_when_the_gpu_is_lost_on_the_way";
    let Some(setup) = Setup::find_gpu(test, &["smollm2.gguf"]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    // Float weights: with quantised ones CPU and GPU round differently, and so may go on with another word.
    let model = exact(&setup, "smollm2.gguf", folder.path());
    let say = |arm: Arm, fault: &str| {
        let mut command = setup.tool("llama-completion", arm);
        command.arg("-m").arg(&model).args(["-p", "Behind the mill", "-n", "10", "-c", "256", "--no-warmup"]);
        run(command.args(["--temp", "0", "-no-cnv", "-t", "2"]).env("TRI_FAULT", fault)).success()
    };
    let reference = say(Arm::Stock, "off");
    let disturbed = say(Arm::Gpu, "vulkan:lost@4");
    assert_eq!(disturbed.stdout, reference.stdout);
    assert_eq!(disturbed.lines_with("the GPU is lost and is not used any more").len(), 1, "{disturbed:#?}");
}

#[test]
fn every_allocation_may_fail() {
    let test = "gpu_faults::every_allocation_may_fail";
    let Some(setup) = Setup::find_gpu(test, &["random-tiny-q4_k_m.gguf"]) else { return };
    let Some(headers) = file_from(test, "E2E_HEADERS") else { return };
    let program = Program::new(&setup, &headers, "cycles", &[]);
    let (mut refused, mut answered) = (0, 0);
    for n in 1..=MOST_ALLOCATIONS {
        let mut command = program.command(&setup, Arm::Gpu);
        command.args(["TRI0-GPU", "1"]).arg(setup.model("random-tiny-q4_k_m.gguf")).args(["2", "1"]);
        let outcome = run(command.env("TRI_FAULT", format!("vulkan:alloc@{n}")));
        let lines = outcome.lines_with("asked for by TRI_FAULT");
        if lines.is_empty() {
            outcome.success();
            // Weights, cache and buffer of the graph; then those of each of the two recordings.
            assert!(refused >= 3 && answered >= 4, "{refused} refusals, {answered} answers");
            report(test, &format!("{refused} refused with a sentence, {answered} computed by the CPU"));
            return;
        }
        assert_eq!(lines.len(), 1, "allocation {n}: {outcome:#?}");
        match outcome.code() {
            0 => answered += 1,
            1 => refused += 1,
            code => panic!("allocation {n} ended with {code}: {outcome:#?}"),
        }
    }
    panic!("more than {MOST_ALLOCATIONS} allocations");
}

#[test]
fn a_damaged_cache_of_shaders_is_named_and_replaced() {
    let test = "gpu_faults::a_damaged_cache_of_shaders_is_named_and_replaced";
    let Some(setup) = Setup::find_gpu(test, &["random-tiny-q4_k_m.gguf"]) else { return };
    let Some(headers) = file_from(test, "E2E_HEADERS") else { return };
    let program = Program::new(&setup, &headers, "cycles", &[]);
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let compute = || {
        let mut command = program.command(&setup, Arm::Gpu);
        command.args(["TRI0-GPU", "1"]).arg(setup.model("random-tiny-q4_k_m.gguf")).arg("1");
        let outcome = run(command.env("XDG_CACHE_HOME", folder.path())).success();
        outcome.lines_with("is damaged or from another driver").len()
    };
    assert_eq!(compute(), 0);
    let cache = folder.path().join("ggml-tri");
    let mut files = fs::read_dir(&cache).expect("the cache was made").flatten().map(|entry| entry.path());
    let file = files.find(|file| file.extension().is_some_and(|end| end == "cache")).expect("a file of shaders");
    let whole = fs::read(&file).expect("it can be read");
    let flipped = whole.iter().map(|byte| !byte).collect();
    for damaged in [flipped, Vec::new(), whole[..whole.len() - 1].to_vec(), vec![0; 1 << 16]] {
        fs::write(&file, damaged).expect("it can be written");
        assert_eq!(compute(), 1, "one line names it");
        assert_eq!(fs::read(&file).expect("it was written anew").len(), whole.len());
    }
    assert_eq!(compute(), 0);
}
