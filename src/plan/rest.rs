//! Quiet: an engine whose processor is at the ceiling of its temperature works less of the time, in bursts with rests between.

use super::Plan;
use super::problem::{ENGINES, index};

/// An engine works at least this part of the time.
const LEAST: f64 = 0.2;
/// Rests are this long, in seconds: long enough for the clocks to go down.
const NAP: f64 = 0.25;
/// Degrees below the ceiling at which the part grows again.
const SLACK: f64 = 3.0;

/// How much of the time each engine may work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rest {
    duty: [f64; 3],
    /// Seconds of rest that are owed.
    owed: f64,
}

impl Default for Rest {
    fn default() -> Rest {
        Rest { duty: [1.0; 3], owed: 0.0 }
    }
}

impl Rest {
    /// A temperature was read: at the ceiling the engine works a tenth less of the time, well below it a twentieth more.
    pub fn temperature(&mut self, engine: usize, celsius: f64, ceiling: f64) {
        let duty = &mut self.duty[engine];
        if celsius >= ceiling {
            *duty = (*duty * 0.9).max(LEAST);
        } else if celsius < ceiling - SLACK {
            *duty = (*duty * 1.05).min(1.0);
        }
    }

    /// How much slower each engine is for its rests.
    pub fn strain(&self) -> [f64; 3] {
        self.duty.map(|duty| 1.0 / duty)
    }

    /// An engine's steps took so many seconds.
    pub fn worked(&mut self, engine: usize, seconds: f64) {
        self.owed += seconds * (1.0 / self.duty[engine] - 1.0);
    }

    /// Seconds to rest before a plan is run: nothing until a whole nap is owed, and nothing if the plan's engines are cool.
    pub fn before(&mut self, plan: &Plan) -> f64 {
        let hot = ENGINES.into_iter().any(|e| self.duty[index(e)] < 1.0 && plan.uses(e));
        if !hot || self.owed < NAP {
            return 0.0;
        }
        std::mem::take(&mut self.owed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineKind;
    use crate::plan::{Step, Wave};

    #[test]
    fn a_hot_engine_works_in_bursts_and_recovers() {
        let (mut rest, gpu) = (Rest::default(), index(EngineKind::Gpu));
        let step = Step { engine: EngineKind::Gpu, first: 0, count: 1, computed: 1, rows: None };
        let plan = Plan { waves: vec![Wave { steps: vec![step] }], fallbacks: vec![] };
        rest.worked(gpu, 10.0);
        assert_eq!(rest.before(&plan), 0.0);
        for _ in 0..5 {
            rest.temperature(gpu, 90.0, 85.0);
        }
        let duty = 0.9_f64.powi(5);
        assert!((rest.strain()[gpu] - 1.0 / duty).abs() < 1e-9);
        rest.worked(gpu, 0.1);
        assert_eq!(rest.before(&plan), 0.0, "a burst is not interrupted for a moment's rest");
        rest.worked(gpu, 0.9);
        let nap = rest.before(&plan);
        assert!((1.0 / (1.0 + nap) - duty).abs() < 1e-9, "{nap}");
        for _ in 0..20 {
            rest.temperature(gpu, 60.0, 85.0);
        }
        assert_eq!(rest.strain(), [1.0; 3]);
    }
}
