//! How what one process learned joins what others wrote meanwhile. Pure arithmetic.
//!
//! A process knows how much of its own experience the file already holds ([`Sync`]), so it adds only what is new: counts of
//! samples are sums, whoever writes last. An *epoch* counts how often an entry was learned anew (a drift, a reset): what was
//! measured in an earlier epoch never comes back into a later one.

/// An entry as it lies in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The planner's figures.
    pub values: Vec<f64>,
    /// From how many measurements.
    pub samples: u64,
    /// How often it was learned anew.
    pub epoch: u64,
}

/// What this process and the file had in common when they last met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sync {
    /// The samples that the planner counted.
    pub counted: u64,
    /// How many of them the file holds under this fingerprint.
    pub held: u64,
    /// The epoch of the entry.
    pub epoch: u64,
}

/// Joins the planner's entry of `samples` measurements with the file's row; `floor` is the epoch of the whole file. Returns
/// what to write, and what both have in common then; nothing if the file already holds all of it.
pub fn entry(row: Option<&Row>, values: &[f64], samples: u64, sync: Option<Sync>, floor: u64) -> Option<(Row, Sync)> {
    let sync = sync.unwrap_or_default();
    let stored = row.cloned().unwrap_or(Row { values: Vec::new(), samples: 0, epoch: floor });
    if samples < sync.counted {
        // The planner forgot: what was there describes the chip no longer.
        let epoch = stored.epoch.max(sync.epoch) + 1;
        return Some((
            Row { values: values.to_vec(), samples, epoch },
            Sync { counted: samples, held: samples, epoch },
        ));
    }
    let fresh = samples - sync.counted;
    // Somebody else learned it anew, or all was forgotten: only what is new counts.
    let held = if stored.epoch > sync.epoch { 0 } else { sync.held };
    let own = held.saturating_add(fresh);
    if own == 0 || (fresh == 0 && stored.samples >= held) {
        return None;
    }
    // Fewer than held: the file was set aside since. What this process holds is restored, and nothing is counted twice.
    let others = stored.samples.saturating_sub(held);
    let values = match stored.values.len() == values.len() {
        true => values.iter().zip(&stored.values).map(|(mine, stored)| mean(*mine, own, *stored, others)).collect(),
        // Another version of the planner wrote other figures.
        false => values.to_vec(),
    };
    let epoch = stored.epoch.max(sync.epoch);
    let row = Row { values, samples: stored.samples.max(held).saturating_add(fresh), epoch };
    Some((row, Sync { counted: samples, held: own, epoch }))
}

/// The mean of two figures by their samples; exactly the first one where the other has none.
pub fn mean(a: f64, samples_a: u64, b: f64, samples_b: u64) -> f64 {
    let (x, y) = (samples_a as f64, samples_b as f64);
    // Away from `a` by a part of the difference, so that equal figures stay equal to the last bit; rounding never leaves
    // the range between them, or a figure could become 0.
    if x + y > 0.0 { (a + (b - a) * (y / (x + y))).clamp(a.min(b), a.max(b)) } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(value: f64, samples: u64, epoch: u64) -> Row {
        Row { values: vec![value], samples, epoch }
    }

    #[test]
    fn alone_the_file_becomes_what_the_planner_has() {
        let (first, sync) = entry(None, &[2.0], 10, None, 0).unwrap();
        assert_eq!(first, row(2.0, 10, 0));
        assert_eq!(entry(Some(&first), &[2.0], 10, Some(sync), 0), None);
        let (second, sync) = entry(Some(&first), &[3.0], 15, Some(sync), 0).unwrap();
        assert_eq!((second, sync.held), (row(3.0, 15, 0), 15));
    }

    #[test]
    fn what_two_learned_is_a_sum_and_a_mean() {
        let start = Sync { counted: 10, held: 10, epoch: 0 };
        let (after_a, _) = entry(Some(&row(1.0, 10, 0)), &[1.0], 20, Some(start), 0).unwrap();
        let (after_b, _) = entry(Some(&after_a), &[4.0], 30, Some(start), 0).unwrap();
        // 10 samples of the other at 1.0, and 30 of the own at 4.0.
        assert_eq!(after_b, row(3.25, 40, 0));
    }

    #[test]
    fn a_file_that_was_set_aside_is_restored_once() {
        let start = Sync { counted: 10, held: 10, epoch: 0 };
        let (restored, sync) = entry(None, &[2.0], 10, Some(start), 0).unwrap();
        assert_eq!(restored, row(2.0, 10, 0));
        assert_eq!(entry(Some(&restored), &[2.0], 10, Some(sync), 0), None);
        // The second process that had the same ten adds only its own three.
        assert_eq!(entry(Some(&restored), &[2.0], 13, Some(start), 0).unwrap().0.samples, 13);
    }

    #[test]
    fn what_was_forgotten_on_purpose_stays_forgotten() {
        let start = Sync { counted: 1000, held: 1000, epoch: 0 };
        // The planner learns it anew after a drift, and the others' old experience adds only what is new.
        let (anew, _) = entry(Some(&row(1.0, 1000, 0)), &[5.0], 20, Some(start), 0).unwrap();
        assert_eq!(anew, row(5.0, 20, 1));
        assert_eq!(entry(Some(&anew), &[1.0], 1000, Some(start), 0), None);
        let (other, sync) = entry(Some(&anew), &[1.0], 1020, Some(start), 0).unwrap();
        assert_eq!((other, sync), (row(3.0, 40, 1), Sync { counted: 1020, held: 20, epoch: 1 }));
        // After a reset the file is empty and of a later epoch.
        assert_eq!(entry(None, &[1.0], 1000, Some(start), 1), None);
        assert_eq!(entry(None, &[1.0], 1007, Some(start), 1).unwrap().0, row(1.0, 7, 1));
    }

    #[test]
    fn figures_of_another_form_are_replaced() {
        let stored = Row { values: vec![1.0, 2.0], samples: 10, epoch: 0 };
        assert_eq!(entry(Some(&stored), &[7.0], 5, None, 0).unwrap().0, row(7.0, 15, 0));
    }

    proptest! {
        /// Any interleaving of processes that learn and save: the count is the sum, and equal figures stay what they are.
        #[test]
        fn counts_are_sums(steps in prop::collection::vec((0_usize..4, 0_u64..50), 1..60), value in 1e-9_f64..1e9) {
            let mut file: Option<Row> = None;
            let mut processes = [(0_u64, None::<Sync>); 4];
            let mut learned = 0;
            for (who, fresh) in steps {
                let (samples, sync) = &mut processes[who];
                *samples += fresh;
                if let Some((row, now)) = entry(file.as_ref(), &[value], *samples, *sync, 0) {
                    (file, *sync) = (Some(row), Some(now));
                }
                learned += fresh;
                prop_assert_eq!(file.as_ref().map_or(0, |row| row.samples), learned);
                prop_assert!(file.as_ref().is_none_or(|row| row.values == [value]));
            }
        }

        /// The figure lies between those that were measured.
        #[test]
        fn a_mean_lies_between(a in 1e-9_f64..1e9, x in 1_u64..1 << 40, b in 1e-9_f64..1e9, y in 0_u64..1 << 53) {
            let m = mean(a, x, b, y);
            prop_assert!(m >= a.min(b) && m <= a.max(b));
        }
    }
}
