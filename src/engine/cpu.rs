//! The CPU engine: the host's own ggml-cpu, so that its kernels, its threads and its rounding are stock's.

use super::{Engine, EngineKind, Outcome};
use crate::ggml::{Abort, CpuBackend, HostGraph};
use crate::graph::Graph;
use crate::graph::shadow::Shadow;
use crate::plan::Step;

/// The CPU engine of one stream.
pub struct Cpu {
    backend: CpuBackend,
    convert: bool,
}

impl Cpu {
    /// `convert`: convert weights in plain buffers to their repacked layout, again for each graph (`TRI_LAYOUT=convert`).
    pub fn new(backend: CpuBackend, convert: bool) -> Cpu {
        Cpu { backend, convert }
    }

    /// Sets the host's abort callback, which ggml-cpu asks between nodes.
    pub fn set_abort(&mut self, abort: Abort) {
        self.backend.set_abort(abort);
    }
}

impl Engine for Cpu {
    fn kind(&self) -> EngineKind {
        EngineKind::Cpu
    }

    fn set_threads(&mut self, n: i32) {
        self.backend.set_threads(n);
    }

    fn begin(&mut self, step: &Step, _graph: &Graph, host: &HostGraph) -> Outcome {
        match step.rows {
            Some(_) => self.backend.compute_part(host, step, step.first, &[]),
            None => self.backend.compute(host, step.first, step.count, self.convert),
        }
    }

    fn begin_shadow(&mut self, step: &Step, shadow: &Shadow, host: &HostGraph) -> Outcome {
        self.backend.compute_part(host, step, shadow.first, &shadow.addresses)
    }

    fn finish(&mut self) -> Outcome {
        Outcome::Done
    }
}
