//! The dependency rules of ARCHITECTURE.md, as tests: each looks at the text of the tree.

use std::fs;
use std::path::{Path, PathBuf};

/// Rooms that may open `unsafe`, as the beginnings of their files' names; and what lies in one of them and may not.
const UNSAFE_ROOMS: &[&str] = &["src/plugin/", "src/ggml/", "src/memory/", "src/probe/", "src/engine/vulkan/"];
const SAFE_CORNERS: &[&str] = &["src/engine/vulkan/ops/"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `dir` with one of the extensions, as (path from the root, text).
fn files(dir: &str, extensions: &[&str]) -> Vec<(String, String)> {
    fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, out);
            } else {
                out.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    walk(&root().join(dir), &mut paths);
    paths.sort();
    let wanted = |p: &PathBuf| extensions.iter().any(|e| p.extension().is_some_and(|x| x == *e));
    let read = |p: PathBuf| {
        let name = p.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        fs::read_to_string(&p).ok().map(|text| (name, text))
    };
    let found: Vec<_> = paths.into_iter().filter(wanted).filter_map(read).collect();
    assert!(!found.is_empty(), "no {extensions:?} below {dir}: the rule would check nothing");
    found
}

/// Source files of the crate with their room, without their test modules and comments.
fn sources() -> Vec<(String, String, String)> {
    let room = |name: &str| name.split('/').nth(1).unwrap_or_default().trim_end_matches(".rs").to_owned();
    let code = |text: &str| {
        let body = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        body.lines().map(|l| l.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
    };
    // The files called testing.rs or NAME_tests.rs are part of test builds only.
    let shipped = |(name, _): &(String, String)| !name.ends_with("/testing.rs") && !name.ends_with("_tests.rs");
    files("src", &["rs"]).into_iter().filter(shipped).map(|(name, text)| (room(&name), code(&text), name)).collect()
}

/// Fails with every (file, word) where one of the words occurs outside the rooms where it may.
fn only_in(words: &[&str], rooms: &[&str]) {
    let mut seen = false;
    let mut wrong = Vec::new();
    for (room, code, name) in sources() {
        for word in words.iter().filter(|w| code.contains(**w)) {
            seen = true;
            if !rooms.contains(&room.as_str()) {
                wrong.push(format!("{name}: {word}"));
            }
        }
    }
    assert!(seen, "{words:?} occur nowhere: the rule checks nothing");
    assert!(wrong.is_empty(), "only {rooms:?} may use {words:?}:\n{}", wrong.join("\n"));
}

/// Fails when a room uses one of the words.
fn never_in(rooms: &[&str], words: &[&str]) {
    let wrong: Vec<_> = sources()
        .into_iter()
        .filter(|(room, ..)| rooms.contains(&room.as_str()))
        .flat_map(|(_, code, name)| {
            words.iter().filter(|w| code.contains(**w)).map(|w| format!("{name}: {w}")).collect::<Vec<_>>()
        })
        .collect();
    assert!(wrong.is_empty(), "{rooms:?} must not use {words:?}:\n{}", wrong.join("\n"));
}

#[test]
fn only_the_shim_includes_ggml_headers() {
    for dir in ["src", "tests"] {
        for (name, text) in files(dir, &["rs", "c", "h"]) {
            let reads = text.lines().any(|l| l.trim_start().starts_with("#include \"ggml"));
            // The C hosts of the tests are hosts: they are what the plugin is loaded into.
            assert!(!reads || name.starts_with("tests/chost/"), "{name} includes a ggml header");
        }
    }
    let contract = fs::read_to_string(root().join("ggml-shim/shim.h")).unwrap();
    assert!(!contract.contains("#include \"") && !contract.contains("ggml_"), "shim.h names a ggml type");
}

#[test]
fn only_ggml_and_plugin_name_a_shim_symbol() {
    only_in(&["ggml::ffi", "super::ffi", "tri_host_", "tri_cpu_"], &["ggml", "plugin"]);
}

#[test]
fn unsafe_stays_in_its_rooms_and_each_block_says_why() {
    for (_, code, name) in sources() {
        let opens = code.contains("unsafe {") || code.contains("unsafe impl") || code.contains("unsafe extern");
        let inside = |list: &[&str]| list.iter().any(|room| name.starts_with(room));
        assert!(!opens || inside(UNSAFE_ROOMS) && !inside(SAFE_CORNERS), "{name} has unsafe code");
    }
    for (name, text) in files("src", &["rs"]) {
        let lines: Vec<_> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if code.contains("unsafe {") || code.contains("unsafe impl") {
                let said = lines[i.saturating_sub(4)..i].iter().any(|l| l.trim_start().starts_with("// SAFETY: "));
                assert!(said, "{name}:{}: no SAFETY sentence above", i + 1);
            }
        }
    }
}

