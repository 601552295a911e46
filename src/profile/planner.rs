//! The planner's costs as entries of the profile, and back.
//!
//! Figures are positive there, so that damage and nonsense are seen; what the planner has as logarithms or signed numbers is
//! kept in a form that is. All forms are such that a mean of figures is a fair mean of what they stand for.

use std::collections::BTreeMap;

use super::knowledge::{Entry, Knowledge, engine};
use super::recall::Loaded;
use crate::engine::EngineKind;
use crate::plan::costs::{self, Costs, Entries, Score};

/// Added to a weight of the predictor. Weights are far smaller (a prediction is at most 3), and a double keeps 2^-42 beside it.
const OFFSET: f64 = 1024.0;
/// Stands for a variance or an error of zero; far below any that is measured.
const TINY: f64 = 1e-12;
/// The key of the predictor's weights.
const NET: &str = "net";
/// The last word of the keys of the predictors' errors.
const SCORE: &str = " score";

/// What was learned about costs, as entries.
fn entries(costs: &Entries) -> Vec<Entry> {
    let mut kept = Vec::new();
    let mut taught = 0;
    for factor in &costs.factors {
        let Some(engine) = factor.name.split(' ').next().and_then(engine::named) else { continue };
        let mut keep = |key: String, values: Vec<f64>, weight: f64| {
            // Weights are sums of shares of observations; a part of one is one.
            kept.push(Entry { engine, key, values, samples: weight.ceil().max(1.0) as u64 });
        };
        keep(factor.name.clone(), vec![factor.value.exp(), factor.variance.max(TINY)], factor.weight);
        if let Some(Score { roofline, net, weight }) = factor.score {
            keep(format!("{}{SCORE}", factor.name), vec![roofline.max(TINY), net.max(TINY)], weight);
            taught += weight.ceil().max(1.0) as u64;
        }
    }
    if !costs.net.is_empty() {
        let values = costs.net.iter().map(|weight| f64::from(*weight) + OFFSET).collect();
        // The predictor is about all engines. Whether one's costs are read from it is decided by their scores.
        kept.push(Entry { engine: EngineKind::Cpu, key: NET.to_owned(), values, samples: taught.max(1) });
    }
    kept
}

/// The costs that entries stand for; what is of no known form is left out.
fn costs(entries: &[Entry]) -> Entries {
    let mut costs = Entries::default();
    let by_key: BTreeMap<_, _> = entries.iter().map(|entry| ((entry.engine, entry.key.clone()), entry)).collect();
    for entry in entries {
        match &entry.values[..] {
            weights if entry.key == NET => costs.net = weights.iter().map(|weight| (weight - OFFSET) as f32).collect(),
            [factor, variance] if !entry.key.ends_with(SCORE) => {
                let score = by_key.get(&(entry.engine, format!("{}{SCORE}", entry.key)));
                let score = score.and_then(|score| match score.values[..] {
                    [roofline, net] => Some(Score { roofline, net, weight: score.samples as f64 }),
                    _ => None,
                });
                let (name, weight) = (entry.key.clone(), entry.samples as f64);
                costs.factors.push(costs::Entry { name, value: factor.ln(), variance: *variance, weight, score });
            }
            _ => {}
        }
    }
    costs
}

impl Knowledge {
    /// What a planner's costs know; without decisions.
    pub fn of(costs: &Costs) -> Knowledge {
        Knowledge { entries: entries(&costs.entries()), decisions: Vec::new() }
    }
}

impl Loaded {
    /// Teaches a planner's costs what is known: what is earlier is doubted, what is current is believed. Returns how many
    /// factors were taken.
    pub fn teach(&self, to: &mut Costs) -> usize {
        let earlier = to.restore(&costs(&self.earlier.entries));
        for engine in [EngineKind::Cpu, EngineKind::Gpu, EngineKind::Npu] {
            if self.earlier.entries.iter().any(|entry| entry.engine == engine) {
                to.forget(engine);
            }
        }
        earlier + to.restore(&costs(&self.current.entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned() -> Entries {
        let factor = |name: &str, value, weight, score| costs::Entry {
            name: name.to_owned(),
            value,
            variance: 0.01,
            weight,
            score,
        };
        let score = Some(Score { roofline: 0.25, net: 0.0, weight: 12.0 });
        Entries {
            factors: vec![
                factor("cpu memory", -0.5, 40.0, None),
                factor("gpu class product q4_K 12 1", 0.125, 9.5, score),
                factor("gpu launch", 0.0, 0.25, None),
            ],
            net: (0_u16..111).map(|n| f32::from(n) / 64.0 - 0.75).collect(),
        }
    }

    #[test]
    fn costs_come_back_as_they_were_kept() {
        let kept = entries(&learned());
        assert!(kept.iter().all(|entry| entry.check() == Ok(())));
        let back = costs(&kept);
        assert_eq!(back.net, learned().net);
        for (back, kept) in back.factors.iter().zip(learned().factors) {
            assert_eq!((&back.name, back.weight), (&kept.name, kept.weight.ceil()));
            assert!((back.value - kept.value).abs() < 1e-12 && back.variance == kept.variance);
        }
        let score = back.factors[1].score.unwrap();
        assert!(score.roofline == 0.25 && score.net < 1e-9 && score.weight == 12.0);
        // Kept once more they are the same: nothing drifts from restart to restart.
        assert_eq!(entries(&back), entries(&costs(&entries(&back))));
    }

    #[test]
    fn what_is_earlier_is_doubted_and_what_is_current_believed() {
        let chip = crate::chip::catalog::chips()[0].chip();
        let kept = entries(&learned());
        let half = |engine| kept.iter().filter(|entry| entry.engine == engine).cloned().collect();
        let loaded = Loaded {
            current: Knowledge { entries: half(EngineKind::Cpu), ..Knowledge::default() },
            earlier: Knowledge { entries: half(EngineKind::Gpu), ..Knowledge::default() },
            changed: Vec::new(),
        };
        let mut costs = Costs::new(&chip);
        assert_eq!(loaded.teach(&mut costs), 3);
        let now = costs.entries().factors;
        let find = |name: &str| now.iter().find(|factor| factor.name == name).unwrap();
        assert_eq!((find("cpu memory").weight, find("cpu memory").variance), (40.0, 0.01));
        let doubted = find("gpu launch");
        assert!(doubted.weight <= 1.0 && doubted.variance > 0.01, "{doubted:?}");
        assert_eq!(costs.entries().net, learned().net);
    }

    #[test]
    fn what_has_no_known_form_is_left_out() {
        let strange = |key: &str, values: &[f64]| Entry {
            engine: EngineKind::Cpu,
            key: key.to_owned(),
            values: values.to_vec(),
            samples: 1,
        };
        let strange = [strange("cpu memory", &[1.0]), strange("a score", &[1.0, 2.0]), strange("x", &[1.0, 2.0, 3.0])];
        assert_eq!(costs(&strange), Entries::default());
    }
}
