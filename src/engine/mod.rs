//! WHO can compute. An engine sees its step and its memory; never another engine, never the plan.

pub mod cpu;
pub mod vulkan;

use crate::ggml::HostGraph;
use crate::graph::Graph;
use crate::plan::Step;

/// The kinds of engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EngineKind {
    /// The host's own ggml-cpu.
    Cpu,
    /// Own shaders over Vulkan.
    Gpu,
}

impl EngineKind {
    /// The name in every output.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Cpu => "cpu",
            EngineKind::Gpu => "gpu",
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
    /// The engine is gone for good, and what the step wrote so far is not to be trusted.
    Lost,
}

/// A thing that computes steps.
pub trait Engine: Send {
    /// Its kind.
    fn kind(&self) -> EngineKind;

    /// Sets how many host threads it may use from now on.
    fn set_threads(&mut self, n: i32);

    /// Computes one step of the graph and returns when it is done. `host` is the same graph as the host has it.
    fn compute(&mut self, step: &Step, graph: &Graph, host: &HostGraph) -> Outcome;
}
