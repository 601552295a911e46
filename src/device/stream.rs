//! One stream of graphs: plans each new graph, keeps the plan while the graph is repeated, and runs it.

use super::kept::Kept;
use super::{Device, Facts};
use crate::config::{Fault, Layout};
use crate::engine::cpu::Cpu;
use crate::engine::vulkan::caps::MemoryKind;
use crate::engine::vulkan::{Gpu, Vulkan, ops};
use crate::engine::{Engine, EngineKind, Outcome};
use crate::exec::{self, Counts, Engines};
use crate::ggml::{Abort, CpuBackend, HostGraph};
use crate::graph::{Graph, Node};
use crate::plan::{self, Plan};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// A stream: what ggml calls a backend.
pub struct Stream {
    device: &'static Device,
    name: &'static str,
    cpu: Cpu,
    gpu: Option<Vulkan>,
    /// The last graph with its plan, and what must be kept to run it again.
    planned: Option<(Graph, Plan, Kept)>,
    counts: Counts,
    /// Operations that were computed on the CPU though a GPU is there; each is said once.
    fallbacks: BTreeSet<&'static str>,
}

impl Stream {
    pub(super) fn new(device: &'static Device, facts: &'static Facts) -> Option<Stream> {
        let name = facts.name;
        let Some(backend) = CpuBackend::new(&device.host, &device.cpu) else {
            log::error!("{name}: ggml-cpu gave no backend for a stream");
            return None;
        };
        let cpu = Cpu::new(backend, device.config.layout == Layout::Convert && !facts.gpu);
        let gpu = device.gpu().filter(|_| facts.gpu).map(|gpu| Vulkan::new(gpu, name));
        let (counts, fallbacks) = (Counts::default(), BTreeSet::new());
        let mut stream = Stream { device, name, cpu, gpu, planned: None, counts, fallbacks };
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
        log::debug!("{}: {n} threads", self.name);
        self.cpu.set_threads(n);
    }

    /// Sets the host's abort callback.
    pub fn set_abort(&mut self, abort: Abort) {
        self.cpu.set_abort(abort);
    }

    /// The GPU of this stream, while it may be used.
    fn alive(&self) -> Option<&'static Gpu> {
        self.device.gpu().filter(|gpu| self.gpu.is_some() && gpu.alive())
    }

    /// Plans a graph, and says what the GPU does not compute.
    fn plan(&mut self, graph: &Graph) -> Plan {
        let Some(gpu) = self.alive() else { return plan::plan(graph, None) };
        let plan =
            plan::plan(graph, Some(&|node: &Node| ops::supports(node, &gpu.device.caps).map_err(|r| r.to_string())));
        for fallback in &plan.fallbacks {
            if self.fallbacks.insert(fallback.op) {
                log::warn!("{}: {} is computed by the CPU: {}", self.name, fallback.op, fallback.reason);
            }
        }
        plan
    }

    /// Computes a graph.
    pub fn compute(&mut self, host: &HostGraph) -> Outcome {
        let n = self.device.graphs.fetch_add(1, Ordering::Relaxed) + 1;
        match self.device.config.fault {
            Some(Fault::Compute(at)) if at == n => {
                log::error!("{}: graph {n} fails (asked for by TRI_FAULT)", self.name);
                return Outcome::Failed;
            }
            Some(Fault::Panic(at)) if at == n => panic!("graph {n} panics (asked for by TRI_FAULT)"),
            _ => {}
        }
        let uid = host.uid();
        if self.planned.as_ref().is_none_or(|(of, ..)| uid == 0 || of.uid != uid) {
            let graph = host.flatten();
            let plan = self.plan(&graph);
            let kept = self.alive().map_or(Kept::default(), |gpu| Kept::of(&graph, gpu));
            self.planned = Some((graph, plan, kept));
        }
        let Some((graph, plan, mut kept)) = self.planned.take() else { return Outcome::Failed };
        if let Some(gpu) = self.alive() {
            kept.save(gpu);
        }
        let outcome = self.run(n, &plan, &graph, host);
        let outcome = match outcome {
            Outcome::Lost | Outcome::NoMemory if plan.uses(EngineKind::Gpu) => {
                self.again(outcome, &kept, n, &graph, host)
            }
            other => other,
        };
        // After the loss of the GPU the plan is no longer true.
        if self.gpu.is_none() || self.alive().is_some() {
            self.planned = Some((graph, plan, kept));
        }
        outcome
    }

    fn run(&mut self, n: u64, plan: &Plan, graph: &Graph, host: &HostGraph) -> Outcome {
        let mut engines = Engines { cpu: &mut self.cpu, gpu: self.gpu.as_mut().map(|gpu| gpu as &mut dyn Engine) };
        match exec::run(plan, None, graph, host, &mut engines, &mut self.counts) {
            Ok(_) => Outcome::Done,
            Err(error) => {
                // A lost GPU is reported by `again`.
                if !matches!(error.outcome, Outcome::Aborted | Outcome::Lost) {
                    log::error!("{}: graph {n}: {error}", self.name);
                }
                error.outcome
            }
        }
    }

    /// The GPU failed in a graph. Where its memory is the host's, the whole graph is computed again on the CPU from its
    /// kept inputs; else the graph fails, since weights and KV cache are gone with the device.
    fn again(&mut self, how: Outcome, kept: &Kept, n: u64, graph: &Graph, host: &HostGraph) -> Outcome {
        let Some(gpu) = self.device.gpu() else { return Outcome::Failed };
        let unified = gpu.device.caps.memory == MemoryKind::Unified;
        if how == Outcome::Lost && gpu.retire() {
            let then = if unified {
                "the CPU computes this graph again and all later ones"
            } else {
                "load the model again to go on"
            };
            log::error!("{}: the GPU is lost and is not used any more; {then}", self.name);
        }
        if !unified {
            return how;
        }
        kept.restore(gpu);
        if how != Outcome::Lost {
            log::warn!("{}: graph {n} is computed again by the CPU", self.name);
        }
        self.run(n, &plan::plan(graph, None), graph, host)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let Counts { graphs, cpu_nodes, gpu_nodes } = self.counts;
        if graphs == 0 {
            return;
        }
        let gpu = if self.gpu.is_some() { format!("gpu {gpu_nodes}, ") } else { String::new() };
        let nodes = cpu_nodes + gpu_nodes;
        log::info!("{}: computed {nodes} nodes in {graphs} graphs: {gpu}cpu {cpu_nodes}", self.name);
    }
}
