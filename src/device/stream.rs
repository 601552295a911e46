//! One stream of graphs: plans each new graph, keeps the plan while the graph is repeated, and runs it.

use super::Device;
use crate::config::{Fault, Layout};
use crate::engine::cpu::Cpu;
use crate::engine::{Engine, Outcome};
use crate::exec::{self, Counts};
use crate::ggml::{Abort, CpuBackend, HostGraph};
use crate::plan::{self, Plan};
use std::sync::atomic::Ordering;

/// A stream: what ggml calls a backend.
pub struct Stream {
    device: &'static Device,
    cpu: Cpu,
    /// The plan of the graph with this uid.
    planned: Option<(u64, Plan)>,
    counts: Counts,
}

impl Stream {
    pub(super) fn new(device: &'static Device) -> Option<Stream> {
        let Some(backend) = CpuBackend::new(&device.host, &device.cpu) else {
            log::error!("TRI0: ggml-cpu gave no backend for a stream");
            return None;
        };
        let cpu = Cpu::new(backend, device.config.layout == Layout::Convert);
        let mut stream = Stream { device, cpu, planned: None, counts: Counts::default() };
        // Not every user of a backend sets its threads (the image projector does not); ggml-cpu's own default is a constant.
        let threads = device.threads.load(Ordering::Relaxed);
        if threads > 0 {
            stream.cpu.set_threads(threads);
        }
        Some(stream)
    }

    /// Sets the number of host threads, for this stream and for later ones that are told none.
    pub fn set_threads(&mut self, n: i32) {
        self.device.threads.store(n, Ordering::Relaxed);
        log::debug!("TRI0: {n} threads");
        self.cpu.set_threads(n);
    }

    /// Sets the host's abort callback.
    pub fn set_abort(&mut self, abort: Abort) {
        self.cpu.set_abort(abort);
    }

    /// Computes a graph.
    pub fn compute(&mut self, graph: &HostGraph) -> Outcome {
        let n = self.device.graphs.fetch_add(1, Ordering::Relaxed) + 1;
        match self.device.config.fault {
            Some(Fault::Compute(at)) if at == n => {
                log::error!("TRI0: graph {n} fails (asked for by TRI_FAULT)");
                return Outcome::Failed;
            }
            Some(Fault::Panic(at)) if at == n => panic!("graph {n} panics (asked for by TRI_FAULT)"),
            _ => {}
        }
        let uid = graph.uid();
        if self.planned.as_ref().is_none_or(|(of, _)| uid == 0 || *of != uid) {
            self.planned = Some((uid, plan::plan(&graph.flatten())));
        }
        let Some((_, plan)) = &self.planned else { return Outcome::Failed };
        match exec::run(plan, graph, &mut self.cpu, &mut self.counts) {
            Ok(()) => Outcome::Done,
            Err(error) => {
                if error.outcome != Outcome::Aborted {
                    log::error!("TRI0: graph {n}: {error}");
                }
                error.outcome
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let Counts { graphs, cpu_nodes } = self.counts;
        if graphs > 0 {
            log::info!("TRI0: computed {cpu_nodes} nodes in {graphs} graphs: cpu {cpu_nodes}");
        }
    }
}
