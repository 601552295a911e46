//! Learns factors from the seconds of steps, each of which is a sum over many of them: a Kalman filter on their logarithms
//! with independent variances, so that an error goes to the factors that are least known and have the largest share.

use super::param::Param;
use crate::engine::EngineKind;
use std::collections::BTreeMap;

/// Variance of one measurement's logarithm: timings of one step repeat within a few per cent on a quiet machine.
const NOISE: f64 = 0.03 * 0.03;
/// What a factor's variance grows by with each observation that touches it, so that slow changes are followed.
const WANDER: f64 = 0.002 * 0.002;
/// An error beyond so many standard deviations teaches no more than that: outliers are cut off.
const CUT: f64 = 2.5;
/// Factors stay within e^3 of the chip's figures.
const LIMIT: f64 = 3.0;

/// A factor as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// Logarithm of true over prior.
    pub value: f64,
    /// Its variance.
    pub variance: f64,
    /// How many observations taught it; one counts by its share.
    pub weight: f64,
}

/// All factors.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filter {
    cells: BTreeMap<Param, Cell>,
}

impl Filter {
    fn cell(&self, param: Param) -> Cell {
        let unknown = Cell { value: 0.0, variance: param.doubt().powi(2), weight: 0.0 };
        self.cells.get(&param).copied().unwrap_or(unknown)
    }

    /// The factor itself.
    pub fn factor(&self, param: Param) -> f64 {
        self.cells.get(&param).map_or(1.0, |cell| cell.value.exp())
    }

    /// The variance of its logarithm.
    pub fn variance(&self, param: Param) -> f64 {
        self.cell(param).variance
    }

    /// How many observations taught it.
    pub fn weight(&self, param: Param) -> f64 {
        self.cells.get(&param).map_or(0.0, |cell| cell.weight)
    }

    /// All that were taught.
    pub fn cells(&self) -> impl Iterator<Item = (Param, Cell)> {
        self.cells.iter().map(|(p, c)| (*p, *c))
    }

    /// Takes a factor over; `false` for impossible numbers.
    pub fn restore(&mut self, param: Param, cell: Cell) -> bool {
        let possible = cell.value.abs() <= LIMIT && cell.variance >= 0.0 && cell.variance <= 4.0 && cell.weight >= 0.0;
        if possible && cell.weight.is_finite() {
            self.cells.insert(param, cell);
        }
        possible && cell.weight.is_finite()
    }

    /// A sum's logarithm was `error` above its prediction, of which each factor has a share.
    pub fn learn(&mut self, shares: &[(Param, f64)], error: f64) {
        let expected = self.expected(shares);
        let error = error.clamp(-CUT * expected.sqrt(), CUT * expected.sqrt());
        for (param, share) in shares {
            let mut cell = self.cell(*param);
            let gain = cell.variance * share / expected;
            cell.value = (cell.value + gain * error).clamp(-LIMIT, LIMIT);
            let limit = param.doubt().powi(2);
            cell.variance = ((1.0 - gain * share) * cell.variance + WANDER * share * share).min(limit);
            cell.weight += share;
            self.cells.insert(*param, cell);
        }
    }

    /// The variance that an error is expected to have.
    fn expected(&self, shares: &[(Param, f64)]) -> f64 {
        shares.iter().map(|(p, share)| share * share * self.variance(*p)).sum::<f64>() + NOISE
    }

    /// Doubts what is known of an engine: all of what its work shares, a part of what only some of it has, since a changed
    /// clock or driver changes the former most.
    pub fn forget(&mut self, engine: EngineKind) -> usize {
        let mut count = 0;
        for (param, cell) in self.cells.iter_mut().filter(|(p, _)| p.engine() == engine) {
            let doubt = match param {
                Param::Memory(_) | Param::Arithmetic(..) => param.doubt(),
                Param::Launch(_) | Param::Relaunch(_) | Param::Node(_) => 0.3 * param.doubt(),
                _ => 0.4 * param.doubt(),
            };
            cell.variance = cell.variance.max(doubt * doubt);
            cell.weight = cell.weight.min(1.0);
            count += 1;
        }
        count
    }
}
