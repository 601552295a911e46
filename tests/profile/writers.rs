//! Several processes at once, and processes that are killed.

use std::io::Read;
use std::thread;
use std::time::Duration;

use super::*;

#[test]
fn eight_processes_write_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/profile.db");
    let (processes, rounds, keys) = (8, thorough(20, 500) as u64, 6);
    let children: Vec<_> = (0..processes).map(|_| again(&format!("{rounds}x{keys}"), &path).spawn().unwrap()).collect();
    for mut child in children {
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(child.wait().unwrap().success(), "{text}");
        assert!(!text.lines().any(|line| line == "failed" || line.starts_with("said")), "{text}");
    }
    let known = verify(&profile(&path).load(&chip()), keys);
    assert_eq!(known, vec![Some(processes * rounds); keys]);
    assert_eq!(left(folder.path()), ["profile.db", "profile.db.lock"]);
}

/// The names in the state folder.
fn left(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder.join("state"))
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn killed_at_any_moment_nothing_that_was_saved_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/profile.db");
    let (processes, keys) = (3_u64, 4);
    let (mut acknowledged, mut killed) = (0, 0);
    for round in 0..thorough(25, 1000) as u64 {
        let mut children: Vec<_> =
            (0..processes).map(|_| again(&format!("1000000x{keys}"), &path).spawn().unwrap()).collect();
        // From before the first look at the file to many saves later, in steps that no period of theirs follows.
        thread::sleep(Duration::from_micros(2_000 + round * 7_919 % 90_000));
        for child in &mut children {
            child.kill().unwrap();
        }
        for child in &mut children {
            acknowledged += saved(child);
            child.wait().unwrap();
            killed += 1;
        }
        let profile = profile(&path);
        for known in verify(&profile.load(&chip()), keys) {
            // A save that was not acknowledged any more may have happened.
            let known = known.unwrap_or(0);
            assert!((acknowledged..=acknowledged + killed).contains(&known), "{known}, {acknowledged}, {killed}");
        }
        assert_eq!(profile.said(), [""; 0]);
    }
    assert!(acknowledged > killed, "the children were killed before they did anything: {acknowledged} saves");
    eprintln!("{killed} processes killed, {acknowledged} saves acknowledged");
}

#[test]
fn damage_under_running_processes_is_set_aside_and_what_they_hold_is_put_back() {
    for round in 0..thorough(4, 100) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/profile.db");
        let (rounds, keys) = (60, 3);
        let children: Vec<_> = (0..4).map(|_| again(&format!("{rounds}x{keys}"), &path).spawn().unwrap()).collect();
        thread::sleep(Duration::from_millis(60 + 10 * round as u64));
        // Somebody writes over the file; SQLite's locks do not keep him off.
        if let Ok(file) = std::fs::File::options().write(true).open(&path) {
            use std::os::unix::fs::FileExt;
            file.write_all_at(&[0x5a; 100], 0).unwrap();
        }
        let mut saves = 0;
        for mut child in children {
            saves += saved(&mut child);
            assert!(child.wait().unwrap().success());
        }
        for known in verify(&profile(&path).load(&chip()), keys) {
            // Each holds at least its own, and none counts another's.
            assert!((rounds..=saves).contains(&known.unwrap_or(0)), "{known:?} of {saves}");
        }
        assert!(left(folder.path()).iter().filter(|name| name.ends_with("aside-1")).count() <= 1);
    }
}
