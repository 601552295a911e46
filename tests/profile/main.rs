//! The profile under torture: eight writers, `kill -9`, damage of every kind, full disks, closed folders; and `tri profile`.
//!
//! What is true is a function of the key alone, so any wrong figure is seen to the last bit. `PROFILE_TORTURE=long` takes
//! minutes: every length, every byte, and many more kills.

mod command;
mod damage;
mod folders;
mod full;
mod writers;

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ggml_tri::chip::fingerprint::{Fingerprint, Part};
use ggml_tri::config::Keep;
use ggml_tri::engine::EngineKind;
use ggml_tri::profile::{Decision, Entry, Knowledge, Loaded, Profile};

/// How much of a test is done: the first number, or the second one when time does not matter.
fn thorough(short: usize, long: usize) -> usize {
    if env::var_os("PROFILE_TORTURE").is_some() { long } else { short }
}

fn chip() -> Fingerprint {
    let parts =
        [(Part::Cpu, "Zen, 16 threads"), (Part::Gpu, "780M"), (Part::GpuDriver, "radv 25.3"), (Part::Power, "ac")];
    Fingerprint::of(parts.map(|(part, text)| (part, Some(text.to_owned()))))
}

/// The true figures of a key.
fn truth(key: usize) -> Vec<f64> {
    vec![1e-6 * (key as f64 + 1.0) * std::f64::consts::PI, 1.0 / (key as f64 + 3.0)]
}

fn entry(key: usize, samples: u64) -> Entry {
    let engine = if key.is_multiple_of(2) { EngineKind::Cpu } else { EngineKind::Gpu };
    Entry { engine, key: format!("MUL_MAT q4_K {key}"), values: truth(key), samples }
}

fn decision(key: usize) -> Decision {
    Decision { site: format!("MUL_MAT q4_K {key}"), choice: format!("gpu:{key} cpu:1") }
}

/// `keys` costs of `samples` each, and a decision for each.
fn knowledge(keys: usize, samples: u64) -> Knowledge {
    Knowledge {
        entries: (0..keys).map(|key| entry(key, samples)).collect(),
        decisions: (0..keys).map(decision).collect(),
    }
}

fn profile(path: &Path) -> Profile {
    Profile::open(&Keep::File(path.to_owned()))
}

/// Fails if anything that was loaded is not true; returns the samples of each key that is known.
fn verify(loaded: &Loaded, keys: usize) -> Vec<Option<u64>> {
    let mut samples = vec![None; keys];
    assert!(loaded.earlier.is_empty() && loaded.changed.is_empty());
    for found in &loaded.current.entries {
        let key: usize = found.key.rsplit(' ').next().unwrap().parse().unwrap();
        assert_eq!(*found, entry(key, found.samples));
        samples[key] = Some(found.samples);
    }
    for found in &loaded.current.decisions {
        let key: usize = found.site.rsplit(' ').next().unwrap().parse().unwrap();
        assert_eq!(*found, decision(key));
    }
    samples
}

/// A child of the tests: this executable again, which runs only [`child`].
fn again(role: &str, path: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["child", "--exact", "--nocapture", "--test-threads=1"]);
    command.env("PROFILE_CHILD", role).env("PROFILE_PATH", path);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Lines of a child that say `saved`, until it ends.
fn saved(child: &mut Child) -> u64 {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    lines.filter(|line| line == "saved").count() as u64
}

/// What a child does: nothing, unless a test started it as one.
#[test]
fn child() {
    let Some(role) = env::var_os("PROFILE_CHILD") else { return };
    let path = env::var_os("PROFILE_PATH").unwrap();
    let profile = profile(Path::new(&path));
    let role = role.into_string().unwrap();
    let (rounds, keys) = role.split_once('x').unwrap();
    let (rounds, keys): (u64, usize) = (rounds.parse().unwrap(), keys.parse().unwrap());
    let mut samples: Vec<u64> = verify(&profile.load(&chip()), keys).into_iter().map(|n| n.unwrap_or(0)).collect();
    println!();
    for _ in 0..rounds {
        samples.iter_mut().for_each(|n| *n += 1);
        let learned = Knowledge {
            entries: samples.iter().enumerate().map(|(key, n)| entry(key, *n)).collect(),
            decisions: (0..keys).map(decision).collect(),
        };
        println!("{}", if profile.save(&chip(), &learned) { "saved" } else { "failed" });
        std::io::stdout().flush().unwrap();
    }
    for message in profile.said() {
        println!("said {message}");
    }
}