#[test]
fn graph_and_plan_are_pure() {
    never_in(
        &["graph", "plan"],
        &["unsafe", "std::fs", "std::time", "std::thread", "std::env", "std::net", "Instant", "SystemTime", "log::"],
    );
}

#[test]
fn the_simulated_truth_shares_nothing_with_the_costs_that_are_judged_by_it() {
    let files: Vec<_> = sources().into_iter().filter(|(_, _, name)| name.starts_with("src/sim/")).collect();
    assert!(!files.is_empty());
    for (_, code, name) in files {
        let words = ["plan::costs", "plan::learn", "std::time", "std::thread", "std::fs"];
        assert!(!words.iter().any(|w| code.contains(w)), "{name} knows the planner, or is not in virtual time");
    }
}

#[test]
fn the_environment_is_read_in_config_only() {
    only_in(&["std::env"], &["config"]);
}

#[test]
fn stdout_belongs_to_the_command_line() {
    only_in(&["println!", "print!(", "stdout()"], &["cli"]);
}

#[test]
fn the_library_never_ends_its_host() {
    let library =
        ["ggml", "plugin", "device", "engine", "exec", "memory", "plan", "graph", "chip", "config", "profile", "lib"];
    never_in(&library, &["process::exit", "process::abort", "todo!", "unimplemented!", ".unwrap()"]);
}

#[test]
fn every_function_that_c_calls_runs_inside_the_guard() {
    for (name, text) in files("src/plugin", &["rs"]) {
        for function in text.split("extern \"C\" fn ").skip(1) {
            let body = function.split("\n}").next().unwrap_or_default();
            let title = function.split('(').next().unwrap_or_default();
            // These cannot panic: they return a constant or read a field.
            let plain = ["ggml_backend_score", "tri_ggml_version", "slab_base", "gpu_base"].contains(&title);
            assert!(plain || body.contains("guard("), "{name}: {title} does not run inside guard()");
        }
    }
}

#[test]
fn an_engine_sees_no_other_engine_and_only_its_step_of_a_plan() {
    for (room, code, name) in sources() {
        if room == "engine" && !name.ends_with("mod.rs") {
            assert!(!code.contains("crate::exec") && !code.contains("crate::device"), "{name} looks upwards");
            let plan = ["plan::plan", "plan::Plan", "plan::{Plan", "plan::{self"];
            assert!(!plan.iter().any(|p| code.contains(p)), "{name} sees the plan");
        }
    }
}

#[test]
fn the_command_line_does_not_call_ggml() {
    never_in(&["cli", "chip", "probe"], &["crate::ggml", "ggml_tri::ggml", "ggml_tri::plugin", "ggml_tri::device"]);
}

#[test]
fn files_stay_one_idea_long() {
    for dir in ["src", "ggml-shim"] {
        for (name, text) in files(dir, &["rs", "c", "h"]) {
            let (lines, limit) = (text.lines().count(), if name.ends_with("_tests.rs") { 400 } else { 320 });
            assert!(lines <= limit, "{name} has {lines} lines; is it still one idea?");
        }
    }
}

#[test]
fn every_room_has_a_line_in_the_architecture() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for entry in fs::read_dir(root().join("src")).unwrap().flatten().filter(|e| e.path().is_dir()) {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(text.contains(&format!("`{name}/`")), "ARCHITECTURE.md does not mention the room {name}/");
    }
}

#[test]
fn every_shader_has_a_line_in_the_table() {
    let table = fs::read_to_string(root().join("shaders/README.md")).unwrap();
    for (name, _) in files("shaders", &["comp", "glsl"]) {
        let file = name.rsplit('/').next().unwrap_or_default();
        assert!(table.contains(&format!("`{file}`")), "shaders/README.md does not mention {name}");
    }
}

#[test]
fn the_changelog_has_an_entry_for_this_version() {
    let text = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    assert!(text.contains(&format!("## {}", env!("CARGO_PKG_VERSION"))), "CHANGELOG.md misses the crate's version");
}

#[test]
fn every_dependency_has_its_reason_in_contributing() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let reasons = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let mut inside = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.contains("dependencies]");
        } else if let Some((name, _)) = line.split_once(" =").filter(|_| inside && !line.starts_with('#')) {
            assert!(reasons.contains(&format!("`{name}`")), "CONTRIBUTING.md gives no reason for {name}");
        }
    }
}
