//! The planner that all streams of TRI0 share, and what one stream needs to do what it says.

use crate::chip::fingerprint::Fingerprint;
use crate::chip::here::{Card, here};
use crate::config::Config;
use crate::engine::EngineKind;
use crate::engine::vulkan::caps::MemoryKind;
use crate::engine::vulkan::memory::Memory;
use crate::engine::vulkan::{Gpu, ops};
use crate::ggml::Host;
use crate::graph::shadow::Shadow;
use crate::graph::{Graph, Node, Type};
use crate::plan::timing::Report;
use crate::plan::{Decision, Mode, Options, Planner, Trial};
use crate::profile::{Knowledge, Profile};
use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The planner of TRI0, and what is kept of what it learns; only where there is a GPU beside the CPU.
pub struct Planning {
    planner: Mutex<Planner>,
    profile: Profile,
    fingerprint: Fingerprint,
    mode: Mode,
}

impl Planning {
    /// A planner for this machine, where there is a choice: in the memory of a discrete GPU the CPU computes so slowly that
    /// even a trial would do harm.
    pub fn new(cpu: &str, gpu: &Gpu, config: &Config) -> Option<Planning> {
        let caps = &gpu.device.caps;
        if caps.memory != MemoryKind::Unified {
            return None;
        }
        let card = if caps.software { Card::Software } else { Card::Integrated };
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let options = Options { mode: config.mode, objective: config.objective, quota: config.quota.clone() };
        let mut planner = Planner::new(here(cpu, threads, Some(card)), options);
        let profile = Profile::open(&config.profile);
        let fingerprint = Fingerprint::read(Path::new("/"), Some((&caps.name, &caps.driver)), Host::built_version());
        if config.mode != Mode::Off {
            let loaded = profile.load(&fingerprint);
            let taken = loaded.teach(planner.costs_mut());
            for change in &loaded.changed {
                log::info!("TRI0: since it was learned what engines can do: {change}; that is learned again");
            }
            log::debug!("TRI0: {taken} factors of costs are known from before");
        }
        Some(Planning { planner: Mutex::new(planner), profile, fingerprint, mode: config.mode })
    }

    /// Keeps what was learned.
    pub fn save(&self) {
        if self.learns() {
            let knowledge = Knowledge::of(self.planner().costs());
            self.profile.save(&self.fingerprint, &knowledge);
        }
    }

    fn planner(&self) -> std::sync::MutexGuard<'_, Planner> {
        self.planner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who computes a graph. `idle`: no sequence is in flight.
    pub fn next(&self, graph: &Graph, gpu: &Gpu, idle: bool) -> Decision {
        let accepts = |engine: EngineKind, node: &Node| match engine {
            // ggml-cpu ends the process on such products, which no model has.
            EngineKind::Cpu if node.op.starts_with("MUL_MAT") && node.src[1].is_some_and(|x| x.ty != Type::F32) => {
                Err("ggml-cpu wants f32 activations".to_owned())
            }
            EngineKind::Cpu => Ok(()),
            EngineKind::Gpu => ops::supports(node, &gpu.device.caps).map_err(|reject| reject.to_string()),
            EngineKind::Npu => Err("this version has no engine for it".to_owned()),
        };
        self.planner().next(graph, &accepts, idle)
    }

    /// Whether measurements are of use.
    pub fn learns(&self) -> bool {
        self.mode == Mode::Adaptive
    }

    /// Learns from what was measured.
    pub fn observe(&self, graph: &Graph, report: &Report) {
        self.planner().observe(graph, report);
    }

    /// The GPU is gone.
    pub fn lost(&self) {
        self.planner().lost(EngineKind::Gpu);
    }
}

/// The most memory that trials may have, in bytes; they are about decoding and short prompts.
const LARGEST: u64 = 256 << 20;

/// What one stream needs for trials.
#[derive(Default)]
pub struct Trials {
    /// Where results go that nobody reads.
    memory: Option<Arc<Memory>>,
    /// Counts the memories, so that recordings for an earlier one are not used again.
    generation: u64,
    /// What was tried before in this memory: (graph, trial).
    known: HashSet<(u64, Trial)>,
    count: u64,
}

impl Trials {
    /// The graph with the results of the trial elsewhere, whether the trial runs before the plan's own way, and whether it is
    /// the first of its kind; `None` where a second run would be seen, or without memory.
    pub fn prepare(&mut self, graph: &Graph, trial: &Trial, gpu: &Gpu) -> Option<(Shadow, bool, bool)> {
        let size = Shadow::of(graph, trial.first, trial.count, 0, 0)?.size;
        if size > LARGEST {
            return None;
        }
        if self.memory.as_ref().is_none_or(|m| m.size < size) {
            self.free(gpu);
            self.memory = Some(gpu.allocate(size.next_power_of_two()).ok()?);
            self.generation += 1;
        }
        let base = self.memory.as_ref()?.host() as u64;
        let shadow = Shadow::of(graph, trial.first, trial.count, base, self.generation)?;
        self.count += 1;
        let before = self.count.is_multiple_of(2) || !shadow.after;
        let new = graph.uid == 0 || self.known.insert((graph.uid, trial.clone()));
        Some((shadow, before, new))
    }

    /// Gives the memory up.
    pub fn free(&mut self, gpu: &Gpu) {
        if let Some(memory) = self.memory.take() {
            gpu.free(&memory);
        }
        self.known.clear();
    }
}

/// Tells when no sequence is in flight, from a graph's own inputs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Begin {
    /// Where the position of the first token is.
    positions: Option<u64>,
    /// Tokens.
    width: i64,
}

/// The most tokens of a decode or a verification.
const FEW: i64 = 16;

impl Begin {
    /// Looks at a new graph. Positions are the second source of each ROPE.
    pub fn of(graph: &Graph) -> Begin {
        let rope = graph.nodes.iter().find(|n| n.compute && n.op == "ROPE");
        let positions = rope.and_then(|n| n.src[1]);
        Begin { positions: positions.map(|t| t.data), width: rope.map_or(0, |n| n.dst.ne[2]) }
    }

    /// Whether the graph begins a sequence: its first token is the first of all, or it is a prompt after a decode, as when a
    /// server goes on behind a prefix that it remembers. `last` is the width of the graph before.
    pub fn idle(&self, gpu: &Gpu, last: i64) -> bool {
        let mut first = [0xff; 4];
        if let Some(at) = self.positions {
            gpu.read(at, &mut first).unwrap_or_default();
        }
        i32::from_ne_bytes(first) == 0 || self.width > FEW && last <= FEW
    }

    /// Tokens.
    pub fn width(&self) -> i64 {
        self.width
    }
}
