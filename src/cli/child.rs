//! Questions that a child of this executable answers (`tri __probe`), since what is asked may break it.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use super::find;

/// How long a library or a driver may take to load and answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why there is no answer. Completes a sentence that begins with what was asked.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The child said so.
    #[error("{0}")]
    Said(String),
    /// The child died of the question, or never ended.
    #[error("{0}")]
    Died(String),
}

/// What the child prints for these words behind `__probe`; `deed` is what it does to what is asked ("loads it").
pub fn ask(words: &[&OsStr], deed: &str) -> Result<String, Failure> {
    let own = find::own().map_err(|stop| Failure::Said(stop.message))?;
    // The child must see the name `tri`, or it would take itself for a launcher.
    let mut child = Command::new(own);
    child.arg0("tri").arg("__probe").args(words);
    let output = within(PATIENCE, &mut child)
        .map_err(|e| Failure::Said(format!("cannot be examined in a child process ({e})")))?;
    let Some(output) = output else {
        return Err(Failure::Died(format!(
            "hangs the process that {deed} (ended after {} seconds)",
            PATIENCE.as_secs()
        )));
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    match output.status.code() {
        Some(_) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(Failure::Said(said.trim().trim_start_matches("tri: ").to_owned()))
        }
        None => Err(Failure::Died(format!("kills the process that {deed} ({})", output.status))),
    }
}

/// What a command prints and how it ends; `None` if it had to be killed because it took longer.
fn within(limit: Duration, command: &mut Command) -> io::Result<Option<Output>> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // Each pipe is emptied by a thread, or a child that prints much would wait for us. Nobody waits for the threads: what
    // the child started may keep the pipes open longer than it lives itself.
    let (stdout, stderr) = (child.stdout.take().map(drain), child.stderr.take().map(drain));
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(1));
    };
    let all = |pipe: Option<Receiver<Vec<u8>>>| {
        let bytes = pipe.and_then(|pipe| pipe.recv_timeout(end.saturating_duration_since(Instant::now())).ok());
        bytes.unwrap_or_default()
    };
    Ok(Some(Output { status, stdout: all(stdout), stderr: all(stderr) }))
}

/// Reads a pipe to its end in a thread.
fn drain(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (give, take) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error counts; and nobody may be there to take it any more.
        let _ = pipe.read_to_end(&mut bytes);
        let _ = give.send(bytes);
    });
    take
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_hangs_is_killed_and_one_that_prints_much_is_not() {
        let run = |limit, script: &str| within(Duration::from_millis(limit), Command::new("sh").args(["-c", script]));
        assert!(run(100, "exec sleep 60").unwrap().is_none());
        let output = run(20_000, "head -c 300000 /dev/zero; echo no >&2; exit 3").unwrap().unwrap();
        assert_eq!((output.status.code(), output.stdout.len(), &output.stderr[..]), (Some(3), 300_000, &b"no\n"[..]));
    }
}
