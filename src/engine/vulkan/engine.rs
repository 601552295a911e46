//! The engine of one stream: records each new step, and replays it while the host repeats the graph.

use super::recording::Recording;
use super::{Gpu, GpuError};
use crate::engine::{Engine, EngineKind, Outcome};
use crate::ggml::HostGraph;
use crate::graph::shadow::Shadow;
use crate::graph::{Graph, Node};
use crate::plan::{Rows, Step};
use std::collections::BTreeSet;

/// Graphs whose recordings are kept: a decode, some verify widths, each with two lengths of the KV cache.
const GRAPHS: usize = 16;
/// Recordings that are kept: a plan that joins a few times has several for each graph.
const RECORDINGS: usize = 512;
/// Bytes of scratch memory and parameters that kept recordings may have; a prompt's take up to 64 MiB, and no prompt comes again.
const BYTES: u64 = 1 << 30;

/// The GPU engine of one stream.
pub struct Vulkan {
    gpu: &'static Gpu,
    /// The name of the device in messages.
    device: &'static str,
    /// What was recorded, the last used one last.
    recordings: Vec<(Key, Recording)>,
}

/// A step of a graph with this uid, whose first result lies at this address: a trial's moves.
type Key = (u64, Step, u64);

impl Vulkan {
    /// An engine without recordings.
    pub fn new(gpu: &'static Gpu, device: &'static str) -> Vulkan {
        Vulkan { gpu, device, recordings: Vec::new() }
    }

    /// Records the step unless that was done before, and begins to run it.
    fn step(&mut self, step: &Step, graph: &Graph) -> Result<(), GpuError> {
        let first = graph.nodes.get(step.first).map_or(0, |node| node.dst.data);
        let key = (graph.uid, step.clone(), first);
        if let Some(at) = self.recordings.iter().position(|(k, _)| *k == key && graph.uid != 0) {
            let found = self.recordings.remove(at);
            self.recordings.push(found);
        } else {
            let nodes = &graph.nodes[step.first..step.first + step.count];
            let recording = match step.rows {
                // The other rows are not there yet when this part ends, so nothing is copied for the host.
                Some(rows) => self.gpu.record(&[Node { output: false, ..part_of(&nodes[0], rows) }])?,
                None => self.gpu.record(nodes)?,
            };
            log::debug!(
                "{}: graph {}: {} nodes are {} dispatches with {} barriers",
                self.device,
                graph.uid,
                step.computed,
                recording.dispatches,
                recording.barriers
            );
            // A graph without a name cannot be recognised again.
            self.recordings.retain(|(key, _)| key.0 != 0);
            self.recordings.push((key, recording));
            while self.recordings.len() > 1 && !self.few() {
                self.recordings.remove(0);
            }
        }
        let Some((_, recording)) = self.recordings.last() else { return Ok(()) };
        self.gpu.begin(recording)
    }

    /// Whether what is kept is within bounds.
    fn few(&self) -> bool {
        // A trial's graph has the name of the real one in its lower bits.
        let graphs: BTreeSet<u64> = self.recordings.iter().map(|(key, _)| key.0 << 16).collect();
        let bytes: u64 = self.recordings.iter().map(|(_, recording)| recording.bytes()).sum();
        self.recordings.len() <= RECORDINGS && graphs.len() <= GRAPHS && bytes <= BYTES
    }

    /// How an attempt ended, in the engine's words.
    fn outcome(&self, result: Result<(), GpuError>) -> Outcome {
        match result {
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

/// A product of some rows of the weights, which writes its part of the whole result.
fn part_of(node: &Node, rows: Rows) -> Node {
    let mut part = *node;
    if let Some(w) = &mut part.src[0] {
        w.ne[1] = rows.count as i64;
        w.data += rows.first * w.nb[1];
    }
    part.dst.ne[0] = rows.count as i64;
    part.dst.data += rows.first * part.dst.nb[0];
    part
}

impl Engine for Vulkan {
    fn kind(&self) -> EngineKind {
        EngineKind::Gpu
    }

    fn set_threads(&mut self, _n: i32) {}

    fn begin(&mut self, step: &Step, graph: &Graph, _host: &HostGraph) -> Outcome {
        let result = self.step(step, graph);
        self.outcome(result)
    }

    fn begin_shadow(&mut self, step: &Step, shadow: &Shadow, host: &HostGraph) -> Outcome {
        self.begin(step, &shadow.graph, host)
    }

    fn finish(&mut self) -> Outcome {
        let Some((_, recording)) = self.recordings.last() else { return Outcome::Failed };
        self.outcome(self.gpu.finish(recording))
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
