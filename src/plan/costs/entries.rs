//! What was learned about costs, as plain data.

use super::filter;
use super::net::Net;
use super::param::Param;
use super::{Costs, PROOF};

/// How well the two predictors did on steps that they had not seen.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Score {
    /// Mean error of the roofline, as the absolute logarithm of measured over predicted seconds: 0.05 is 5 %.
    pub roofline: f64,
    /// That of the net.
    pub net: f64,
    /// How many observations it comes from; a step counts for a class by its share of the step's time.
    pub weight: f64,
}

impl Score {
    /// Whether the net is used for the class.
    pub fn prefers_net(&self) -> bool {
        self.weight >= PROOF.0 && self.net < PROOF.1 * self.roofline
    }
}

/// One learned number with its name, as the profile keeps it.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Entry {
    /// The name of a [`Param`].
    pub name: String,
    /// Logarithm of true over prior.
    pub value: f64,
    /// Variance of `value`.
    pub variance: f64,
    /// How many observations taught it.
    pub weight: f64,
    /// The predictors' errors, for a class of shapes and widths.
    pub score: Option<Score>,
}

/// Everything that is learned about costs, as plain data.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Entries {
    /// The factors.
    pub factors: Vec<Entry>,
    /// The weights of the neural predictor; empty for an untaught one.
    pub net: Vec<f32>,
}

impl Costs {
    /// What was learned.
    pub fn entries(&self) -> Entries {
        let scored = |param| match param {
            Param::Class(key) => self.scores.get(&key).copied(),
            _ => None,
        };
        let entry = |(param, cell): (Param, filter::Cell)| Entry {
            name: param.to_string(),
            value: cell.value,
            variance: cell.variance,
            weight: cell.weight,
            score: scored(param),
        };
        let net = if self.net == Net::default() { Vec::new() } else { self.net.weights().to_vec() };
        Entries { factors: self.filter.cells().map(entry).collect(), net }
    }

    /// Takes over what was learned before. Entries with an unknown name or impossible numbers are left out; the answer is
    /// how many were taken.
    pub fn restore(&mut self, entries: &Entries) -> usize {
        let mut taken = 0;
        for entry in &entries.factors {
            let Ok(param) = entry.name.parse::<Param>() else { continue };
            let cell = filter::Cell { value: entry.value, variance: entry.variance, weight: entry.weight };
            if !self.filter.restore(param, cell) {
                continue;
            }
            taken += 1;
            if let (Param::Class(key), Some(score)) = (param, entry.score)
                && [score.roofline, score.net, score.weight].iter().all(|x| x.is_finite() && *x >= 0.0)
            {
                self.scores.insert(key, score);
            }
        }
        if let Some(net) = Net::with_weights(&entries.net) {
            self.net = net;
        }
        taken
    }
}
