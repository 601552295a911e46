//! Writes the table of docs/simulated.md: `cargo run --release --example regret -- --out docs/simulated.md`.
//!
//! With `--brief` random chips get the smallest model only; with `--quick` there is one model, few widths and few random
//! chips; with `--tune` other random chips than the held-out ones.

mod harness;
mod table;

use ggml_tri::chip::catalog;
use ggml_tri::graph::shapes::Model;
use ggml_tri::plan::Objective;
use ggml_tri::sim::Truth;
use harness::{Outcome, live};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The seeds of the 50 held-out chips, and of those for tuning.
const HELD_OUT: std::ops::Range<u64> = 1000..1050;
const TUNING: std::ops::Range<u64> = 1..51;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| args.iter().any(|a| a == flag);
    let value = |flag: &str| args.iter().position(|a| a == flag).and_then(|i| args.get(i + 1)).cloned();
    let quick = has("--quick");
    let seeds = if has("--tune") { TUNING } else { HELD_OUT };
    let chips: Vec<Truth> = catalog::chips().iter().map(Truth::of).collect();
    let random: Vec<Truth> = seeds.take(if quick { 8 } else { 50 }).map(Truth::random).collect();
    let models = if quick {
        vec![Model::llama_1b()]
    } else {
        vec![Model::llama_1b(), Model::llama_8b(), Model::qwen3_30b_a3b()]
    };
    // Decoding, checks of speculated tokens, prompts; and decoding and checks in turn, which share one assignment.
    let each = |widths: &[u64]| widths.iter().map(|w| vec![*w]).chain([vec![1, 6]]).collect::<Vec<_>>();
    let all = each(&(1..=16).chain([512, 2048]).collect::<Vec<u64>>());
    let some = each(&[1, 2, 5, 8, 16, 512, 2048]);
    let catalogue = outcomes(&chips, &models, if quick { &some } else { &all });
    let models = if has("--brief") { &models[..1] } else { &models[..] };
    let held_out = outcomes(&random, models, &some);
    let mut command = "cargo run --release --example regret".to_owned();
    if !args.is_empty() {
        command += &format!(" -- {}", args.join(" "));
    }
    let text = table::document(&command, &catalogue, &held_out);
    match value("--out") {
        Some(path) => std::fs::write(&path, text).unwrap_or_else(|e| panic!("{path}: {e}")),
        None => print!("{text}"),
    }
}

/// Every case of some chips, in order, on all cores of this machine.
fn outcomes(chips: &[Truth], models: &[Model], widths: &[Vec<u64>]) -> Vec<Outcome> {
    let mut cases = Vec::new();
    for chip in chips {
        for model in models {
            for width in widths {
                cases.extend([Objective::Speed, Objective::Energy].map(|objective| (chip, model, width, objective)));
            }
        }
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((i, (chip, model, width, objective))) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, cases.get(i)?)))
        {
            done.push((i, live(chip, model, width, *objective)));
            if i % 100 == 0 {
                eprintln!("{i} of {} cases", cases.len());
            }
        }
        done
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut all: Vec<(usize, Outcome)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|w| w.join().expect("a case panicked")).collect()
    });
    all.sort_by_key(|(i, _)| *i);
    all.into_iter().map(|(_, outcome)| outcome).collect()
}
