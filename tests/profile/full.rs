//! A disk that is full: the largest size of a file (`ulimit -f`) stands for it, since a small disk of our own needs root.
//! `profile/store_tests.rs` has SQLite's own error for a full disk.

use std::fs;

use super::*;

const KEYS: usize = 30;

/// One save by a child that may write files of so many blocks of 512 bytes only; `trap` is what it does about the signal.
fn limited(path: &Path, blocks: usize, trap: &str) -> (u64, String) {
    let own = again(&format!("1x{KEYS}"), path);
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{trap}ulimit -c 0; ulimit -f {blocks} && exec \"$0\" \"$@\""));
    command.arg(own.get_program()).args(own.get_args());
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(trap.is_empty() || output.status.success(), "{blocks}: {text}");
    (text.lines().filter(|line| *line == "saved").count() as u64, text)
}

#[test]
fn on_a_full_disk_what_was_known_is_kept_and_one_message_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.db");
    assert!(profile(&path).save(&chip(), &knowledge(KEYS, 5)));
    let start = fs::read(&path).unwrap();
    let (mut failed, mut done) = (0, 0);
    for blocks in (0..130).step_by(thorough(13, 1)) {
        // A program that ignores the signal gets an error; one that does not is killed in the middle of a write.
        for trap in ["trap '' XFSZ; ", ""] {
            fs::write(&path, &start).unwrap();
            let (saves, text) = limited(&path, blocks, trap);
            let reader = profile(&path);
            let known = verify(&reader.load(&chip()), KEYS);
            assert!(known.iter().all(|n| *n == Some(5 + saves)), "{blocks}: {known:?}, {saves} saves");
            assert_eq!(reader.said(), [""; 0]);
            (failed, done) = (failed + 1 - saves, done + saves);
            let said = text.lines().filter(|line| line.starts_with("said ")).count();
            assert_eq!(said, usize::from(saves == 0 && !trap.is_empty()), "{blocks}: {text}");
        }
    }
    assert!(failed > 3 && done > 3, "{failed} failed, {done} saved");
}
