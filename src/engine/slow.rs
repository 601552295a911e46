//! An engine that is slower than it is: fault injection, to see whether the plan follows.

use super::{Engine, EngineKind, Outcome};
use crate::ggml::HostGraph;
use crate::graph::Graph;
use crate::graph::shadow::Shadow;
use crate::plan::Step;
use std::time::Instant;

/// Another engine, each of whose steps takes `factor` times as long.
pub struct Slow<'a> {
    inner: &'a mut dyn Engine,
    factor: u32,
    begun: Instant,
}

impl<'a> Slow<'a> {
    /// Slows an engine down.
    pub fn new(inner: &'a mut dyn Engine, factor: u32) -> Slow<'a> {
        Slow { inner, factor, begun: Instant::now() }
    }

    /// Waits until the time since the begin is multiplied. Asking the clock, since sleeping would free a processor.
    fn wait(&self) {
        let end = self.begun.elapsed() * self.factor;
        while self.begun.elapsed() < end {
            std::hint::spin_loop();
        }
    }
}

impl Engine for Slow<'_> {
    fn kind(&self) -> EngineKind {
        self.inner.kind()
    }

    fn set_threads(&mut self, n: i32) {
        self.inner.set_threads(n);
    }

    fn begin(&mut self, step: &Step, graph: &Graph, host: &HostGraph) -> Outcome {
        self.begun = Instant::now();
        let outcome = self.inner.begin(step, graph, host);
        // The CPU is done by now, and what it does must not overlap with others for longer than it would.
        if self.kind() == EngineKind::Cpu {
            self.wait();
        }
        outcome
    }

    fn begin_shadow(&mut self, step: &Step, shadow: &Shadow, host: &HostGraph) -> Outcome {
        self.begun = Instant::now();
        let outcome = self.inner.begin_shadow(step, shadow, host);
        if self.kind() == EngineKind::Cpu {
            self.wait();
        }
        outcome
    }

    fn finish(&mut self) -> Outcome {
        let outcome = self.inner.finish();
        if self.kind() != EngineKind::Cpu {
            self.wait();
        }
        outcome
    }
}
