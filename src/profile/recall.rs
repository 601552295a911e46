//! Which of what the file holds is true for a chip as it is now. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::knowledge::{Entry, Knowledge};
use super::merge::{Sync, mean};
use super::rows::Setup;
use crate::chip::fingerprint::{Change, Fingerprint, Part};
use crate::engine::EngineKind;

/// What is known of a chip.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loaded {
    /// Learned while nothing that it depends on was another: true now. A cost of the CPU outlives a new GPU driver.
    pub current: Knowledge,
    /// Learned on this chip before something of `changed`, and not known anew yet: a beginning, to be learned again. However
    /// many samples it had, it comes with one, so that what is measured now outweighs it.
    pub earlier: Knowledge,
    /// What is different since the latest of `earlier` was learned; empty where there is no `earlier`.
    pub changed: Vec<Change>,
}

/// What the file and this process have in common after a load or a save, for one fingerprint.
#[derive(Debug, Default)]
pub struct Common {
    /// Of each cost.
    pub costs: BTreeMap<(EngineKind, String), Sync>,
    /// The choice for each site.
    pub decisions: BTreeMap<String, String>,
    /// The epoch of the file.
    pub epoch: u64,
}

/// Sorts what is known by whether it is true for `now`; `epoch` is the file's.
pub fn recall(now: &Fingerprint, setups: &[Setup], epoch: u64) -> (Loaded, Common) {
    let mut setups: Vec<_> = setups.iter().map(|setup| (setup, setup.fingerprint.changes(now))).collect();
    // The latest knowledge is the best guess, but on the other power source everything has another speed.
    let power = |changes: &[Change]| changes.iter().any(|change| change.part == Part::Power);
    setups.sort_by_key(|(setup, changes)| (power(changes), Reverse((setup.last, setup.id))));

    let mut loaded = Loaded::default();
    let mut current = BTreeMap::<_, Entry>::new();
    for (setup, changes) in &setups {
        for entry in setup.entries() {
            if changes.iter().any(|change| change.part.concerns(entry.engine)) {
                continue;
            }
            let known =
                current.entry((entry.engine, entry.key.clone())).or_insert(Entry { samples: 0, ..entry.clone() });
            if known.values.len() == entry.values.len() {
                for (value, other) in known.values.iter_mut().zip(&entry.values) {
                    *value = mean(*value, known.samples, *other, entry.samples);
                }
                known.samples = known.samples.saturating_add(entry.samples);
            }
        }
    }
    let exact = setups.iter().find(|(_, changes)| changes.is_empty()).map(|(setup, _)| *setup);
    loaded.current.decisions = exact.map(|setup| setup.decisions.clone()).unwrap_or_default();

    let mut earlier = BTreeMap::new();
    let mut sites: Vec<String> = loaded.current.decisions.iter().map(|decision| decision.site.clone()).collect();
    for (setup, changes) in setups.iter().filter(|(_, changes)| !changes.is_empty()) {
        let mut used = false;
        for entry in setup.entries() {
            let key = (entry.engine, entry.key.clone());
            let foreign = changes.iter().any(|change| change.part.hardware() && change.part.concerns(entry.engine));
            if !foreign && !current.contains_key(&key) && !earlier.contains_key(&key) {
                earlier.insert(key, Entry { samples: 1, ..entry });
                used = true;
            }
        }
        // A decision is about all engines.
        if !changes.iter().any(|change| change.part.hardware()) {
            let unknown: Vec<_> = setup.decisions.iter().filter(|d| !sites.contains(&d.site)).cloned().collect();
            used |= !unknown.is_empty();
            sites.extend(unknown.iter().map(|decision| decision.site.clone()));
            loaded.earlier.decisions.extend(unknown);
        }
        if used && loaded.changed.is_empty() {
            loaded.changed.clone_from(changes);
        }
    }
    let common = common(exact, current.values().chain(earlier.values()), epoch);
    loaded.current.entries = current.into_values().collect();
    loaded.earlier.entries = earlier.into_values().collect();
    (loaded, common)
}

/// What a process that starts from `entries` has in common with the file.
fn common<'a>(exact: Option<&Setup>, entries: impl Iterator<Item = &'a Entry>, epoch: u64) -> Common {
    let rows: BTreeMap<_, _> =
        exact.into_iter().flat_map(|setup| &setup.costs).map(|(engine, key, row)| ((*engine, key), row)).collect();
    let sync = |entry: &Entry| {
        let row = rows.get(&(entry.engine, &entry.key));
        let (held, epoch) = row.map_or((0, epoch), |row| (row.samples, row.epoch));
        ((entry.engine, entry.key.clone()), Sync { counted: entry.samples, held, epoch })
    };
    let decisions = exact.into_iter().flat_map(|setup| &setup.decisions);
    Common {
        costs: entries.map(sync).collect(),
        decisions: decisions.map(|decision| (decision.site.clone(), decision.choice.clone())).collect(),
        epoch,
    }
}

