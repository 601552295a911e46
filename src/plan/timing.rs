//! What was measured: the only way from the executor back to the planner.

use super::work::Work;
use crate::engine::EngineKind;

/// One step as it was done.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    /// Who did it.
    pub engine: EngineKind,
    /// What it consisted of, in order.
    pub parts: Vec<Work>,
    /// Seconds from its begin to the executor knowing its end.
    pub seconds: f64,
}

/// A trial as it was done: the same nodes twice, with warm caches the second time, in alternating order.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialTiming {
    /// Seconds of the nodes as the trial had them.
    pub candidate: f64,
    /// Seconds of the nodes as the plan has them.
    pub current: f64,
    /// The steps of the candidate.
    pub steps: Vec<Timing>,
    /// Seconds that the trial took, everything counted.
    pub spent: f64,
}

/// A graph as it was done.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Seconds from the graph's begin to its end, without the trial.
    pub seconds: f64,
    /// All steps of the plan, in order.
    pub steps: Vec<Timing>,
    /// The trial, if there was one and it succeeded.
    pub trial: Option<TrialTiming>,
}
