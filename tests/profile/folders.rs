//! Places where nothing can be written. Permissions do not bind root, so most of these are places where nobody can.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;

use super::*;

#[test]
fn where_nothing_can_be_written_one_message_says_so_and_the_work_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let places = [
        (Keep::File(file.join("profile.db")), "file"),
        (Keep::File(file.join("a/b/profile.db")), "file"),
        (Keep::File("/proc/profile.db".into()), "/proc"),
        (Keep::File("/proc/ggml-tri/profile.db".into()), "/proc"),
        (Keep::File(folder.path().to_owned()), "it is no file"),
        (Keep::File("/dev/null".into()), "it is no file"),
        (Keep::NoHome, "HOME"),
    ];
    for (keep, word) in places {
        let profile = Profile::open(&keep);
        for _ in 0..3 {
            assert!(profile.load(&chip()).current.is_empty());
            assert!(!profile.save(&chip(), &knowledge(2, 1)), "{keep:?}");
        }
        let said = profile.said();
        assert!(said.len() == 1 && said[0].contains(word) && said[0].contains("TRI_PROFILE"), "{keep:?}: {said:?}");
        assert!(profile.known().is_err() || word != "HOME");
    }
    assert_eq!(fs::read(&file).unwrap(), b"x");
}

#[test]
fn off_is_silent() {
    let profile = Profile::open(&Keep::Off);
    assert!(profile.load(&chip()).current.is_empty() && !profile.save(&chip(), &knowledge(2, 1)));
    assert_eq!(profile.said(), [""; 0]);
}

/// A user without any rights, by the convention of all distributions; root plays it.
const NOBODY: u32 = 65534;

#[test]
fn a_profile_in_a_folder_that_cannot_be_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home?%20#");
    let path = home.join("profile.db");
    assert!(profile(&path).save(&chip(), &knowledge(3, 5)));
    fs::remove_file(home.join("profile.db.lock")).unwrap();
    let before = fs::read(&path).unwrap();
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.path(), open.clone()).unwrap();
    let tri = folder.path().join("tri");
    fs::copy(env!("CARGO_BIN_EXE_tri"), &tri).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o555)).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(&tri);
        command.arg("profile").args(args).env_clear().env("TRI_PROFILE", &path).current_dir("/");
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, shown, error) = run(&["show"]);
    assert!(code == Some(0) && shown.contains("gpu        1 costs from 5 measurements"), "{shown}{error}");
    let (code, _, error) = run(&["reset", "--yes"]);
    assert!(code == Some(1) && error.contains("cannot be used"), "{error}");
    fs::set_permissions(&home, open).unwrap();
    assert!(fs::read(&path).unwrap() == before);
    assert_eq!(fs::read_dir(&home).unwrap().count(), 1);
}