#[cfg(test)]
mod tests {
    use super::super::knowledge::Decision;
    use super::super::merge::Row;
    use super::*;

    fn print(driver: &str, power: &str) -> Fingerprint {
        let parts = [
            (Part::Cpu, "Zen"),
            (Part::Gpu, "780M"),
            (Part::GpuDriver, driver),
            (Part::Power, power),
            (Part::Ggml, "1"),
        ];
        Fingerprint::of(parts.map(|(part, text)| (part, Some(text.to_owned()))))
    }

    fn setup(id: i64, fingerprint: Fingerprint, costs: &[(EngineKind, &str, f64, u64)], choice: &str) -> Setup {
        let row = |value, samples| Row { values: vec![value], samples, epoch: 0 };
        let costs = costs.iter().map(|(engine, key, v, n)| (*engine, (*key).to_owned(), row(*v, *n))).collect();
        let decisions = vec![Decision { site: "s".to_owned(), choice: choice.to_owned() }];
        Setup { id, fingerprint, since: 0, last: id.unsigned_abs(), costs, decisions }
    }

    fn entries(of: &Knowledge) -> Vec<(EngineKind, &str, f64, u64)> {
        of.entries.iter().map(|e| (e.engine, e.key.as_str(), e.values[0], e.samples)).collect()
    }

    use EngineKind::{Cpu, Gpu};

    #[test]
    fn a_new_driver_makes_the_costs_of_the_gpu_old_and_leaves_the_others() {
        let old =
            setup(1, print("25.2", "ac"), &[(Cpu, "a", 1.0, 10), (Gpu, "a", 2.0, 20), (Gpu, "b", 3.0, 30)], "gpu");
        let new = setup(2, print("25.3", "ac"), &[(Cpu, "a", 4.0, 30), (Gpu, "a", 1.5, 5)], "cpu");
        let (loaded, common) = recall(&print("25.3", "ac"), &[old.clone(), new], 0);
        assert_eq!(entries(&loaded.current), [(Cpu, "a", 3.25, 40), (Gpu, "a", 1.5, 5)]);
        assert_eq!(entries(&loaded.earlier), [(Gpu, "b", 3.0, 1)]);
        assert_eq!(loaded.current.decisions[0].choice, "cpu");
        assert!(loaded.earlier.decisions.is_empty());
        let said: Vec<_> = loaded.changed.iter().map(ToString::to_string).collect();
        assert_eq!(said, ["GPU driver 25.2 -> 25.3"]);
        // Only what lies under this very fingerprint counts as held there.
        assert_eq!(common.costs[&(Cpu, "a".to_owned())], Sync { counted: 40, held: 30, epoch: 0 });
        assert_eq!(common.costs[&(Gpu, "b".to_owned())], Sync { counted: 1, held: 0, epoch: 0 });

        let (first, _) = recall(&print("25.3", "ac"), &[old], 0);
        assert_eq!(entries(&first.current), [(Cpu, "a", 1.0, 10)]);
        assert_eq!((entries(&first.earlier).len(), first.earlier.decisions[0].choice.as_str()), (2, "gpu"));
    }

    #[test]
    fn what_belongs_to_other_hardware_is_not_known() {
        let known = setup(1, print("1", "ac"), &[(Cpu, "a", 1.0, 10), (Gpu, "a", 2.0, 20)], "gpu");
        let (loaded, _) = recall(&print("1", "ac").with(Part::Cpu, "Alder Lake"), std::slice::from_ref(&known), 0);
        assert_eq!(loaded, Loaded::default());
        // Another GPU beside the same CPU: the CPU's costs stay, decisions do not.
        let (loaded, _) = recall(&print("1", "ac").with(Part::Gpu, "8060S"), &[known], 0);
        assert_eq!(entries(&loaded.current), [(Cpu, "a", 1.0, 10)]);
        assert!(loaded.earlier.is_empty() && loaded.changed.is_empty());
    }

    #[test]
    fn the_same_power_source_goes_before_the_latest() {
        let ac = setup(1, print("1", "ac"), &[(Gpu, "a", 1.0, 10)], "gpu");
        let battery = setup(2, print("2", "battery"), &[(Gpu, "a", 9.0, 90)], "cpu");
        let (loaded, _) = recall(&print("2", "ac"), &[ac, battery], 0);
        assert_eq!(entries(&loaded.earlier), [(Gpu, "a", 1.0, 1)]);
        assert_eq!((loaded.changed.len(), loaded.changed[0].part), (1, Part::GpuDriver));
    }

    #[test]
    fn nothing_known_is_nothing_loaded() {
        assert_eq!(recall(&print("1", "ac"), &[], 3).0, Loaded::default());
    }
}
