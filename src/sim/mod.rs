//! Simulated chips, in virtual time: what the planner would see on a chip that nobody here has.
//!
//! Nothing is computed; steps only take time. The truth holds what the planner's costs do not know: rounds of workgroups,
//! widths at which a kernel is bad, caches, fused dispatches, barriers of threads, spells of noise, heat. It shares no code
//! with `plan/costs`. Whatever comes out of here is simulated, and every output that shows it says so.

mod ask;
pub mod best;
mod bus;
mod cpu;
mod gpu;
mod make;
mod npu;
mod processor;
mod random;
mod run;
mod weather;

pub use run::Cost;
pub use weather::Event;

use crate::chip::model::Chip;
use crate::engine::EngineKind;
use crate::graph::Node;
use crate::plan::Step;
use crate::plan::work::Work;
use processor::Processor;
use std::collections::HashMap;
use weather::{Heat, Noise};

/// A simulated chip.
#[derive(Debug, Clone)]
pub struct Truth {
    chip: Chip,
    processors: Vec<Processor>,
    /// Bytes per second of the shared memory.
    bus: f64,
    /// Seconds of a join.
    join: f64,
    /// Watts while nothing computes, and that the package may draw for long.
    idle: f64,
    package: f64,
    heat: Heat,
    noise: Noise,
    /// Virtual seconds since it was made.
    clock: f64,
    /// Trials so far, whose order alternates.
    trials: u64,
    /// Steps that were done before, by graph.
    known: HashMap<(u64, Step), Known>,
}

/// A step that was done before.
#[derive(Debug, Clone)]
struct Known {
    /// Seconds without noise, heat and launch.
    seconds: f64,
    /// What it consists of, as the planner counts it.
    parts: Vec<Work>,
}

impl Truth {
    /// What the planner is told of the chip: figures that differ from how it is.
    pub fn chip(&self) -> &Chip {
        &self.chip
    }

    /// Virtual seconds that it has run.
    pub fn clock(&self) -> f64 {
        self.clock
    }

    /// Degrees Celsius of the package.
    pub fn degrees(&self) -> f64 {
        self.heat.degrees
    }

    /// Whether an engine computes the node.
    ///
    /// # Errors
    /// A sentence that says why not.
    pub fn accepts(&self, kind: EngineKind, node: &Node) -> Result<(), String> {
        match self.processor(kind) {
            Some(p) => p.accepts(node),
            None => Err(format!("this simulated chip has no {}", kind.name())),
        }
    }

    /// Lets something happen.
    pub fn happen(&mut self, event: Event) {
        self.known.clear();
        match event {
            Event::Driver(kind, factor) => self.change(kind, |p| p.speed *= factor),
            Event::Dies(kind) => self.change(kind, |p| p.dead = true),
            Event::Warmer(degrees) => self.heat.room += degrees,
            Event::Busy(share) => {
                self.noise.strength = 2.0;
                self.change(EngineKind::Cpu, |p| {
                    p.speed *= 1.0 - share;
                    p.node *= 3.0;
                });
            }
        }
    }

    fn change(&mut self, kind: EngineKind, change: impl Fn(&mut Processor)) {
        self.processors.iter_mut().filter(|p| p.kind == kind).for_each(change);
    }

    fn processor(&self, kind: EngineKind) -> Option<&Processor> {
        self.processors.iter().find(|p| p.kind == kind)
    }

    /// Who computes a step that is planned for `kind`: what died is replaced by the CPU.
    fn worker(&self, kind: EngineKind) -> &Processor {
        self.processor(kind).filter(|p| !p.dead).unwrap_or(&self.processors[0])
    }
}

#[cfg(test)]
#[path = "sim_tests.rs"]
mod tests;
