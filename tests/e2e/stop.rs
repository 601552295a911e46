//! Ending a server in the middle of its work.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use crate::host::{Arm, Setup, clean, file_from, report, wait};
use crate::http::{Server, greedy_request};

/// How long a server may take to end: one token takes milliseconds, the rest is unmapping and joining threads.
const PROMPTLY: Duration = Duration::from_secs(10);

/// One slot that can write for a long time and says how far it is.
const FLAGS: [&str; 7] = ["-t", "2", "-np", "1", "-c", "8192", "--slots"];

fn llama_server(setup: &Setup, arm: Arm) -> Command {
    let mut command = setup.tool("llama-server", arm);
    command.arg("-m").arg(setup.model("smollm2.gguf")).args(FLAGS);
    command
}

/// Sends a signal while a long answer is being generated; how the server ended, and after what time.
fn interrupt(server: &mut Server, signal: &str) -> (ExitStatus, Duration) {
    let client = server.begin("/completion", &greedy_request("Once upon a time", 8000));
    // Some tokens must have been made, or this would be the end of an idle server.
    let end = Instant::now() + Duration::from_secs(60);
    while tokens_so_far(server) < 8 {
        assert!(Instant::now() < end, "no generation began\n{}", server.log());
        thread::sleep(Duration::from_millis(20));
    }
    assert!(Command::new("kill").args([signal, &server.child.id().to_string()]).status().expect("kill runs").success());
    // llama-server stops generating, and then waits for as long as a client waits for its answer.
    drop(client);
    let sent = Instant::now();
    let status = wait(&mut server.child, PROMPTLY);
    (status.unwrap_or_else(|| panic!("it still runs {PROMPTLY:?} after {signal}\n{}", server.log())), sent.elapsed())
}

fn tokens_so_far(server: &Server) -> u64 {
    let slots = server.get("/slots");
    slots[0]["next_token"][0]["n_decoded"].as_u64().unwrap_or(0)
}

/// Processes whose parent is the given one.
fn children(pid: u32) -> Vec<u32> {
    let folders = fs::read_dir("/proc").expect("/proc can be listed").flatten();
    let numbers = folders.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent = |child: &u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    numbers.filter(|child| parent(child) == Some(pid)).collect()
}

#[test]
fn sigterm_during_a_generation_ends_the_server_as_stock() {
    let test = "stop::sigterm_during_a_generation_ends_the_server_as_stock";
    let Some(setup) = Setup::find(test, &["smollm2.gguf"]) else { return };
    let (stock, _) = interrupt(&mut Server::start(llama_server(&setup, Arm::Stock)), "-TERM");
    let mut server = Server::start(llama_server(&setup, Arm::Tri));
    let (tri, time) = interrupt(&mut server, "-TERM");
    assert_eq!((tri.code(), tri.signal()), (stock.code(), stock.signal()), "{}", server.log());
    report(test, &format!("{tri} after {} ms", time.as_millis()));
}

#[test]
fn kill_9_leaves_nothing_behind() {
    let Some(setup) = Setup::find("stop::kill_9_leaves_nothing_behind", &["smollm2.gguf"]) else { return };
    let prompt = "The morning after the fair,";
    let mut first = Server::start(llama_server(&setup, Arm::Tri));
    let before = first.greedy(prompt, 32);
    assert_eq!(children(first.child.id()), [0; 0], "TRI0 needs no process of its own, which could be orphaned");
    let (status, _) = interrupt(&mut first, "-KILL");
    assert_eq!(status.signal(), Some(9));
    // Whatever the killed one held (files, caches, locks) must not change or hinder the next.
    let second = Server::start(llama_server(&setup, Arm::Tri));
    assert_eq!(second.greedy(prompt, 32), before);
}

#[test]
fn the_launcher_becomes_the_server() {
    let test = "stop::the_launcher_becomes_the_server";
    let Some(setup) = Setup::find(test, &["smollm2.gguf"]) else { return };
    let Some(tri) = file_from(test, "E2E_TRI") else { return };
    let mut command = clean(&tri);
    command.env("TRI_LLAMA_DIR", &setup.host).env("TRI_PLUGIN", &setup.plugin);
    command.args(["run", "llama-server", "--backend", "tri", "-m"]).arg(setup.model("smollm2.gguf")).args(FLAGS);
    let mut server = Server::start(command);
    let pid = server.child.id();
    // The process that was started as `tri` is the server itself, so signals and exit codes are the server's.
    let running = fs::canonicalize(format!("/proc/{pid}/exe")).expect("the process runs");
    assert_eq!(running, fs::canonicalize(setup.host.join("llama-server")).expect("the host has a server"));
    assert_eq!(children(pid), [0; 0]);
    let launched = server.greedy("The launcher is", 32);
    let (status, _) = interrupt(&mut server, "-TERM");
    assert_eq!(launched, Server::start(llama_server(&setup, Arm::Tri)).greedy("The launcher is", 32));
    let (direct, _) = interrupt(&mut Server::start(llama_server(&setup, Arm::Tri)), "-TERM");
    assert_eq!((status.code(), status.signal()), (direct.code(), direct.signal()));
    assert!(server.log().contains("TRI0"), "the load line of the plugin is missing:\n{}", server.log());
}
