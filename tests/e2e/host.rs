//! What all end-to-end tests share: where the host lies, how its tools are started, watched and asked.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a tool may run. Far above what the slowest needs on two cores, so that only a hang reaches it.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// Tests take turns: most of them use every core, and some measure processor time.
static TURN: Mutex<()> = Mutex::new(());

/// Which device computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// llama.cpp as its users have it, without the plugin.
    Stock,
    /// The same binaries with everything on TRI0.
    Tri,
    /// The same binaries with everything on TRI0-GPU, on the software device of Mesa.
    Gpu,
}

impl Arm {
    /// The value of `--device`.
    pub fn device(self) -> &'static str {
        match self {
            Arm::Stock => "none",
            Arm::Tri => "TRI0",
            Arm::Gpu => "TRI0-GPU",
        }
    }
}

/// The files a test works with; while it lives, no other test runs.
pub struct Setup {
    pub host: PathBuf,
    pub plugin: PathBuf,
    models: Option<PathBuf>,
    _turn: MutexGuard<'static, ()>,
}

impl Setup {
    /// Finds host, plugin and the named models, or says in a `SKIPPED` line what is missing.
    pub fn find(test: &str, models: &[&str]) -> Option<Setup> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let host = file_from(test, "E2E_HOST")?;
        let plugin = file_from(test, "E2E_PLUGIN")?;
        let folder = if models.is_empty() { None } else { Some(file_from(test, "E2E_MODELS")?) };
        for model in models {
            let path = folder.as_ref()?.join(model);
            if !path.is_file() {
                skipped(test, &format!("{} is missing (scripts/test puts it there)", path.display()));
                return None;
            }
        }
        Some(Setup { host, plugin, models: folder, _turn: turn })
    }

    /// The same for tests of the GPU engine, which need a Vulkan device that every machine can have.
    pub fn find_gpu(test: &str, models: &[&str]) -> Option<Setup> {
        let drivers = std::fs::read_dir("/usr/share/vulkan/icd.d").into_iter().flatten().flatten();
        if !drivers.into_iter().any(|file| file.file_name().to_string_lossy().starts_with("lvp_icd")) {
            skipped(test, "there is no lavapipe (package mesa-vulkan-drivers)");
            return None;
        }
        Setup::find(test, models)
    }

    /// The path of a model that `find` was asked for.
    pub fn model(&self, name: &str) -> PathBuf {
        self.models.as_ref().expect("the test asked for models").join(name)
    }

    /// A tool that understands llama.cpp's common arguments, with its device chosen.
    pub fn tool(&self, name: &str, arm: Arm) -> Command {
        let mut command = self.bare(name, arm);
        command.args(["--device", arm.device()]);
        command
    }

    /// A tool without any argument; the plugin is on offer unless the arm is stock.
    pub fn bare(&self, name: &str, arm: Arm) -> Command {
        let mut command = clean(&self.host.join(name));
        if arm == Arm::Gpu {
            command.env("TRI_GPU", "lavapipe");
        }
        if arm != Arm::Stock {
            command.env("GGML_BACKEND_PATH", &self.plugin).env("TRI_PROFILE", "off");
            // The layout of a weight decides the rounding, and where the catalogue prefers another one than stock's the
            // text may differ; elsewhere the default is what is compared.
            if std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" avx512f ")) {
                command.env("TRI_LAYOUT", "stock");
            }
        }
        command
    }
}

/// A command that inherits none of the variables which change what llama.cpp or the plugin do.
pub fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["TRI_", "LLAMA_", "GGML_"].iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    // Threads that spin in a barrier make two threads on a busy core fifty times slower than one.
    command.env("OMP_WAIT_POLICY", "passive");
    command
}

/// The existing file or folder that a variable names, or a `SKIPPED` line and nothing.
pub fn file_from(test: &str, variable: &str) -> Option<PathBuf> {
    let Some(path) = std::env::var_os(variable).map(PathBuf::from) else {
        skipped(test, &format!("{variable} is not set (scripts/test sets it)"));
        return None;
    };
    if !path.exists() {
        skipped(test, &format!("{variable} names {}, which does not exist", path.display()));
        return None;
    }
    Some(path)
}

/// Says that a test did not run. The test harness hides what passing tests print, so the line also goes to a file.
pub fn skipped(test: &str, reason: &str) {
    let line = format!("SKIPPED: {test}: {reason}");
    println!("{line}");
    append(std::env::var_os("E2E_SKIPS").map(PathBuf::from), &line);
}

/// Records one line of what a test showed.
pub fn report(test: &str, line: &str) {
    let line = format!("{test}: {line}");
    println!("{line}");
    append(std::env::var_os("E2E_REPORT").map(|folder| Path::new(&folder).join("e2e.txt")), &line);
}

fn append(file: Option<PathBuf>, line: &str) {
    let Some(file) = file else { return };
    let mut file = OpenOptions::new().create(true).append(true).open(&file).expect("the report file can be opened");
    writeln!(file, "{line}").expect("the report file can be written");
}

/// How a process ended and what it said.
#[derive(Debug)]
pub struct Outcome {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// The exit code; a signal is a failure of the test.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("ended by signal {:?}\n{self:#?}", self.status.signal()))
    }

    /// Itself, when the exit code is 0.
    pub fn success(self) -> Outcome {
        assert_eq!(self.code(), 0, "{self:#?}");
        // Some tools go on after a graph that failed.
        assert!(!self.said().contains("internal error at"), "{self:#?}");
        self
    }

    /// Everything it said, and nothing twice.
    pub fn said(&self) -> String {
        format!("{}\n{}", self.stdout, self.stderr)
    }

    /// The lines on either stream that contain a text.
    pub fn lines_with(&self, text: &str) -> Vec<String> {
        self.said().lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }
}

/// Runs a command to its end; one that hangs is killed and fails the test.
pub fn run(command: &mut Command) -> Outcome {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
    let stdout = drain(child.stdout.take().expect("stdout is piped"));
    let stderr = drain(child.stderr.take().expect("stderr is piped"));
    let status = wait(&mut child, PATIENCE);
    if status.is_none() {
        child.kill().expect("a running child can be killed");
        child.wait().expect("a killed child can be waited for");
    }
    let (stdout, stderr) = (stdout.join().expect("reader"), stderr.join().expect("reader"));
    let Some(status) = status else { panic!("{command:?} still ran after {PATIENCE:?}\n{stdout}\n{stderr}") };
    Outcome { status, stdout, stderr }
}

fn drain(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("a pipe can be read");
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for a child for some time; nothing when it still runs.
pub fn wait(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait().expect("a child can be asked for its status") {
            return Some(status);
        }
        if Instant::now() > end {
            return None;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// A port of the loopback interface that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
    listener.local_addr().expect("a bound socket has an address").port()
}
