//! `tri profile` as a user meets it.

use std::fs;
use std::process::Output;

use super::*;

fn tri(home: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tri"));
    command.arg("profile").args(args).env_clear().env("HOME", home).stdin(Stdio::null());
    command.output().unwrap()
}

fn good(output: Output) -> String {
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn refused(output: Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_is_known_is_shown_carried_over_and_forgotten() {
    assert!(good(tri(Path::new("/"), &["--help"])).contains("Exit codes"));
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let place = |home: &Path| home.join(".local/state/ggml-tri/profile.db");
    assert!(good(tri(one.path(), &["show"])).contains("nothing is known yet"));
    assert!(!one.path().join(".local").exists());

    assert!(profile(&place(one.path())).save(&chip(), &knowledge(3, 5)));
    let shown = good(tri(one.path(), &["show"]));
    for line in [
        "CPU Zen, 16 threads | GPU 780M\n",
        "  with       power source ac, GPU driver radv 25.3\n",
        "  cpu        2 costs from 10 measurements\n",
        "  gpu        1 costs from 5 measurements\n",
        "  decisions  3\n",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    let report: serde_json::Value = serde_json::from_str(&good(tri(one.path(), &["show", "--json"]))).unwrap();
    assert_eq!(report["chips"][0]["engines"]["cpu"]["samples"], 10);

    let export = one.path().join("chip.json");
    let export = export.to_str().unwrap();
    assert!(good(tri(one.path(), &["export", export])).contains("under 1 fingerprint was"));
    assert_eq!(fs::read_to_string(export).unwrap(), good(tri(one.path(), &["export"])));
    assert!(good(tri(two.path(), &["import", export])).contains("3 costs and 3 decisions taken over, 0 known"));
    assert!(good(tri(two.path(), &["import", export])).contains("0 costs and 0 decisions taken over, 6 known"));
    let known = verify(&profile(&place(two.path())).load(&chip()), 3);
    assert_eq!(known, vec![Some(5); 3]);

    assert!(refused(tri(two.path(), &["reset"]), 2).contains("--yes"));
    assert!(good(tri(two.path(), &["reset", "--yes"])).contains("under 1 fingerprint"));
    assert!(good(tri(two.path(), &["show"])).contains("nothing is known yet"));
}

#[test]
fn an_import_with_one_wrong_number_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(".local/state/ggml-tri/profile.db");
    assert!(profile(&path).save(&chip(), &knowledge(3, 5)));
    let export = good(tri(home.path(), &["export"]));
    let file = home.path().join("wrong.json");
    for wrong in
        [export.replace("\"samples\": 5", "\"samples\": -5"), export[..export.len() / 2].to_owned(), "[]".into()]
    {
        fs::write(&file, wrong).unwrap();
        let said = refused(tri(home.path(), &["import", file.to_str().unwrap()]), 1);
        assert!(said.contains("no profile that can be imported") && said.contains("Nothing was changed"), "{said}");
    }
    assert_eq!(good(tri(home.path(), &["export"])), export);
}

#[test]
fn a_reset_holds_against_a_process_that_still_runs() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(".local/state/ggml-tri/profile.db");
    let running = profile(&path);
    running.load(&chip());
    assert!(running.save(&chip(), &knowledge(3, 100)));
    good(tri(home.path(), &["reset", "--yes"]));
    assert!(running.save(&chip(), &knowledge(3, 100)));
    assert!(profile(&path).load(&chip()).current.is_empty());
    // What it learns from then on is kept.
    assert!(running.save(&chip(), &knowledge(3, 107)));
    assert_eq!(verify(&profile(&path).load(&chip()), 3), vec![Some(7); 3]);
}

#[test]
fn without_a_profile_the_command_says_why() {
    let run = |name: &str, value: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tri"));
        command.args(["profile", "show"]).env_clear().env(name, value);
        refused(command.output().unwrap(), 1)
    };
    assert!(run("TRI_PROFILE", "off").contains("TRI_PROFILE is 'off'"));
    assert!(run("XDG_STATE_HOME", "relative").contains("set HOME or XDG_STATE_HOME"));
    assert!(run("TRI_PROFILE", "/dev/null").contains("it is no file"));
}
