//! The engine of one stream: records each new step, and replays it while the host repeats the graph.

use super::recording::Recording;
use super::{Gpu, GpuError};
use crate::engine::{Engine, EngineKind, Outcome};
use crate::ggml::HostGraph;
use crate::graph::Graph;
use crate::plan::Step;

/// Recordings that are kept: a decode, some verify widths, each with two lengths of the KV cache.
const KEPT: usize = 16;

/// The GPU engine of one stream.
pub struct Vulkan {
    gpu: &'static Gpu,
    /// The name of the device in messages.
    device: &'static str,
    /// (graph, first node, nodes) and its recording, the last used one last.
    recordings: Vec<((u64, usize, usize), Recording)>,
}

impl Vulkan {
    /// An engine without recordings.
    pub fn new(gpu: &'static Gpu, device: &'static str) -> Vulkan {
        Vulkan { gpu, device, recordings: Vec::new() }
    }

    fn step(&mut self, step: &Step, graph: &Graph) -> Result<(), GpuError> {
        let key = (graph.uid, step.first, step.count);
        if let Some(at) = self.recordings.iter().position(|(k, _)| *k == key && graph.uid != 0) {
            let found = self.recordings.remove(at);
            self.recordings.push(found);
        } else {
            let recording = self.gpu.record(&graph.nodes[step.first..step.first + step.count])?;
            log::debug!(
                "{}: graph {}: {} nodes are {} dispatches with {} barriers",
                self.device,
                graph.uid,
                step.computed,
                recording.dispatches,
                recording.barriers
            );
            // A graph without a name cannot be recognised again.
            self.recordings.retain(|((uid, ..), _)| *uid != 0);
            self.recordings.push((key, recording));
            if self.recordings.len() > KEPT {
                self.recordings.remove(0);
            }
        }
        let Some((_, recording)) = self.recordings.last() else { return Ok(()) };
        self.gpu.run(recording)
    }
}

impl Engine for Vulkan {
    fn kind(&self) -> EngineKind {
        EngineKind::Gpu
    }

    fn set_threads(&mut self, _n: i32) {}

    fn compute(&mut self, step: &Step, graph: &Graph, _host: &HostGraph) -> Outcome {
        match self.step(step, graph) {
            Ok(()) => Outcome::Done,
            // The stream says it, once, with what follows from it.
            Err(GpuError::Lost) => Outcome::Lost,
            Err(error) => {
                log::error!("{}: gpu: {error}", self.device);
                if matches!(error, GpuError::Memory(_)) { Outcome::NoMemory } else { Outcome::Failed }
            }
        }
    }
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        self.recordings.clear();
        for line in self.gpu.times() {
            log::warn!("{}: trace: {line}", self.device);
        }
        self.gpu.save();
    }
}
