//! C programs that use the plugin through ggml's and llama.cpp's public functions: plainly, under valgrind, and with
//! AddressSanitizer.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::host::{Arm, Outcome, Setup, file_from, report, run, skipped};

/// A compiled program of `tests/chost`, and the folder it lies in.
pub struct Program {
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Program {
    /// Compiles against the headers and the libraries of the host.
    pub fn new(setup: &Setup, headers: &Path, name: &str, flags: &[&str]) -> Program {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let file = folder.path().join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chost").join(name).with_extension("c");
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]).args(flags);
        cc.arg("-I").arg(headers).arg("-I").arg(headers.join("../../include")).arg(source).arg("-o").arg(&file);
        cc.arg("-L").arg(&setup.host).arg(format!("-Wl,-rpath,{}", setup.host.display()));
        run(cc.args(["-lllama", "-lggml", "-lggml-base", "-lpthread", "-ldl"])).success();
        Program { file, _folder: folder }
    }

    /// The program with the plugin on offer, run in the host's folder, where ggml also looks for backends.
    pub fn command(&self, setup: &Setup, arm: Arm) -> Command {
        let mut command = setup.bare(self.file.to_str().expect("temporary folders are UTF-8"), arm);
        command.current_dir(&setup.host);
        command
    }
}

/// Host, plugin, models and headers; the models may be none.
fn find(test: &str, models: &[&str]) -> Option<(Setup, PathBuf)> {
    Some((Setup::find(test, models)?, file_from(test, "E2E_HEADERS")?))
}

fn assert_well(outcome: &Outcome) {
    assert!(outcome.code() == 0 && outcome.stdout.trim_end().ends_with("all is well"), "{outcome:#?}");
}

#[test]
fn public_functions_give_the_numbers_of_ggml_cpu() {
    let test = "chost::public_functions_give_the_numbers_of_ggml_cpu";
    let Some((setup, headers)) = find(test, &[]) else { return };
    let program = Program::new(&setup, &headers, "host", &[]);
    for (layout, word) in [("auto", None), ("plain", None), ("stock", None), ("convert", Some("converted"))] {
        let mut command = program.command(&setup, Arm::Tri);
        let outcome = run(command.arg(&setup.host).args(word).env("TRI_LAYOUT", layout));
        assert_well(&outcome);
        report(test, &format!("TRI_LAYOUT={layout}: {}", outcome.lines_with("products:")[0]));
    }
    // Without the plugin the same program must fail, so that "all is well" is a statement about TRI0.
    assert_ne!(run(program.command(&setup, Arm::Stock).arg(&setup.host)).code(), 0);
}

#[test]
fn a_host_that_hides_its_symbols_finds_tri0() {
    let Some((setup, headers)) = find("chost::a_host_that_hides_its_symbols_finds_tri0", &[]) else { return };
    // The other programs link ggml; this one must not, so the linker drops what is not used.
    let program = Program::new(&setup, &headers, "local", &["-Wl,--as-needed"]);
    assert_well(&run(program.command(&setup, Arm::Tri).arg(&setup.host)));
}

#[test]
fn address_sanitizer_finds_no_error_and_no_leak() {
    let Some((setup, headers)) = find("chost::address_sanitizer_finds_no_error_and_no_leak", &[]) else { return };
    let program = Program::new(&setup, &headers, "host", &["-fsanitize=address", "-fno-omit-frame-pointer"]);
    let mut command = program.command(&setup, Arm::Tri);
    // Without Vulkan, whose drivers keep memory until the process ends.
    assert_well(&run(command.arg(&setup.host).env("ASAN_OPTIONS", "detect_leaks=1").env("TRI_GPU", "off")));
}

#[test]
fn valgrind_finds_no_error_and_no_definite_leak() {
    let test = "chost::valgrind_finds_no_error_and_no_definite_leak";
    let Some((setup, headers)) = find(test, &[]) else { return };
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if cpu.contains("avx512f") {
        return skipped(test, "this CPU has AVX-512, which the host may use and valgrind does not know");
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let Some(valgrind) = env::split_paths(&path).map(|folder| folder.join("valgrind")).find(|file| file.is_file())
    else {
        return skipped(test, "valgrind is not installed");
    };
    let program = Program::new(&setup, &headers, "host", &[]);
    let mut command = setup.bare(valgrind.to_str().expect("the path of valgrind is UTF-8"), Arm::Tri);
    // Without Vulkan: loading its drivers, glibc reads words that reach beyond what it asked for.
    command.current_dir(&setup.host).env("TRI_GPU", "off").args(["--error-exitcode=9", "--leak-check=full"]);
    // Thread stacks of libgomp are possibly lost at the end of every program that uses it; only definite leaks count.
    command.arg("--errors-for-leak-kinds=definite").arg(&program.file).arg(&setup.host);
    assert_well(&run(&mut command));
}

/// The tokens that `tests/chost/llama.c` prints.
fn decode(setup: &Setup, program: &Program, arm: Arm, flags: &[&str], models: &[&str]) -> Outcome {
    let mut command = program.command(setup, arm);
    command.args([arm.device(), "16"]).args(flags).args(models.iter().map(|model| setup.model(model)));
    let outcome = run(&mut command).success();
    assert_eq!(outcome.stdout.split_whitespace().count(), 16 * 4 * models.len(), "{outcome:#?}");
    outcome
}

#[test]
fn two_models_decode_in_turn_in_one_process() {
    let models = ["smollm2.gguf", "gemma.gguf"];
    let Some((setup, headers)) = find("chost::two_models_decode_in_turn_in_one_process", &models) else { return };
    let program = Program::new(&setup, &headers, "llama", &[]);
    let tri = decode(&setup, &program, Arm::Tri, &[], &models);
    assert_eq!(tri.stdout, decode(&setup, &program, Arm::Stock, &[], &models).stdout);
    // Each model alone, to see that neither disturbs the other; a line holds the four tokens of each model in turn.
    let alone = models.map(|model| decode(&setup, &program, Arm::Tri, &[], &[model]).stdout);
    assert_ne!(alone[0], alone[1]);
    let together: Vec<_> = alone[0].lines().zip(alone[1].lines()).map(|(a, b)| format!("{a}{b}")).collect();
    assert_eq!(tri.stdout.lines().collect::<Vec<_>>(), together);
}

#[test]
fn experts_left_on_the_cpu_give_the_same_tokens() {
    let models = ["random-moe-q4_k_m.gguf"];
    let Some((setup, headers)) = find("chost::experts_left_on_the_cpu_give_the_same_tokens", &models) else { return };
    let program = Program::new(&setup, &headers, "llama", &[]);
    let stock = decode(&setup, &program, Arm::Stock, &[], &models);
    let all = decode(&setup, &program, Arm::Tri, &[], &models);
    let left = decode(&setup, &program, Arm::Tri, &["--experts-on-cpu"], &models);
    assert_eq!(all.stdout, stock.stdout);
    assert_eq!(left.stdout, stock.stdout);
    assert_ne!(all.lines_with("model buffer size"), left.lines_with("model buffer size"), "no expert was left out");
}

#[test]
fn a_long_prompt_is_stopped_by_the_abort_callback() {
    let models = ["smollm2.gguf"];
    let Some((setup, headers)) = find("chost::a_long_prompt_is_stopped_by_the_abort_callback", &models) else { return };
    let program = Program::new(&setup, &headers, "llama", &[]);
    let mut command = program.command(&setup, Arm::Tri);
    run(command.args(["abort", "TRI0"]).arg(setup.model("smollm2.gguf"))).success();
}
