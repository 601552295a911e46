//! WHO can compute. An engine sees its step and its memory; never another engine, never the plan.

pub mod cpu;
pub mod vulkan;

use crate::ggml::HostGraph;
use crate::plan::Step;

/// The kinds of engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EngineKind {
    /// The host's own ggml-cpu.
    Cpu,
}

impl EngineKind {
    /// The name in every output.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Cpu => "cpu",
        }
    }
}

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
}

/// A thing that computes steps.
pub trait Engine: Send {
    /// Its kind.
    fn kind(&self) -> EngineKind;

    /// Sets how many host threads it may use from now on.
    fn set_threads(&mut self, n: i32);

    /// Computes one step of the graph and returns when it is done.
    fn compute(&mut self, step: &Step, graph: &HostGraph) -> Outcome;
}
