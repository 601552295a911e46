//! Where weights and work lie: what the user chooses is done, and nothing changes the text.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::host::{Arm, Outcome, Setup, report, run, skipped};
use crate::http::Server;

const PROMPT: &str = "At the end of the pier, where the wind was strongest,";

fn completion(setup: &Setup, arm: Arm, model: &str, more: &[&str]) -> Command {
    let mut command = setup.tool("llama-completion", arm);
    command.arg("-m").arg(setup.model(model)).args(["-p", PROMPT, "-no-cnv", "--temp", "0", "-t", "2"]).args(more);
    command
}

fn text(setup: &Setup, arm: Arm, more: &[&str]) -> Outcome {
    run(&mut completion(setup, arm, "smollm2.gguf", &[&["-n", "48", "-c", "512", "-v"], more].concat())).success()
}

#[test]
fn placement_flags_are_followed_and_leave_the_text() {
    let test = "placement::placement_flags_are_followed_and_leave_the_text";
    let Some(setup) = Setup::find(test, &["smollm2.gguf"]) else { return };
    let stock = text(&setup, Arm::Stock, &[]);
    assert!(stock.stdout.len() > PROMPT.len() + 80, "{stock:#?}");
    let check = |flags: &[&str]| {
        let tri = text(&setup, Arm::Tri, flags);
        assert_eq!(tri.stdout, stock.stdout, "{flags:?}");
        tri
    };
    assert!(!check(&[]).lines_with("offloaded 31/31 layers").is_empty());
    assert!(!check(&["-ngl", "0"]).lines_with("offloaded 0/31 layers").is_empty());
    let half = check(&["-ngl", "12"]);
    assert!(!half.lines_with("offloaded 12/31 layers").is_empty());
    assert!(cache_mib(&half, "TRI0") > 0.0 && cache_mib(&half, "CPU") > 0.0, "the KV cache is in two places");
    let moved = check(&["-ot", r"blk\.[0-9]\.ffn_(up|down|gate)\.=CPU"]);
    let names = moved.lines_with("buffer type overridden to CPU").into_iter().filter_map(tensor_name);
    let names: BTreeSet<_> = names.collect();
    assert_eq!(names.len(), 30, "three matrices of ten layers: {names:?}");
}

/// MiB of the KV cache in the buffers of a device.
fn cache_mib(outcome: &Outcome, device: &str) -> f64 {
    let lines = outcome.lines_with("KV buffer size");
    let mine = lines.iter().filter(|line| line.split_whitespace().any(|word| word == device));
    mine.filter_map(|line| line.rsplit_once('=')?.1.trim().trim_end_matches(" MiB").parse::<f64>().ok()).sum()
}

/// The word after "tensor" in a line of the log.
fn tensor_name(line: String) -> Option<String> {
    line.split_whitespace().skip_while(|word| *word != "tensor").nth(1).map(str::to_owned)
}

#[test]
fn a_normal_run_has_one_split() {
    let Some(setup) = Setup::find("placement::a_normal_run_has_one_split", &["smollm2.gguf", "gemma.gguf"]) else {
        return;
    };
    for model in ["smollm2.gguf", "gemma.gguf"] {
        let mut command = completion(&setup, Arm::Tri, model, &["-n", "4", "-c", "512", "-v"]);
        let outcome = run(command.env("GGML_SCHED_DEBUG", "2")).success();
        let splits = outcome.lines_with("## SPLIT #");
        let graphs = splits.iter().filter(|line| line.contains("## SPLIT #0:")).count();
        let ours = splits.iter().filter(|line| line.contains(": TRI0 #")).count();
        assert!(graphs >= 4 && ours == graphs, "{model}: {ours} splits on TRI0 in {graphs} graphs: {splits:#?}");
        // Everything that uses a weight of a layer is on TRI0. The embedding may be looked up where llama.cpp keeps its
        // matrix. The first bracket of a line names the device of the node, later ones those of its sources.
        let on_tri0 = |line: &&String| line.split_once('[').is_some_and(|(_, rest)| rest.trim().starts_with("TRI0"));
        let nodes = outcome.lines_with("node #");
        let layers: Vec<_> = nodes.iter().filter(|line| line.contains("blk.")).collect();
        let elsewhere: Vec<_> = layers.iter().filter(|line| !on_tri0(line)).take(5).collect();
        assert!(elsewhere.is_empty() && layers.len() > 100, "{model}: nodes that are not on TRI0: {elsewhere:#?}");
        // A node that TRI0 cannot compute would be a split of its own in the middle.
        assert!(splits.len() <= 2 * graphs, "{model}: {splits:#?}");
        report("placement::a_normal_run_has_one_split", &format!("{model}: {graphs} graphs, one split on TRI0 each"));
    }
}

