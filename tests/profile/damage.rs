//! Files that are cut, changed, or something else.

use std::fs;
use std::path::PathBuf;

use super::*;

const KEYS: usize = 40;

/// A profile of two generations as it lies on disk: the file, and what was in its log when its last writer was killed.
fn recorded() -> (Vec<u8>, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.db");
    assert!(profile(&path).save(&chip(), &knowledge(KEYS, 5)));
    // Somebody who reads keeps the log from being written back when the writer closes.
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.query_row("SELECT count(*) FROM cost", [], |_| Ok(())).unwrap();
    let writer = profile(&path);
    verify(&writer.load(&chip()), KEYS);
    for samples in 6..9 {
        assert!(writer.save(&chip(), &knowledge(KEYS, samples)));
    }
    let log = fs::read(path.with_extension("db-wal")).unwrap();
    assert!(!log.is_empty());
    (fs::read(&path).unwrap(), log)
}

/// Loads from a file of these bytes with a log of those, and fails if anything is wrong; returns what is known of the first
/// key and the file set aside. Then the profile must work again.
fn survive(folder: &Path, file: &[u8], log: &[u8]) -> (Option<u64>, Option<PathBuf>) {
    let path = folder.join("profile.db");
    fs::write(&path, file).unwrap();
    if !log.is_empty() {
        fs::write(folder.join("profile.db-wal"), log).unwrap();
    }
    let profile = profile(&path);
    let known = verify(&profile.load(&chip()), KEYS);
    assert!(known.iter().all(|n| *n == known[0]), "part of a save: {known:?}");
    let aside = folder.join("profile.db.aside-1");
    let aside = aside.exists().then_some(aside);
    assert_eq!(profile.said().len(), usize::from(aside.is_some()), "{:?}", profile.said());
    assert!(known[0].is_none() || aside.is_none());
    (known[0], aside)
}

/// Empties a folder for the next round.
fn clear(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
}

/// All numbers below `end` near the beginning, near pages and near the end, and every `step`th.
fn chosen(end: usize, step: usize) -> impl Iterator<Item = usize> {
    (0..end).filter(move |n| n % step == 0 || *n < 110 || n % 4096 < 3 || n % 4096 > 4093 || end - n < 4)
}

#[test]
fn a_file_that_is_cut_anywhere_is_kept_aside_and_never_believed() {
    let (file, log) = recorded();
    let folder = tempfile::tempdir().unwrap();
    let mut set_aside = 0;
    for length in chosen(file.len() + 1, thorough(131, 1)) {
        clear(folder.path());
        let (known, aside) = survive(folder.path(), &file[..length], &[]);
        match aside {
            Some(aside) => {
                set_aside += 1;
                assert!(fs::read(&aside).unwrap() == file[..length], "{length}: the bytes set aside are others");
            }
            // An empty file says nothing, and the whole one says everything.
            None => assert_eq!(known, if length == 0 { None } else { Some(5) }, "{length}"),
        }
        if length % 16 == 0 {
            let profile = profile(&folder.path().join("profile.db"));
            assert!(profile.save(&chip(), &knowledge(KEYS, 7)));
            assert!(verify(&profile.load(&chip()), KEYS)[0] >= Some(7));
        }
        // With its log beside it a cut file can be whole again.
        clear(folder.path());
        survive(folder.path(), &file[..length], &log);
    }
    eprintln!("{set_aside} lengths made the file be set aside");
    assert!(set_aside > 100);
}

#[test]
fn a_log_that_is_cut_anywhere_loses_only_the_saves_behind_the_cut() {
    let (file, log) = recorded();
    let folder = tempfile::tempdir().unwrap();
    let mut last = Some(5);
    for length in chosen(log.len() + 1, thorough(397, 1)) {
        clear(folder.path());
        let (known, aside) = survive(folder.path(), &file, &log[..length]);
        assert!(aside.is_none() && known >= last, "{length}: {known:?} after {last:?}");
        last = known;
    }
    assert_eq!(last, Some(8));
}

#[test]
fn no_changed_byte_makes_anything_wrong_be_believed() {
    let (file, log) = recorded();
    let folder = tempfile::tempdir().unwrap();
    let mut noticed = 0;
    let mut at = 1_usize;
    for round in 0..thorough(300, file.len() + log.len()) {
        let (mut file, mut log) = (file.clone(), log.clone());
        // A step that meets every byte in the end.
        at = (at + 7919) % (file.len() + log.len());
        let bits = 1_u8 << (round % 8);
        match at.checked_sub(file.len()) {
            None => file[at] ^= bits,
            Some(at) => log[at] ^= bits,
        }
        clear(folder.path());
        // Alternately with and without the log, which would cover a changed page.
        let (_, aside) = survive(folder.path(), &file, if round % 2 == 0 { &[] } else { &log });
        noticed += usize::from(aside.is_some());
    }
    eprintln!("{noticed} changes made the file be set aside");
    assert!(noticed > 10);
}

#[test]
fn what_is_no_profile_is_set_aside_unchanged_under_the_next_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.db");
    let foreign = |change: &str| {
        let _ = fs::remove_file(&path);
        rusqlite::Connection::open(&path).unwrap().execute_batch(change).unwrap();
        fs::read(&path).unwrap()
    };
    let tampered = |change: &str| {
        let _ = fs::remove_file(&path);
        assert!(profile(&path).save(&chip(), &knowledge(KEYS, 5)));
        rusqlite::Connection::open(&path).unwrap().execute_batch(change).unwrap();
        fs::read(&path).unwrap()
    };
    type Make<'a> = &'a dyn Fn(&str) -> Vec<u8>;
    let cases: [(Make, &str); 10] = [
        (&|text| (fs::write(&path, text), text.as_bytes().to_vec()).1, "my notes\n"),
        (&foreign, "CREATE TABLE recipes (name); INSERT INTO recipes VALUES ('soup')"),
        (&tampered, "PRAGMA application_id = 1"),
        (&tampered, "PRAGMA user_version = 0"),
        (&tampered, "CREATE TRIGGER t AFTER INSERT ON cost BEGIN DELETE FROM cost; END"),
        (&tampered, "DROP TABLE decision"),
        (&tampered, "UPDATE cost SET samples = samples + 1"),
        (&tampered, "UPDATE cost SET figures = x'00' WHERE engine = 'gpu'"),
        (&tampered, "UPDATE setup SET parts = '{}'"),
        (&tampered, "UPDATE decision SET choice = 'npu:1'"),
    ];
    for (number, (make, change)) in (1..).zip(cases) {
        let bytes = make(change);
        let profile = profile(&path);
        assert!(profile.load(&chip()).current.is_empty(), "{change}");
        let aside = folder.path().join(format!("profile.db.aside-{number}"));
        let said = profile.said();
        assert!(said.len() == 1 && said[0].contains(aside.to_str().unwrap()), "{said:?}");
        assert!(fs::read(&aside).unwrap() == bytes, "{change}");
        assert!(profile.save(&chip(), &knowledge(KEYS, 2)) && profile.said().len() == 1);
    }
}

#[test]
fn a_newer_profile_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.db");
    assert!(profile(&path).save(&chip(), &knowledge(KEYS, 5)));
    rusqlite::Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 2").unwrap();
    let bytes = fs::read(&path).unwrap();
    let profile = profile(&path);
    assert!(profile.load(&chip()).current.is_empty() && !profile.save(&chip(), &knowledge(KEYS, 9)));
    let said = profile.said();
    assert!(said.len() == 1 && said[0].contains("has version 2"), "{said:?}");
    assert!(fs::read(&path).unwrap() == bytes);
}
