//! `tri plan` as a user meets it, with small files whose weights are holes.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Output};

// The writer of test files, as the parser's own tests have it.
#[path = "../src/graph/gguf/testing.rs"]
mod gguf;

use gguf::{F32, Q4_K, Writer, llama};

/// A folder with model files.
struct World {
    root: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        World { root: tempfile::tempdir().unwrap() }
    }

    /// Writes a model, whose weights take no room.
    fn model(&self, name: &str, file: Writer) -> PathBuf {
        let (bytes, length) = file.finish();
        let path = self.root.path().join(name);
        fs::write(&path, bytes).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
        path
    }

    fn run(&self, args: &str) -> Output {
        let mut tri = Command::new(env!("CARGO_BIN_EXE_tri"));
        tri.current_dir(self.root.path()).env_clear().env("TRI_GPU", "off").arg("plan").args(args.split_whitespace());
        tri.output().unwrap()
    }

    fn json(&self, args: &str) -> serde_json::Value {
        let output = self.run(&format!("{args} --json"));
        assert!(output.status.success(), "{args}: {}", err(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// On a chip, without the setting that leaves the GPU out.
    fn on_chip(&self, args: &str) -> serde_json::Value {
        let mut tri = Command::new(env!("CARGO_BIN_EXE_tri"));
        tri.current_dir(self.root.path()).env_clear().args(["plan", "--json"]).args(args.split_whitespace());
        let output = tri.output().unwrap();
        assert!(output.status.success(), "{args}: {}", err(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Asserts the exit code and that every text stands in the one line of the message.
fn refused(output: &Output, code: i32, texts: &[&str]) {
    let message = err(output);
    assert_eq!((output.status.code(), message.lines().count()), (Some(code), 1), "{message}");
    assert!(texts.iter().all(|text| message.contains(text)), "{texts:?} are not in: {message}");
}

#[test]
fn a_plan_names_every_matrix_and_is_marked_as_a_prediction() {
    let world = World::new();
    world.model("m.gguf", llama("llama", 3));
    let output = world.run("m.gguf --chip 8840U");
    assert!(output.status.success(), "{}", err(&output));
    let text = out(&output);
    for expected in [
        "a small <test> model: llama, 3 layers, 7 M weights in 4.65 MB",
        "Ryzen 7 8840U: figures of the catalogue",
        "Everything below is predicted, nothing is measured",
        "numbers are guesses",
        "(predicted)",
        "The gpu is left out, as TRI_GPU=off says",
        "planned as if one did",
        "cpu computes the whole pass: ",
        "npu: with all that it takes on it, and the rest on the cpu, the pass would take ",
        "npu refused for ffn_down: one dispatch costs 216 us, the whole product takes 10 us on the cpu.",
    ] {
        assert!(text.contains(expected), "'{expected}' is not in:\n{text}");
    }
    for name in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"] {
        let line =
            text.lines().find(|line| line.contains(&format!(" {name} "))).unwrap_or_else(|| panic!("{name}:\n{text}"));
        assert!(line.contains(" 0-2 "), "{line}");
    }
}

#[test]
fn the_report_as_json_adds_up() {
    let world = World::new();
    world.model("m.gguf", llama("llama", 2));
    let report = world.on_chip("m.gguf --chip 8840U --width 4 --context 300");
    assert_eq!((report["predicted"].as_bool(), report["width"].as_u64()), (Some(true), Some(4)));
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or_else(|| panic!("{value}"));
    let seconds = number(&report["seconds"]);
    assert!((number(&report["tokens_per_second"]) - 4.0 / seconds).abs() < 1e-6 / seconds);
    let engines = report["engines"].as_array().unwrap();
    assert_eq!(engines.iter().map(|e| e["engine"].as_str().unwrap()).collect::<Vec<_>>(), ["cpu", "gpu", "npu"]);
    for engine in engines {
        assert!(number(&engine["busy"]) <= seconds * 1.000_001);
        for share in ["bandwidth_share", "operations_share"] {
            assert!((0.0..=1.0).contains(&number(&engine[share])), "{engine}");
        }
    }
    // One engine at a time: what the sites take, and the launches, is what the pass takes.
    let sites: f64 = report["sites"].as_array().unwrap().iter().map(|site| number(&site["seconds"])).sum();
    assert!(sites <= seconds && sites > 0.5 * seconds, "{sites} of {seconds}");
    assert!(report["chip"]["sources"].as_array().unwrap().iter().any(|s| s["guess"] == true && s["place"] == "bus"));
    assert_eq!(report, world.on_chip("m.gguf --chip 8840U --width 4 --context 300"), "the same twice");
}

#[test]
fn wider_passes_and_longer_contexts_take_longer() {
    let world = World::new();
    world.model("m.gguf", llama("llama", 2));
    let seconds = |args: &str| world.json(&format!("m.gguf --chip 8840U {args}"))["seconds"].as_f64().unwrap();
    assert!(seconds("--width 512") > seconds("--width 16"));
    assert!(seconds("--width 16") > seconds(""));
    assert!(seconds("--context 100000") > 2.0 * seconds("--context 256"));
}

#[test]
fn this_machine_is_planned_without_a_chip() {
    let world = World::new();
    world.model("m.gguf", llama("llama", 1));
    let report = world.json("m.gguf --objective energy");
    assert_eq!(report["engines"][0]["engine"], "cpu");
    assert!(report["seconds"].as_f64() > Some(0.0) && report["joules"].as_f64() > Some(0.0));
    assert!(report["why"][0].as_str().unwrap().ends_with("J."), "{report}");
}

#[test]
fn a_timeline_is_drawn_with_every_text_escaped() {
    let world = World::new();
    world.model("m.gguf", llama("llama", 1));
    let output = world.run("m.gguf --chip 8840U --svg line.svg");
    assert!(output.status.success(), "{}", err(&output));
    let svg = fs::read_to_string(world.root.path().join("line.svg")).unwrap();
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("a small &lt;test&gt; model on Ryzen 7 8840U") && svg.contains("not measured"));
    assert!(svg.contains("<title>ffn_down, layer 0: "));
    refused(&world.run("m.gguf --chip 8840U --svg nowhere/line.svg"), 1, &["'nowhere/line.svg' cannot be written"]);
}

#[test]
fn the_names_of_chips_are_listed_and_a_wrong_one_is_answered_with_them() {
    let world = World::new();
    let names = out(&world.run("--chip list"));
    assert!(names.lines().count() >= 6 && names.contains("Ryzen AI Max+ 395"), "{names}");
    assert_eq!(world.json("--chip list").as_array().unwrap().len(), names.lines().count());
    refused(&world.run("m.gguf --chip 6502"), 2, &["'6502'", "Ryzen AI 9 HX 370"]);
    refused(&world.run("m.gguf --chip Ryzen"), 2, &["more than one", "Ryzen 7 8840U"]);
}

#[test]
fn wrong_arguments_are_told_apart_from_wrong_files() {
    let world = World::new();
    world.model("m.gguf", llama("llama", 1));
    refused(&world.run(""), 2, &["needs a model's file"]);
    for args in ["m.gguf --width 0", "m.gguf --width 99999999", "m.gguf --objective comfort"] {
        assert_eq!(world.run(args).status.code(), Some(2), "{args}");
    }
    let chip = "--chip 8840U";
    refused(&world.run(&format!("absent.gguf {chip}")), 1, &["'absent.gguf'", "cannot be opened"]);
    refused(&world.run(&format!(". {chip}")), 1, &["'.'", "not a file"]);
    fs::write(world.root.path().join("text.gguf"), "no model").unwrap();
    refused(&world.run(&format!("text.gguf {chip}")), 1, &["does not begin with 'GGUF'"]);
}

#[test]
fn a_model_that_cannot_be_planned_is_refused_in_one_sentence() {
    let world = World::new();
    let run = |file: Writer| {
        world.model("m.gguf", file);
        world.run("m.gguf --chip 8840U")
    };
    let mamba = llama("mamba", 1).weight("blk.0.ssm_in.weight", Q4_K, &[512, 2048]);
    refused(&run(mamba), 1, &["'mamba'", "'blk.0.ssm_in.weight'", "llama-like"]);
    refused(&run(llama("llama", 1).number("split.count", 3).number("split.no", 1)), 1, &["part 2 of 3", "--merge"]);
    let strange = run(llama("never-seen", 1));
    assert!(strange.status.success() && out(&strange).contains("Note: The architecture 'never-seen' is not known"));
    let lying = llama("llama", 1).raw("general.lie", 8, &u64::MAX.to_le_bytes());
    refused(&run(lying), 1, &["it is incomplete"]);
    let path = world.model("m.gguf", llama("llama", 1).weight("blk.0.last.weight", F32, &[512]));
    File::options().write(true).open(&path).unwrap().set_len(fs::metadata(&path).unwrap().len() - 1).unwrap();
    refused(&world.run("m.gguf --chip 8840U"), 1, &["ends inside tensor 'blk.0.last.weight'"]);
}

#[test]
fn a_long_vocabulary_is_read_in_pieces() {
    let world = World::new();
    let words: Vec<String> = (0..300_000).map(|i| format!("word {i}")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    world.model("m.gguf", Writer::default().texts("a", &words).texts("b", &words).text("c", "d"));
    refused(&world.run("m.gguf --chip 8840U"), 1, &["names no architecture"]);
}