#[test]
fn a_context_that_cannot_fit_is_made_smaller() {
    let Some(setup) = Setup::find("placement::a_context_that_cannot_fit_is_made_smaller", &["smollm2.gguf"]) else {
        return;
    };
    // --fit is on by default and leaves an explicit -c alone. A KV cache in f32 makes the difference between the default
    // context (8,192 tokens, 360 MiB) and the smallest allowed (512, 23 MiB) far larger than what other processes change
    // of the free memory meanwhile; weights and work take about 200 MiB more.
    let cache = ["-n", "8", "-ctk", "f32", "-ctv", "f32", "-v"];
    let margin = (available_mib() - 380).to_string();
    let more = [&cache[..], &["--fit-target", &margin, "--fit-ctx", "512"]].concat();
    let fitted = run(&mut completion(&setup, Arm::Tri, "smollm2.gguf", &more)).success();
    let size = context_size(&fitted);
    assert!((512..8192).contains(&size), "fitted to {size} tokens: {:#?}", fitted.lines_with("fit"));
    let roomy = run(&mut completion(&setup, Arm::Tri, "smollm2.gguf", &cache)).success();
    assert_eq!(context_size(&roomy), 8192);
    assert_eq!(fitted.stdout, roomy.stdout);
}

fn context_size(outcome: &Outcome) -> u32 {
    let lines = outcome.lines_with("llama_context: n_ctx  ");
    let number = lines.last().and_then(|line| line.rsplit(' ').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no context size in {outcome:#?}"))
}

/// MiB that the kernel says a new program could use.
fn available_mib() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").expect("/proc/meminfo can be read");
    let line = text.lines().find(|line| line.starts_with("MemAvailable:")).expect("MemAvailable is there");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number of KiB") / 1024
}

#[test]
fn the_thread_count_reaches_tri0() {
    let Some(setup) = Setup::find("placement::the_thread_count_reaches_tri0", &["smollm2.gguf"]) else { return };
    // Seconds of processor time that each thread of the server has used, the busiest two.
    let busiest = |threads: &str| {
        let mut command = setup.tool("llama-server", Arm::Tri);
        command.arg("-m").arg(setup.model("smollm2.gguf")).args(["-t", threads, "-c", "1024", "-np", "1"]);
        let server = Server::start(command);
        server.greedy(PROMPT, 200);
        let tasks = fs::read_dir(format!("/proc/{}/task", server.child.id())).expect("the server runs");
        let mut ticks: Vec<u64> = tasks.map(|task| user_ticks(&task.expect("a task").path())).collect();
        ticks.sort_unstable();
        (ticks[ticks.len() - 1], ticks[ticks.len() - 2])
    };
    let (first, second) = busiest("1");
    assert!(second * 5 < first, "-t 1: the two busiest threads used {first} and {second} ticks");
    let (first, second) = busiest("2");
    assert!(second * 3 > first, "-t 2: the two busiest threads used {first} and {second} ticks");
}

fn user_ticks(task: &Path) -> u64 {
    let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
    // Fields are counted after the name, which is in brackets and may contain spaces; utime is the twelfth there.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().nth(11).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// A control group with a memory limit; dropped, it is removed.
struct Limited(PathBuf);

impl Limited {
    fn new(bytes: u64) -> Result<Limited, String> {
        let name = format!("ggml-tri-test-{}", std::process::id());
        let mut why = Vec::new();
        for (root, limit) in [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")] {
            let folder = Path::new(root).join(&name);
            // The kernel makes the file; one that had to be created here would limit nothing.
            let set =
                || fs::OpenOptions::new().write(true).open(folder.join(limit))?.write_all(bytes.to_string().as_bytes());
            match fs::create_dir(&folder).and_then(|()| set()) {
                Ok(()) => return Ok(Limited(folder)),
                Err(error) => why.push(format!("{}: {error}", folder.join(limit).display())),
            }
            // Where the controller is missing the folder can be made and the limit cannot be set.
            let _ = fs::remove_dir(&folder);
        }
        Err(format!("no memory limit can be set ({})", why.join("; ")))
    }

    /// A command that runs another one inside the group.
    fn run(&self, command: &Command) -> Outcome {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.0.join("cgroup.procs"));
        shell.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        run(&mut shell)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // The kernel refuses while a process is still ending; an empty group left behind does no harm.
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn mapping_runs_a_model_of_more_than_half_the_memory() {
    let test = "placement::mapping_runs_a_model_of_more_than_half_the_memory";
    let Some(setup) = Setup::find(test, &["gemma.gguf"]) else { return };
    let model = fs::metadata(setup.model("gemma.gguf")).expect("the model is there").len();
    let limit = model * 8 / 5;
    let limited = match Limited::new(limit) {
        Ok(limited) => limited,
        Err(why) => return skipped(test, &why),
    };
    let more = ["-n", "24", "-c", "256", "-b", "32", "-ub", "32", "--no-warmup"];
    let free = run(&mut completion(&setup, Arm::Tri, "gemma.gguf", &more)).success();
    let bound = limited.run(&completion(&setup, Arm::Tri, "gemma.gguf", &more)).success();
    assert_eq!(bound.stdout, free.stdout);
    drop(limited);
    // Under a limit below the weights a mapped model still runs, and a copied one is killed: so the limit is in force.
    let Ok(tight) = Limited::new(model * 3 / 4) else { panic!("the first group could be made, the second cannot") };
    let mapped = tight.run(&completion(&setup, Arm::Tri, "gemma.gguf", &more)).success();
    assert_eq!(mapped.stdout, free.stdout);
    let copied = tight.run(&completion(&setup, Arm::Tri, "gemma.gguf", &[&more[..], &["-lm", "none"]].concat()));
    assert_eq!(copied.status.signal(), Some(9), "{copied:#?}");
    report(test, &format!("{} MiB of weights under a limit of {} MiB", model >> 20, limit >> 20));
}
