//! WHO can compute. An engine sees its step and its memory; never another engine, never the plan.

pub mod cpu;
mod kind;
pub mod slow;
pub mod vulkan;

pub use kind::EngineKind;

use crate::ggml::HostGraph;
use crate::graph::Graph;
use crate::graph::shadow::Shadow;
use crate::plan::Step;

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was computed.
    Done,
    /// The host's abort callback said stop.
    Aborted,
    /// There was no memory for intermediate results.
    NoMemory,
    /// The engine could not compute it.
    Failed,
    /// The engine is gone for good, and what the step wrote so far is not to be trusted.
    Lost,
}

/// A thing that computes steps.
pub trait Engine: Send {
    /// Its kind.
    fn kind(&self) -> EngineKind;

    /// Sets how many host threads it may use from now on.
    fn set_threads(&mut self, n: i32);

    /// Begins a step of the graph; an engine of the host's own threads does all of it here. `host` is the same graph as the
    /// host has it. Anything but `Done` means that nothing was begun.
    fn begin(&mut self, step: &Step, graph: &Graph, host: &HostGraph) -> Outcome;

    /// Begins a step whose results go elsewhere: a trial.
    fn begin_shadow(&mut self, step: &Step, shadow: &Shadow, host: &HostGraph) -> Outcome;

    /// Waits for the end of what was begun.
    fn finish(&mut self) -> Outcome;
}
