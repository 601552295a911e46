//! The `tri` executable as a user meets it, with shell scripts for llama.cpp's tools and tiny libraries for ggml.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const TRI: &str = env!("CARGO_BIN_EXE_tri");

/// A tool that writes its arguments (one a line) and its environment beside itself.
const RECORD: &str = r#"#!/bin/sh
here=$(dirname "$0")
: > "$here/args"
for arg in "$@"; do printf '%s\n' "$arg" >> "$here/args"; done
env -0 > "$here/env"
if [ "$1" = --list-devices ] || [ "$2" = --list-devices ]; then
  printf 'Available devices:\n  Vulkan0: a card (1 MiB, 1 MiB free)\n  Vulkan1: b (1 MiB, 1 MiB free)\n'
fi
"#;

/// A machine of its own in a folder: a host in `llama`, plugins, a prefix.
struct World {
    root: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let world = World { root: tempfile::tempdir().unwrap() };
        fs::create_dir(world.path("llama")).unwrap();
        world
    }

    /// With a host of ggml 0.26.0 that has all the named tools, and a plugin build for it.
    fn with_host(tools: &[&str]) -> World {
        let world = World::new();
        for tool in tools {
            world.tool(tool, RECORD);
        }
        world.library("llama/libggml-base.so.0", "ggml_version", "0.26.0");
        world.library("plugin.so", "tri_ggml_version", "0.26.0");
        fs::write(world.path("llama/libggml-cpu.so"), "").unwrap();
        world
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(below)
    }

    fn tool(&self, name: &str, script: &str) {
        let path = self.path("llama").join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A shared library whose function returns a text.
    fn library(&self, path: &str, symbol: &str, text: &str) {
        self.compile(path, &format!("const char * {symbol}(void) {{ return \"{text}\"; }}\n"));
    }

    fn compile(&self, path: &str, code: &str) {
        let source = self.path("source.c");
        fs::write(&source, code).unwrap();
        let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([self.path(path), source]).status();
        assert!(status.unwrap().success());
    }

    /// A `tri` that sees this world's host and plugin and none of the caller's settings.
    fn tri(&self) -> Command {
        self.called(Path::new(TRI))
    }

    fn called(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.path("home"));
        command.env("TRI_LLAMA_DIR", self.path("llama")).env("TRI_PLUGIN", self.path("plugin.so"));
        command
    }

    /// Runs a tool through `tri run` and gives the arguments that it saw.
    fn args(&self, tool: &str, args: &str, vars: &[(&str, &str)]) -> (String, String) {
        let output =
            self.tri().args(["run", tool]).args(args.split_whitespace()).envs(vars.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{tool} {args}: {}", err(&output));
        let seen = fs::read_to_string(self.path("llama/args")).unwrap();
        (seen.trim_end().replace('\n', " "), err(&output))
    }

    /// The environment that the last tool saw.
    fn seen_env(&self) -> Vec<Vec<u8>> {
        let mut vars: Vec<_> =
            fs::read(self.path("llama/env")).unwrap().split(|b| *b == 0).map(<[u8]>::to_vec).collect();
        vars.sort();
        vars
    }

    fn install(&self) -> Output {
        self.tri()
            .args(["install", "--prefix"])
            .arg(self.path("prefix"))
            .arg("--plugin")
            .arg(self.path("plugin.so"))
            .output()
            .unwrap()
    }

    fn uninstall(&self) -> Output {
        self.tri().args(["uninstall", "--prefix"]).arg(self.path("prefix")).output().unwrap()
    }

    /// Every path under the prefix with its bytes or its link.
    fn prefix(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn walk(folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_symlink() {
                    found.push((path.clone(), fs::read_link(&path).unwrap().into_os_string().into_vec()));
                } else if path.is_dir() {
                    found.push((path.clone(), Vec::new()));
                    walk(&path, found);
                } else {
                    found.push((path.clone(), fs::read(&path).unwrap()));
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.path("prefix"), &mut found);
        found.sort();
        found
    }
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Asserts the exit code and that every text stands in the message.
fn refused(output: &Output, code: i32, texts: &[&str]) {
    let message = err(output);
    assert_eq!(output.status.code(), Some(code), "{message}");
    for text in texts {
        assert!(message.contains(text), "'{text}' is not in: {message}");
    }
}

#[test]
fn without_backend_nothing_is_changed() {
    let world = World::with_host(&["llama-server"]);
    let odd = [b"-p".to_vec(), b"a\xff\xfe b".to_vec(), b"".to_vec(), b"--".to_vec(), b"--backends".to_vec()];
    let odd: Vec<_> = odd.into_iter().map(OsString::from_vec).collect();
    let seen = |program: &str, first: &[&str]| {
        let mut command = world.called(Path::new(program));
        // A malformed setting is none of a plain call's business.
        command.args(first).args(&odd).env("TRI_LAYOUT", "nonsense").env("ODD", OsStr::from_bytes(b"\xff="));
        let output = command.output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", err(&output));
        (fs::read(world.path("llama/args")).unwrap(), world.seen_env())
    };
    let direct = seen(world.path("llama/llama-server").to_str().unwrap(), &[]);
    assert_eq!(direct, seen(TRI, &["run", "llama-server"]));
    symlink(TRI, world.path("llama-server")).unwrap();
    assert_eq!(direct, seen(world.path("llama-server").to_str().unwrap(), &[]));
}

#[test]
fn exit_code_signals_and_process_are_the_tools() {
    let world = World::new();
    world.tool("llama-server", "#!/bin/sh\nexit 42\n");
    world.tool("llama-cli", "#!/bin/sh\nkill -TERM $$\n");
    world.tool("llama-bench", "#!/bin/sh\necho $$\n");
    let run = |tool| world.tri().args(["run", tool]).output().unwrap();
    assert_eq!(run("llama-server").status.code(), Some(42));
    assert_eq!(run("llama-cli").status.signal(), Some(15));
    let child = world.tri().args(["run", "llama-bench"]).stdout(Stdio::piped()).spawn().unwrap();
    let id = child.id();
    assert_eq!(out(&child.wait_with_output().unwrap()).trim(), id.to_string());
}

#[test]
fn tri_passes_over_itself_on_path() {
    let world = World::with_host(&["llama-server"]);
    for folder in ["soft", "hard", "copy"] {
        fs::create_dir(world.path(folder)).unwrap();
    }
    symlink(TRI, world.path("soft/llama-server")).unwrap();
    // A hard link needs one file system, so it is made to a copy, which is then the one that is called.
    fs::copy(TRI, world.path("hard/other")).unwrap();
    fs::hard_link(world.path("hard/other"), world.path("hard/llama-server")).unwrap();
    // A second installation is another inode of the name `tri`.
    fs::copy(TRI, world.path("copy/tri")).unwrap();
    symlink("tri", world.path("copy/llama-server")).unwrap();
    let path = ["soft", "hard", "copy", "llama"].map(|folder| world.path(folder).display().to_string()).join(":")
        + ":/usr/bin:/bin";
    for first in ["soft/llama-server", "copy/llama-server"] {
        // The hard link is foreign to the other two inodes, so it is left out for them.
        let path = path.replace(&format!("{}:", world.path("hard").display()), "");
        let output = world.called(&world.path(first)).env_remove("TRI_LLAMA_DIR").env("PATH", path).arg(first).output();
        assert!(output.unwrap().status.success());
        assert_eq!(fs::read_to_string(world.path("llama/args")).unwrap().trim(), first);
    }
    let mut hard = world.called(&world.path("hard/llama-server"));
    assert!(hard.env_remove("TRI_LLAMA_DIR").env("PATH", path).arg("hard").status().unwrap().success());
    assert_eq!(fs::read_to_string(world.path("llama/args")).unwrap().trim(), "hard");
}

#[test]
fn copies_of_tri_by_another_name_do_not_call_each_other() {
    let world = World::with_host(&["llama-server"]);
    for folder in ["one", "two"] {
        fs::create_dir(world.path(folder)).unwrap();
        fs::copy(TRI, world.path(folder).join("llama-server")).unwrap();
    }
    let run = |folders: &[&str]| {
        let path = folders.iter().map(|folder| world.path(folder).display().to_string()).collect::<Vec<_>>().join(":");
        // `timeout` ends two copies that call each other for ever.
        let mut command = world.called(Path::new("/usr/bin/timeout"));
        command.env_remove("TRI_LLAMA_DIR").env("PATH", path + ":/usr/bin:/bin");
        command.arg("20").arg(world.path("one/llama-server")).arg("-x").output().unwrap()
    };
    refused(&run(&["one", "two"]), 127, &["No real 'llama-server'"]);
    assert!(run(&["one", "two", "llama"]).status.success());
    assert_eq!(fs::read_to_string(world.path("llama/args")).unwrap().trim(), "-x");
}

#[test]
fn a_tool_that_is_nowhere_is_named() {
    let world = World::new();
    let run = |command: &mut Command| command.args(["run", "llama-server"]).output().unwrap();
    let folder = world.path("llama").display().to_string();
    refused(&run(&mut world.tri()), 127, &["llama-server", &folder, "TRI_LLAMA_DIR"]);
    refused(&run(world.tri().env_remove("TRI_LLAMA_DIR")), 127, &["llama-server", "PATH='/usr/bin:/bin'"]);
}

/// Tools of the common parser; the first four take a draft's devices too.
const COMMON: &[&str] = &[
    "llama-server",
    "llama-cli",
    "llama-speculative",
    "llama-speculative-simple",
    "llama-completion",
    "llama-batched-bench",
    "llama-perplexity",
    "llama-imatrix",
    "llama-embedding",
    "llama-mtmd-cli",
    "llama-tts",
    "llama-parallel",
    "llama-batched",
    "llama-lookahead",
    "llama-lookup",
    "llama-lookup-create",
    "llama-lookup-stats",
    "llama-retrieval",
    "llama-passkey",
    "llama-diffusion-cli",
    "llama-eval-callback",
    "llama-debug",
    "llama-mtmd-debug",
    "llama-idle",
    "llama-results",
    "llama-finetune",
    "llama-cvector-generator",
    "llama-export-lora",
    "llama-fit-params",
    "llama-tokenize",
];

#[test]
fn every_common_tool_gets_device_tri0_unless_the_user_named_one() {
    let world = World::with_host(COMMON);
    let plugin = format!("GGML_BACKEND_PATH={}", world.path("plugin.so").display()).into_bytes();
    for tool in COMMON {
        assert_eq!(world.args(tool, "-m x --backend tri -n 1", &[]), ("--device TRI0 -m x -n 1".into(), String::new()));
        assert!(world.seen_env().contains(&plugin), "{tool}");
        for named in ["-dev CUDA0", "--device none"] {
            let (args, lines) = world.args(tool, &format!("--backend tri {named}"), &[]);
            assert_eq!(args, named, "{tool}");
            assert!(lines.contains(named.split(' ').next().unwrap()), "{lines}");
        }
        let (args, lines) = world.args(tool, "--backend tri -m x", &[("LLAMA_ARG_DEVICE", "none")]);
        assert_eq!(args, "-m x", "{tool}");
        assert!(lines.contains("LLAMA_ARG_DEVICE"), "{lines}");
    }
}

#[test]
fn the_draft_gets_a_device_where_the_tool_takes_one() {
    let world = World::with_host(COMMON);
    for (at, tool) in COMMON.iter().enumerate() {
        let draft = if at < 4 { "--spec-draft-device TRI0 " } else { "" };
        for model in ["-md d", "--model-draft d", "--spec-draft-model d", "-hfd d", "--spec-draft-hf d"] {
            let expected = format!("--device TRI0 {draft}{model}");
            assert_eq!(world.args(tool, &format!("{model} --backend=tri"), &[]).0, expected);
        }
    }
    let server = |args: &str, vars: &[(&str, &str)]| world.args("llama-server", args, vars).0;
    let by_variable = server("--backend tri", &[("LLAMA_ARG_SPEC_DRAFT_MODEL", "d")]);
    assert_eq!(by_variable, "--device TRI0 --spec-draft-device TRI0");
    for named in ["-devd none", "--device-draft none", "--spec-draft-device none"] {
        assert_eq!(server(&format!("--backend tri -md d {named}"), &[]), format!("--device TRI0 -md d {named}"));
    }
}

#[test]
fn tools_with_parsers_of_their_own_get_their_own_flag() {
    let tools = ["llama-bench", "ggml-rpc-server", "test-backend-ops", "llama-quantize", "llama", "llama-new"];
    let world = World::with_host(&tools);
    let args = |tool, args: &str| world.args(tool, args, &[("LLAMA_ARG_DEVICE", "none")]);
    assert_eq!(args("llama-bench", "-d 512 --backend tri").0, "--device TRI0 -d 512");
    assert_eq!(args("ggml-rpc-server", "-p 1 --backend tri").0, "--device TRI0 -p 1");
    assert_eq!(args("ggml-rpc-server", "-d CPU --backend tri").0, "-d CPU");
    assert_eq!(args("test-backend-ops", "test -o ADD --backend tri").0, "-b TRI0 test -o ADD");
    assert_eq!(args("test-backend-ops", "test -b CPU --backend tri").0, "test -b CPU");
    assert_eq!(args("llama", "bench -p 1 --backend tri").0, "bench --device TRI0 -p 1");
    let (seen, lines) = args("llama-quantize", "a b --backend tri");
    assert_eq!(seen, "a b");
    assert!(lines.contains("llama-quantize takes no device flag"), "{lines}");
    let (seen, lines) = args("llama-new", "a --backend tri");
    assert_eq!(seen, "a");
    assert!(lines.contains("does not know") && lines.contains("'llama-new'") && lines.lines().count() == 1, "{lines}");
}

#[test]
fn what_tri0_does_not_get_is_said_in_one_line() {
    let world = World::with_host(&["llama-server"]);
    let (args, lines) = world.args("llama-server", "--backend tri -C ff --prio 2 --poll 0 --prio_batch 1 -t 2", &[]);
    assert_eq!(args, "--device TRI0 -C ff --prio 2 --poll 0 --prio_batch 1 -t 2");
    assert_eq!(lines.lines().count(), 1, "{lines}");
    assert!(lines.contains("not applied to TRI0: -C, --prio, --poll, --prio-batch "), "{lines}");
    assert!(world.args("llama-server", "--backend tri --prio 2", &[("TRI_LOG", "error")]).1.is_empty());
}

#[test]
fn modes_that_mean_something_else_for_tri0_are_said() {
    let world = World::with_host(&["llama-server", "llama-bench"]);
    let lock = "mlock does not lock the weights that TRI0 holds in buffers of its own; use mmap+mlock";
    let split = "holds weights in the file's layout (as --no-repack): text and speed can differ from the default";
    for (tool, args, vars, text) in [
        ("llama-server", "-lm mlock", &[][..], lock),
        ("llama-server", "--load_mode mlock", &[], lock),
        ("llama-server", "", &[("LLAMA_ARG_LOAD_MODE", "mlock")], lock),
        ("llama-bench", "-lm mmap,mlock", &[], lock),
        ("llama-server", "-sm tensor", &[], split),
        ("llama-server", "--split-mode tensor", &[], split),
        ("llama-server", "", &[("LLAMA_ARG_SPLIT_MODE", "tensor")], split),
        ("llama-bench", "-sm layer,tensor", &[], split),
    ] {
        let (_, lines) = world.args(tool, &format!("{args} --backend tri"), vars);
        assert!(lines.contains(text) && lines.lines().count() == 1, "{tool} {args} {vars:?}: {lines}");
    }
    for (tool, args, vars) in [
        ("llama-server", "-lm mmap+mlock -sm layer", &[][..]),
        ("llama-server", "-lm mlock -lm mmap", &[("LLAMA_ARG_LOAD_MODE", "mlock")]),
        ("llama-bench", "", &[("LLAMA_ARG_LOAD_MODE", "mlock"), ("LLAMA_ARG_SPLIT_MODE", "tensor")]),
    ] {
        assert_eq!(world.args(tool, &format!("{args} --backend tri"), vars).1, "", "{tool} {args}");
    }
}

#[test]
fn no_repack_becomes_the_plain_layout() {
    let world = World::with_host(&["llama-server"]);
    let (_, lines) = world.args("llama-server", "--backend tri --no-repack", &[]);
    assert!(world.seen_env().contains(&b"TRI_LAYOUT=plain".to_vec()));
    assert!(lines.contains("--no-repack") && lines.contains("TRI_LAYOUT=plain"), "{lines}");
    let (_, lines) = world.args("llama-server", "--backend tri --no-repack", &[("TRI_LAYOUT", "stock")]);
    assert!(world.seen_env().contains(&b"TRI_LAYOUT=stock".to_vec()));
    assert!(lines.contains("not applied") && lines.contains("TRI_LAYOUT=stock"), "{lines}");
}

#[test]
fn other_backends_are_the_hosts_devices() {
    let world = World::with_host(&["llama-server", "llama-bench", "ggml-rpc-server", "test-backend-ops", "llama"]);
    let args = |tool, args| world.args(tool, args, &[]);
    assert_eq!(args("llama-server", "--backend cpu -m x").0, "--device none -m x");
    assert_eq!(args("llama-server", "--backend cpu -md x").0, "--device none --spec-draft-device none -md x");
    assert_eq!(args("ggml-rpc-server", "--backend cpu").0, "--device CPU");
    assert_eq!(args("llama-server", "--backend vulkan -m x").0, "--device Vulkan0,Vulkan1 -m x");
    assert_eq!(args("llama-bench", "--backend Vulkan").0, "--device Vulkan0/Vulkan1");
    assert_eq!(args("llama", "serve --backend vulkan").0, "serve --device Vulkan0,Vulkan1");
    let (seen, lines) = args("test-backend-ops", "--backend vulkan");
    assert_eq!(seen, "-b Vulkan0");
    assert!(lines.contains("one device") && lines.contains("Vulkan1"), "{lines}");
    assert!(!world.seen_env().iter().any(|var| var.starts_with(b"GGML_BACKEND_PATH")));
}

#[test]
fn a_backend_that_is_not_there_is_answered_with_what_is() {
    let world = World::with_host(&["llama-server", "llama-quantize"]);
    let run = |args: &[&str]| world.tri().args(["run", "llama-server"]).args(args).output().unwrap();
    refused(&run(&["--backend", "volkan"]), 2, &["'volkan'", "tri, cpu, vulkan"]);
    refused(&run(&["--backend", "cuda"]), 1, &["cuda", "Vulkan0, Vulkan1", "tri, cpu, vulkan"]);
    refused(&run(&["--backend"]), 2, &["--backend needs a name"]);
    let quantize = world.tri().args(["run", "llama-quantize", "--backend", "cpu"]).output().unwrap();
    refused(&quantize, 2, &["llama-quantize takes no device flag"]);
}

#[test]
fn a_malformed_setting_is_named_with_what_is_allowed() {
    let world = World::with_host(&["llama-server"]);
    let mut command = world.tri();
    command.args(["run", "llama-server", "--backend", "tri"]).env("TRI_LAYOUT", "Plain");
    refused(&command.output().unwrap(), 2, &["TRI_LAYOUT='Plain'", "auto | stock | plain"]);
}

#[test]
fn a_plugin_that_does_not_fit_stops_the_call() {
    let world = World::with_host(&["llama-server"]);
    world.library("old.so", "tri_ggml_version", "0.25.3");
    world.library("foreign.so", "something", "else");
    world.compile("crash.so", "static __attribute__((constructor)) void f(void) { __builtin_trap(); }\n");
    fs::write(world.path("text.so"), "no library").unwrap();
    let run = |plugin: &str| {
        let mut command = world.tri();
        command
            .args(["run", "llama-server", "--backend", "tri"])
            .env("TRI_PLUGIN", world.path(plugin))
            .output()
            .unwrap()
    };
    refused(&run("nowhere.so"), 1, &["nowhere.so", "is not a file", "TRI_PLUGIN"]);
    refused(&run("old.so"), 1, &["old.so", "built for ggml 0.25.3", "is ggml 0.26.0", "tri install --plugin"]);
    refused(&run("foreign.so"), 1, &["foreign.so", "does not export the function 'tri_ggml_version'"]);
    refused(&run("text.so"), 1, &["text.so", "cannot be loaded"]);
    refused(&run("crash.so"), 1, &["crash.so", "kills the process that loads it"]);
    assert!(!world.path("llama/args").exists());
}

#[test]
fn a_plugin_may_be_named_without_a_folder() {
    let world = World::with_host(&["llama-server"]);
    let mut run = world.tri();
    run.args(["run", "llama-server", "--backend", "tri"]).env("TRI_PLUGIN", "plugin.so").current_dir(world.path(""));
    let output = run.output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let plugin = format!("GGML_BACKEND_PATH={}", world.path("plugin.so").display()).into_bytes();
    assert!(world.seen_env().contains(&plugin));
    let mut install = world.tri();
    install.args(["install", "--prefix", "prefix", "--plugin", "plugin.so"]).current_dir(world.path(""));
    let output = install.output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
}

#[test]
fn a_host_that_cannot_load_a_plugin_is_told_apart() {
    let world = World::new();
    world.tool("llama-cli", RECORD);
    let cli = world.tri().args(["run", "llama-cli", "--backend", "tri"]).output().unwrap();
    refused(&cli, 1, &["is not a program file but a script", "TRI_LLAMA_DIR"]);
    // `true` is a program without a ggml library, as a static llama-server is.
    fs::copy("/bin/true", world.path("llama/llama-server")).unwrap();
    let server = world.tri().args(["run", "llama-server", "--backend", "tri"]).output().unwrap();
    refused(&server, 1, &["has ggml linked in and cannot load a plugin", "-DGGML_BACKEND_DL=ON"]);
    world.library("llama/libggml-base.so", "something", "else");
    let server = world.tri().args(["run", "llama-server", "--backend", "tri"]).output().unwrap();
    refused(&server, 1, &["does not export the function 'ggml_version'", "0.25.3 or newer"]);
}

#[test]
fn an_installation_works_is_idempotent_and_goes_without_a_trace() {
    let world = World::with_host(&["llama-server"]);
    let first = world.install();
    assert!(first.status.success(), "{}", err(&first));
    let installed = world.prefix();
    let second = world.install();
    assert!(second.status.success() && out(&second).contains(" 0 written"), "{}", out(&second));
    assert_eq!(world.prefix(), installed);
    let mut server = world.called(&world.path("prefix/bin/llama-server"));
    assert!(server.env_remove("TRI_PLUGIN").args(["--backend", "tri"]).status().unwrap().success());
    let shelved = world.path("prefix/lib/ggml-tri/0.26.0/libggml-tri.so");
    let expected = [b"GGML_BACKEND_PATH=", shelved.as_os_str().as_bytes()].concat();
    assert!(world.seen_env().contains(&expected));
    assert!(world.uninstall().status.success());
    assert!(!world.path("prefix").exists());
    let again = world.uninstall();
    assert!(
        again.status.success() && out(&again).contains("nothing of ggml-tri is installed there"),
        "{}",
        out(&again)
    );
}

#[test]
fn the_doctor_sees_what_stands_before_the_links() {
    let world = World::with_host(&["llama-server"]);
    assert!(world.install().status.success());
    let links = |path: String| {
        let mut doctor = world.called(&world.path("prefix/bin/tri"));
        let output = doctor.args(["doctor", "--json"]).env("PATH", path).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = report["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == "links").unwrap().clone();
        (check["state"].as_str().unwrap().to_owned(), check["found"].as_str().unwrap().to_owned())
    };
    let (bin, llama) = (world.path("prefix/bin").display().to_string(), world.path("llama").display().to_string());
    assert_eq!(links(format!("{bin}:{llama}:/bin")).0, "ok");
    let (state, found) = links(format!("{llama}:{bin}:/bin"));
    assert!(state == "failed" && found.contains(&format!("runs {llama}/llama-server")), "{found}");
    assert!(links("/bin".to_owned()).1.contains("is not on PATH"));
}

#[test]
fn the_doctor_survives_a_driver_that_kills_its_process() {
    let world = World::with_host(&["llama-server"]);
    world.compile("icd.so", "static __attribute__((constructor)) void f(void) { __builtin_trap(); }\n");
    let icd = format!(
        r#"{{"file_format_version": "1.0.0", "ICD": {{"library_path": "{}", "api_version": "1.3.0"}}}}"#,
        world.path("icd.so").display()
    );
    fs::write(world.path("icd.json"), icd).unwrap();
    let check = |gpu: &str| {
        let mut doctor = world.tri();
        doctor.args(["doctor", "--json"]).env("TRI_GPU", gpu).env("VK_ICD_FILENAMES", world.path("icd.json"));
        let report: serde_json::Value = serde_json::from_slice(&doctor.output().unwrap().stdout).unwrap();
        let checks = report["checks"].as_array().unwrap();
        let found = checks.iter().find(|check| check["name"] == "GPU of TRI0").unwrap();
        (found["state"].as_str().unwrap().to_owned(), found["found"].as_str().unwrap().to_owned())
    };
    let (state, found) = check("auto");
    // Without a Vulkan loader nobody loads the driver.
    let loader = !found.contains("no Vulkan loader");
    assert!(!loader || state == "failed" && found.contains("kills the process that asks it"), "{state} {found}");
    assert_eq!(check("off").0, "fact");
}

#[test]
fn the_doctor_lists_vulkans_devices_and_the_one_that_tri_gpu_chooses() {
    let world = World::with_host(&["llama-server"]);
    let report = |gpu: &str| -> serde_json::Value {
        let output = world.tri().args(["doctor", "--json"]).env("TRI_GPU", gpu).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let wish = report("lavapipe");
    let devices = wish["gpu"]["vulkan"]["devices"].as_array().cloned().unwrap_or_default();
    let Some(software) = devices.iter().find(|device| device["software"] == true) else {
        assert_eq!(wish["exit"], 1, "a wish that cannot be met is a failure: {wish}");
        return;
    };
    assert_eq!(wish["gpu"]["vulkan"]["chosen"], software["index"]);
    assert!(software["limits"]["subgroup"].as_u64() > Some(0) && !software["heaps"].as_array().unwrap().is_empty());
    assert_ne!(report("auto")["gpu"]["vulkan"]["chosen"], software["index"], "nobody asked for it");
    assert_eq!(report("15")["exit"], 1);
}

#[test]
fn an_installation_can_be_replaced_by_a_newer_one() {
    let world = World::with_host(&["llama-server"]);
    assert!(world.install().status.success());
    world.compile("plugin.so", "int newer; const char * tri_ggml_version(void) { return \"0.26.0\"; }\n");
    let output = world.install();
    assert!(output.status.success() && out(&output).contains(" 1 written"), "{}", out(&output));
    // A build for another ggml comes beside the first.
    world.library("plugin.so", "tri_ggml_version", "0.25.3");
    assert!(world.install().status.success());
    assert!(world.path("prefix/lib/ggml-tri/0.26.0/libggml-tri.so").is_file());
    assert!(world.path("prefix/lib/ggml-tri/0.25.3/libggml-tri.so").is_file());
    assert!(world.uninstall().status.success());
    assert!(!world.path("prefix").exists());
}

#[test]
fn a_foreign_file_stops_an_installation_before_it_began() {
    let world = World::with_host(&["llama-server"]);
    fs::create_dir_all(world.path("prefix/bin")).unwrap();
    fs::write(world.path("prefix/bin/llama-cli"), "somebody's").unwrap();
    let before = world.prefix();
    refused(&world.install(), 1, &["prefix/bin/llama-cli", "--prefix"]);
    assert_eq!(world.prefix(), before);
    assert!(world.uninstall().status.success());
    assert_eq!(world.prefix(), before);
}

#[test]
fn a_changed_file_is_neither_overwritten_nor_removed() {
    let world = World::with_host(&["llama-server"]);
    assert!(world.install().status.success());
    let changed = world.path("prefix/bin/llama-cli");
    fs::remove_file(&changed).unwrap();
    fs::write(&changed, "mine now").unwrap();
    refused(&world.install(), 1, &["prefix/bin/llama-cli"]);
    refused(&world.uninstall(), 1, &["bin/llama-cli", "left"]);
    assert_eq!(fs::read_to_string(&changed).unwrap(), "mine now");
    assert_eq!(world.prefix().len(), 2, "{:?}", world.prefix());
}

#[test]
fn a_prefix_that_cannot_be_written_stays_as_it_was() {
    let world = World::with_host(&["llama-server"]);
    fs::create_dir(world.path("prefix")).unwrap();
    fs::write(world.path("prefix/lib"), "a file where a folder must be").unwrap();
    let before = world.prefix();
    refused(&world.install(), 1, &["prefix cannot be written", "Nothing was changed"]);
    assert_eq!(world.prefix(), before);
}

#[test]
fn installations_at_the_same_time_wait_for_each_other() {
    let world = World::with_host(&["llama-server"]);
    for _ in 0..3 {
        let install = || {
            let mut command = world.tri();
            command
                .args(["install", "--prefix"])
                .arg(world.path("prefix"))
                .arg("--plugin")
                .arg(world.path("plugin.so"));
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let calls: Vec<_> = (0..6).map(|_| install()).collect();
        for call in calls {
            let output = call.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", err(&output));
        }
        let waiting: Vec<_> =
            world.prefix().into_iter().filter(|(path, _)| path.to_string_lossy().contains("tri-new")).collect();
        assert!(waiting.is_empty(), "{waiting:?}");
        assert!(world.uninstall().status.success());
        assert!(!world.path("prefix").exists(), "{:?}", world.prefix());
    }
}

#[test]
fn an_installation_that_was_killed_is_finished_or_removed_by_the_next_call() {
    let world = World::with_host(&["llama-server"]);
    for seen in ["bin", "bin/tri", "bin/llama-server"] {
        for finish in [true, false] {
            let mut command = world.tri();
            command
                .args(["install", "--prefix"])
                .arg(world.path("prefix"))
                .arg("--plugin")
                .arg(world.path("plugin.so"));
            let mut call = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let seen = world.path("prefix").join(seen);
            while !seen.exists() && call.try_wait().unwrap().is_none() {}
            call.kill().unwrap();
            call.wait().unwrap();
            if finish {
                let again = world.install();
                assert!(again.status.success(), "{seen:?}: {}", err(&again));
            }
            let removed = world.uninstall();
            assert!(removed.status.success(), "{seen:?}: {}", err(&removed));
            assert!(
                !world.path("prefix").exists(),
                "{seen:?}: {:?}",
                world.prefix().iter().map(|f| &f.0).collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn the_rest_of_an_installation_that_broke_off_is_removed() {
    let world = World::with_host(&["llama-server"]);
    assert!(world.install().status.success());
    let rest = [world.path("prefix/bin/.tri.tri-new"), world.path("prefix/bin/.llama-cli.tri-new.7")];
    for call in [World::install, World::uninstall] {
        rest.iter().for_each(|path| fs::write(path, "half").unwrap());
        assert!(call(&world).status.success());
        assert!(rest.iter().all(|path| !path.exists()));
    }
    assert!(!world.path("prefix").exists(), "{:?}", world.prefix());
}

#[test]
fn an_installation_needs_a_plugin() {
    let world = World::new();
    fs::copy(TRI, world.path("tri")).unwrap();
    let mut command = world.called(&world.path("tri"));
    refused(&command.args(["install", "--prefix"]).arg(world.path("prefix")).output().unwrap(), 1, &["--plugin FILE"]);
    assert!(!world.path("prefix").exists());
}

#[test]
fn the_doctor_finds_what_fits_and_what_does_not() {
    let world = World::with_host(&["llama-server"]);
    let doctor = |command: &mut Command| {
        let output = command.arg("--json").output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["exit"], output.status.code().unwrap());
        report
    };
    let state = |report: &serde_json::Value, name: &str| {
        let checks = report["checks"].as_array().unwrap();
        let found = checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name}: {report}"));
        assert_eq!(found["state"] == "failed", found["remedy"].is_string(), "{found}");
        found["state"].as_str().unwrap().to_owned()
    };
    let well = doctor(world.tri().arg("doctor"));
    assert_eq!(well["exit"], 0, "{well}");
    assert_eq!(well["host"]["version"], "0.26.0");
    assert_eq!(well["host"]["loading"], "files");
    assert_eq!(state(&well, "plugin fits the host"), "ok");
    assert!(well["memory"]["total"].as_u64() >= well["memory"]["available"].as_u64());

    let wrong = doctor(world.tri().arg("doctor").env("TRI_GPU", "99").env("TRI_LAYUOT", "plain"));
    assert_eq!((wrong["exit"].as_u64(), state(&wrong, "settings")), (Some(1), "failed".to_owned()));

    world.library("old.so", "tri_ggml_version", "0.25.3");
    let old = doctor(world.tri().arg("doctor").env("TRI_PLUGIN", world.path("old.so")));
    assert_eq!(state(&old, "plugin fits the host"), "failed");
    let none = doctor(world.tri().args(["doctor", "--llama-dir"]).arg(world.path("")));
    assert_eq!((state(&none, "llama.cpp"), state(&none, "plugin fits the host")), ("failed".into(), "unknown".into()));
}

#[test]
fn the_settings_page_is_the_generated_one() {
    let output = Command::new(TRI).args(["doctor", "--env", "--markdown"]).output().unwrap();
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/settings.md")).unwrap();
    assert_eq!(out(&output), page, "run: tri doctor --env --markdown > docs/settings.md");
}

#[test]
fn the_settings_are_listed_with_their_present_values() {
    let run = |args: &[&str]| {
        let output = Command::new(TRI).args(args).env("TRI_GPU", "7").output().unwrap();
        assert!(output.status.success());
        out(&output)
    };
    let list: serde_json::Value = serde_json::from_str(&run(&["doctor", "--env", "--json"])).unwrap();
    let gpu = list.as_array().unwrap().iter().find(|setting| setting["name"] == "TRI_GPU").unwrap();
    assert_eq!((&gpu["value"], &gpu["default"]), (&"7".into(), &"auto".into()));
    assert!(run(&["doctor", "--env"]).contains("TRI_GPU\n  now      7\n"));
}

#[test]
fn every_help_has_examples_or_exit_codes() {
    for (args, text) in [
        (&["--help"][..], "tri run llama-server --backend tri"),
        (&["run", "--help"], "Without --backend nothing at all is changed"),
        (&["install", "--help"], "tri install --prefix"),
        (&["uninstall", "--help"], "Exit codes"),
        (&["doctor", "--help"], "Exit codes"),
        (&["plan", "--help"], "Exit codes"),
    ] {
        let output = Command::new(TRI).args(args).output().unwrap();
        assert!(output.status.success() && out(&output).contains(text), "{args:?}: {}", out(&output));
    }
}
