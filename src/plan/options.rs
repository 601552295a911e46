//! What the user asks of the planner, and what it answers.

use super::{Plan, Wave};
use crate::engine::EngineKind;
use std::sync::Arc;

/// Whether plans may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Costs are learned and plans follow them.
    #[default]
    Adaptive,
    /// What is known is used, and nothing is learned: a plan never changes.
    Frozen,
    /// Each graph on the best single engine by the chip's figures; no trials.
    Off,
}

/// What a plan is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Objective {
    /// The fewest seconds.
    #[default]
    Speed,
    /// The fewest joules: watts times seconds.
    Energy,
    /// The fewest seconds that a ceiling of the temperature allows.
    Quiet,
}

/// Forced shares of the rows of each divisible product, for tests of the executor.
#[derive(Debug, Clone, PartialEq)]
pub struct Quota {
    /// The engines in the order of their rows, and their shares; only the shares' proportions matter.
    pub shares: Vec<(EngineKind, f64)>,
}

/// How a planner plans.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Options {
    /// Whether plans may change.
    pub mode: Mode,
    /// What a plan is good for.
    pub objective: Objective,
    /// Shares that override every choice.
    pub quota: Option<Quota>,
}

/// Nodes that are computed a second time, another way, into scratch memory that nobody reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Trial {
    /// Index of the first node in the graph.
    pub first: usize,
    /// Number of nodes.
    pub count: usize,
    /// How the trial computes them; node indices are those of the graph.
    pub waves: Vec<Wave>,
}

/// The planner's answer for one graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Who computes what.
    pub plan: Arc<Plan>,
    /// What to try beside it, if anything.
    pub trial: Option<Trial>,
    /// Whole sentences for the log.
    pub notices: Vec<String>,
    /// Seconds to rest before the graph, so that a hot engine cools down; 0 unless the objective is `Quiet`.
    pub rest: f64,
}
