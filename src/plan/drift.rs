//! Notices that an engine has changed: its timings leave the band in which they lay, and stay outside.

use crate::engine::EngineKind;
use std::collections::BTreeMap;

/// A change smaller than this, as a logarithm, is followed without a word.
const LEAST: f64 = 0.08;
/// The band is this many times the usual deviation.
const WIDE: f64 = 4.0;
/// So many timings in a row outside of the band and on one side of it are no outliers.
const PERSISTENT: usize = 5;
/// Part of a new timing in the usual level and deviation.
const FRESH: f64 = 0.15;
/// Timings before there is anything usual.
const USUAL: u32 = 4;

/// A lasting change of an engine's speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Whose.
    pub engine: EngineKind,
    /// Measured over expected seconds: 1.3 is 30 % slower.
    pub ratio: f64,
    /// How many learned factors are learned again.
    pub factors: usize,
}

/// What the timings of one thing usually are.
#[derive(Debug, Clone, Default)]
struct Level {
    seen: u32,
    mean: f64,
    deviation: f64,
    outside: Vec<f64>,
}

/// Levels of everything that is measured again and again. Each thing has its own, since predictions err by what they do not
/// know of it, which is no change.
#[derive(Debug, Clone)]
pub struct Watcher<K: Ord> {
    levels: BTreeMap<K, Level>,
}

impl<K: Ord> Default for Watcher<K> {
    fn default() -> Watcher<K> {
        Watcher { levels: BTreeMap::new() }
    }
}

impl<K: Ord> Watcher<K> {
    /// The logarithm of measured over predicted seconds of a thing; gives the lasting change, if this makes it one.
    pub fn see(&mut self, thing: K, error: f64) -> Option<f64> {
        let level = self.levels.entry(thing).or_default();
        let off = error - level.mean;
        let usual = level.seen >= USUAL;
        if usual && off.abs() > LEAST.max(WIDE * level.deviation) {
            if level.outside.last().is_some_and(|last| last * off < 0.0) {
                level.outside.clear();
            }
            level.outside.push(off);
            if level.outside.len() < PERSISTENT {
                return None;
            }
            // The median, since the first of them can be an outlier of another cause.
            level.outside.sort_by(f64::total_cmp);
            return level.outside.get(PERSISTENT / 2).copied();
        }
        level.outside.clear();
        level.seen += 1;
        let fresh = FRESH.max(1.0 / f64::from(level.seen));
        level.mean += fresh * off;
        level.deviation += fresh * (if level.seen > 1 { off.abs() } else { 0.0 } - level.deviation);
        None
    }

    /// Whether the last timing of something was outside of its band, so that the next one tells whether it stays there.
    pub fn suspicious(&self) -> bool {
        self.levels.values().any(|level| !level.outside.is_empty())
    }

    /// Nothing is usual any more.
    pub fn clear(&mut self) {
        self.levels.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_and_slow_changes_are_no_drift_and_a_lasting_jump_is_one() {
        let mut watcher = Watcher::default();
        for i in 0..200 {
            let noise = [0.01, -0.02, 0.015, -0.005][i % 4];
            let outlier = if i % 17 == 0 { 2.0 } else { 0.0 };
            assert_eq!(watcher.see("gpu", 0.001 * i as f64 + noise + outlier), None, "{i}");
        }
        let jump = (0..PERSISTENT).find_map(|_| watcher.see("gpu", 0.2 + 0.26));
        assert!((jump.unwrap() - 0.26).abs() < 0.05, "{jump:?}");
    }

    #[test]
    fn timings_on_both_sides_are_noise() {
        let mut watcher = Watcher::default();
        for i in 0..100 {
            assert_eq!(watcher.see(0, if i % 2 == 0 { 0.3 } else { -0.3 }), None);
        }
    }
}
