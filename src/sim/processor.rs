//! What all simulated processors have in common.

use super::ask::{Ask, Shape};
use super::{cpu, gpu, npu};
use crate::engine::EngineKind;
use crate::graph::{Node, Type};

/// A simulated processor as it really is, whatever the planner was told of it.
#[derive(Debug, Clone)]
pub struct Processor {
    /// Which engine drives it.
    pub kind: EngineKind,
    /// Bytes per second when alone.
    pub bandwidth: f64,
    /// Operations per second with few columns, when nothing is in the way.
    pub few: f64,
    /// Operations per second with many.
    pub many: f64,
    /// Seconds for each step.
    pub launch: f64,
    /// Seconds for each dispatch or barrier.
    pub node: f64,
    /// Rows come in multiples of this.
    pub rows: u64,
    /// Watts at full load.
    pub watts: f64,
    /// Cores, compute units or columns.
    pub units: f64,
    /// Bytes of its last cache.
    pub cache: f64,
    /// Bytes per second to the CPU's memory, if it has its own.
    pub link: Option<f64>,
    /// How much longer passes of 1 to 16 columns take than their bytes and operations say.
    pub cliffs: [f64; 17],
    /// What became of its speed: 1 as it was made.
    pub speed: f64,
    /// Whether it has died.
    pub dead: bool,
}

/// Some work as it would be done alone.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Item {
    /// Seconds.
    pub seconds: f64,
    /// Bytes over the shared bus in that time.
    pub bytes: f64,
}

/// Two limits of one work: a little longer than the later one alone, since neither is reached all the time.
pub fn both(a: f64, b: f64) -> f64 {
    (a.powi(4) + b.powi(4)).sqrt().sqrt()
}

/// Busy share when `jobs` equal jobs are done `slots` at a time; later rounds begin before the last job of one ends.
pub fn rounds(jobs: f64, slots: f64, overlap: f64) -> f64 {
    let rounds = (jobs / slots).max(1e-9);
    rounds / (rounds + (1.0 - overlap) * (rounds.ceil() - rounds))
}

/// How much more it costs to unpack a type than Q4_K.
pub fn unpacking(ty: Type, kind: EngineKind) -> f64 {
    let cpu = kind == EngineKind::Cpu;
    match ty {
        Type::Q4_0 | Type::Q4_1 | Type::Q8_0 => 0.8,
        Type::Q5_0 | Type::Q5_1 => 1.2,
        Type::Q6_K => {
            if cpu {
                1.25
            } else {
                1.5
            }
        }
        Type::F16 | Type::BF16 => {
            if cpu {
                1.6
            } else {
                0.7
            }
        }
        Type::F32 => {
            if cpu {
                2.0
            } else {
                1.4
            }
        }
        _ => 1.0,
    }
}

impl Processor {
    /// One node, or some rows of it, alone. `before` is the node that the same step computed just before it.
    pub fn alone(&self, node: &Node, rows: Option<u64>, before: Option<&Node>) -> Item {
        let Some(ask) = Ask::of(node, rows) else { return Item::default() };
        let mut seconds = match self.kind {
            EngineKind::Cpu => cpu::seconds(self, &ask),
            EngineKind::Gpu => gpu::seconds(self, &ask, node, before),
            EngineKind::Npu => npu::seconds(self, &ask, before),
        } / self.speed;
        if before.is_none() {
            // What another processor wrote is in no cache of this one, or not even in its memory.
            seconds +=
                self.link.map_or(ask.fresh / (0.3 * self.bandwidth), |link| 8e-6 + (ask.fresh + ask.made) / link);
        }
        let bytes = if self.link.is_some() { 0.0 } else { self.over_the_bus(&ask) };
        Item { seconds, bytes: bytes.min(seconds * self.bandwidth) }
    }

    fn over_the_bus(&self, ask: &Ask) -> f64 {
        // The NPU holds weights in 8 bits.
        let stream = if self.kind == EngineKind::Npu { ask.m * ask.k } else { ask.stream };
        stream + self.spilled(ask)
    }

    /// Bytes of activations that the cache does not keep.
    pub fn spilled(&self, ask: &Ask) -> f64 {
        (ask.fresh + ask.made - 0.5 * self.cache).max(0.0)
    }

    /// Whether it computes the node.
    ///
    /// # Errors
    /// A sentence that says why not.
    pub fn accepts(&self, node: &Node) -> Result<(), String> {
        if self.dead {
            return Err(format!("the simulated {} has died", self.kind.name()));
        }
        match (self.kind, Ask::of(node, None)) {
            (EngineKind::Npu, Some(ask)) if ask.shape != Shape::Product || ask.ty == Type::F32 => {
                Err(format!("the simulated npu computes products of packed weights, not {}", node.op))
            }
            (EngineKind::Npu, Some(ask)) if ask.k % 256.0 != 0.0 || ask.m % 256.0 != 0.0 => {
                Err(format!("npu: {} x {} is not a multiple of 256 both ways", ask.m, ask.k))
            }
            _ => Ok(()),
        }
    }
}
