//! SQLite's own error for a full disk, and what is no figure; the processes are in `tests/profile`.

use super::*;
use crate::chip::fingerprint::Part;
use crate::engine::EngineKind;

fn chip() -> Fingerprint {
    Fingerprint::of([(Part::Cpu, Some("Zen".to_owned()))])
}

fn knowledge(keys: usize, value: f64) -> Knowledge {
    let entry = |key| Entry { engine: EngineKind::Cpu, key: format!("{key:03}"), values: vec![value; 64], samples: 3 };
    Knowledge { entries: (0..keys).map(entry).collect(), decisions: Vec::new() }
}

/// A profile on a disk that is full at so many pages.
fn small(path: &Path, pages: i64) -> Profile {
    let profile = Profile::open(&Keep::File(path.to_owned()));
    Profile { store: Ok(Store::new(path).with_pages(pages)), ..profile }
}

#[test]
fn a_full_disk_keeps_what_was_known_and_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.db");
    assert!(Profile::open(&Keep::File(path.clone())).save(&chip(), &knowledge(20, 1.5)));
    for pages in 1..20 {
        let profile = small(&path, pages);
        assert!(!profile.save(&chip(), &knowledge(500, 2.5)) && !profile.save(&chip(), &knowledge(500, 2.5)));
        let said = profile.said();
        assert!(said.len() == 1 && said[0].contains("full"), "{said:?}");
        assert!(small(&path, pages).load(&chip()).current == knowledge(20, 1.5));
    }
    // With room again the same process saves what it could not.
    let profile = small(&path, 1000);
    assert!(profile.save(&chip(), &knowledge(500, 1.5)));
    assert_eq!(profile.load(&chip()).current.entries.len(), 500);
}

#[test]
fn a_new_file_on_a_full_disk_is_no_profile_yet() {
    for pages in 1..6 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.db");
        assert!(!small(&path, pages).save(&chip(), &knowledge(500, 1.5)));
        let profile = Profile::open(&Keep::File(path));
        assert_eq!((profile.load(&chip()), profile.said()), (Loaded::default(), Vec::new()));
        assert!(profile.save(&chip(), &knowledge(500, 1.5)));
    }
}

#[test]
fn what_cannot_be_true_is_not_kept_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let profile = Profile::open(&Keep::File(folder.path().join("profile.db")));
    let mut knowledge = knowledge(3, 1.5);
    knowledge.entries[1].values[5] = f64::NAN;
    assert!(profile.save(&chip(), &knowledge));
    let keys: Vec<_> = profile.load(&chip()).current.entries.into_iter().map(|entry| entry.key).collect();
    assert_eq!(keys, ["000", "002"]);
    assert!(profile.said().len() == 1 && profile.said()[0].contains("NaN"), "{:?}", profile.said());
}

#[test]
fn a_decision_of_another_process_stays_until_this_one_decides_anew() {
    let folder = tempfile::tempdir().unwrap();
    let keep = Keep::File(folder.path().join("profile.db"));
    let (a, b) = (Profile::open(&keep), Profile::open(&keep));
    let decided = |choice: &str| Knowledge {
        decisions: vec![Decision { site: "s".to_owned(), choice: choice.to_owned() }],
        ..Knowledge::default()
    };
    let kept = || Profile::open(&keep).load(&chip()).current.decisions[0].choice.clone();
    a.save(&chip(), &decided("cpu"));
    b.load(&chip());
    b.save(&chip(), &decided("gpu"));
    a.save(&chip(), &decided("cpu"));
    assert_eq!(kept(), "gpu");
    a.save(&chip(), &decided("both"));
    assert_eq!(kept(), "both");
}

#[test]
fn after_a_new_driver_only_what_was_measured_since_becomes_current() {
    let folder = tempfile::tempdir().unwrap();
    let keep = Keep::File(folder.path().join("profile.db"));
    let old = chip().with(Part::GpuDriver, "radv 25.2");
    let new = chip().with(Part::GpuDriver, "radv 25.3");
    let gpu = |key: &str, value, samples| Entry {
        engine: EngineKind::Gpu,
        key: key.to_owned(),
        values: vec![value],
        samples,
    };
    let of = |entries: &[Entry]| Knowledge { entries: entries.to_vec(), ..Knowledge::default() };
    assert!(Profile::open(&keep).save(&old, &of(&[gpu("a", 1.0, 50), gpu("b", 2.0, 60)])));

    let profile = Profile::open(&keep);
    let loaded = profile.load(&new);
    assert_eq!(loaded.earlier.entries, [gpu("a", 1.0, 1), gpu("b", 2.0, 1)]);
    assert!(loaded.current.is_empty() && loaded.changed.len() == 1);
    // The planner measured one of them five times and hands over both.
    assert!(profile.save(&new, &of(&[gpu("a", 0.5, 6), gpu("b", 2.0, 1)])));
    let loaded = Profile::open(&keep).load(&new);
    assert_eq!((loaded.current.entries, loaded.earlier.entries), (vec![gpu("a", 0.5, 5)], vec![gpu("b", 2.0, 1)]));
    assert_eq!(Profile::open(&keep).load(&old).current, of(&[gpu("a", 1.0, 50), gpu("b", 2.0, 60)]));
}
