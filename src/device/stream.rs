//! One stream of graphs: plans each new graph, keeps the plan while the graph is repeated, and runs it.

use super::kept::Kept;
use super::planning::{Begin, Planning, Trials};
use super::{Device, Facts};
use crate::config::{Fault, Layout};
use crate::engine::cpu::Cpu;
use crate::engine::slow::Slow;
use crate::engine::vulkan::caps::MemoryKind;
use crate::engine::vulkan::{Gpu, Vulkan, ops};
use crate::engine::{Engine, EngineKind, Outcome};
use crate::exec::{self, Attempt, Counts, Engines};
use crate::ggml::{Abort, CpuBackend, HostGraph};
use crate::graph::{Graph, Node};
use crate::plan::{self, Plan, Trial};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A graph and what follows from it alone.
struct Planned {
    graph: Graph,
    /// Its plan, where there is nothing to choose: one engine, and what it cannot do.
    plan: Option<Arc<Plan>>,
    /// What must be kept to run it again.
    kept: Kept,
    begin: Begin,
}

/// A stream: what ggml calls a backend.
pub struct Stream {
    device: &'static Device,
    name: &'static str,
    cpu: Cpu,
    gpu: Option<Vulkan>,
    /// The last graph, and what follows from it alone.
    planned: Option<Planned>,
    trials: Trials,
    /// Tokens of the graph before.
    width: i64,
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
        let trials = Trials::default();
        let mut stream = Stream { device, name, cpu, gpu, planned: None, trials, width: 0, counts, fallbacks };
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

    /// The planner, where this stream has a choice: TRI0 with a GPU.
    fn planning(&self) -> Option<(&'static Planning, &'static Gpu)> {
        let planning = self.device.planning.as_ref().filter(|_| self.name == "TRI0")?;
        Some((planning, self.alive()?))
    }

    /// A graph that was not the last one.
    fn meet(&self, host: &HostGraph) -> Planned {
        let graph = host.flatten();
        let plan = match self.alive() {
            None => Some(Arc::new(plan::plan(&graph, None))),
            Some(gpu) if self.planning().is_none() => {
                let accepts = |node: &Node| ops::supports(node, &gpu.device.caps).map_err(|r| r.to_string());
                Some(Arc::new(plan::plan(&graph, Some(&accepts))))
            }
            Some(_) => None,
        };
        let kept = self.alive().map_or(Kept::default(), |gpu| Kept::of(&graph, gpu));
        let begin = Begin::of(&graph);
        Planned { graph, plan, kept, begin }
    }

    /// Who computes the graph, what is tried beside it, and what there is to say of it.
    fn decide(&mut self, planned: &Planned) -> (Arc<Plan>, Option<Trial>) {
        let (plan, trial) = match (&planned.plan, self.planning()) {
            (None, Some((planning, gpu))) => {
                let decision = planning.next(&planned.graph, gpu, planned.begin.idle(gpu, self.width));
                for notice in &decision.notices {
                    log::warn!("{}: {notice}", self.name);
                }
                (decision.plan, decision.trial)
            }
            (Some(plan), _) => (Arc::clone(plan), None),
            // The GPU was lost since.
            (None, None) => (Arc::new(plan::plan(&planned.graph, None)), None),
        };
        // A part of a split graph may have no ROPE.
        if planned.begin.width() > 0 {
            self.width = planned.begin.width();
        }
        for fallback in &plan.fallbacks {
            if self.fallbacks.insert(fallback.op) {
                log::warn!("{}: {} is computed by the CPU: {}", self.name, fallback.op, fallback.reason);
            }
        }
        (plan, trial)
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
        let last = self.planned.take().filter(|p| uid != 0 && p.graph.uid == uid);
        let mut planned = last.unwrap_or_else(|| self.meet(host));
        let (plan, trial) = self.decide(&planned);
        if let Some(gpu) = self.alive() {
            planned.kept.save(gpu);
        }
        let outcome = self.run(n, &plan, trial.as_ref(), &planned.graph, host);
        let outcome = match outcome {
            Outcome::Lost | Outcome::NoMemory if plan.uses(EngineKind::Gpu) || trial.is_some() => {
                self.again(outcome, &planned.kept, n, &planned.graph, host)
            }
            other => other,
        };
        // After the loss of the GPU the plan is no longer true.
        if self.gpu.is_none() || self.alive().is_some() {
            self.planned = Some(planned);
        }
        outcome
    }

    fn run(&mut self, n: u64, plan: &Plan, trial: Option<&Trial>, graph: &Graph, host: &HostGraph) -> Outcome {
        self.run_watched(n, plan, trial, graph, host, true)
    }

    /// `learn`: whether the plan is the planner's own.
    fn run_watched(
        &mut self,
        n: u64,
        plan: &Plan,
        trial: Option<&Trial>,
        graph: &Graph,
        host: &HostGraph,
        learn: bool,
    ) -> Outcome {
        let planning = self.planning().filter(|_| learn);
        let ready = trial.and_then(|t| self.trials.prepare(graph, t, planning?.1).map(|ready| (t, ready)));
        let attempt =
            ready.as_ref().map(|(trial, (shadow, before, new))| Attempt { trial, shadow, before: *before, new: *new });
        let slow = match self.device.config.fault {
            Some(Fault::Slow(slow)) if (slow.graphs.0..=slow.graphs.1).contains(&n) => Some(slow),
            _ => None,
        };
        let factor = |kind| slow.filter(|s| s.engine == kind).map_or(1, |s| s.factor);
        let mut cpu = Slow::new(&mut self.cpu, factor(EngineKind::Cpu));
        let mut gpu = self.gpu.as_mut().map(|gpu| Slow::new(gpu, factor(EngineKind::Gpu)));
        let watched = planning.is_some_and(|(planning, _)| planning.learns());
        let mut engines = Engines { watched, cpu: &mut cpu, gpu: gpu.as_mut().map(|gpu| gpu as &mut dyn Engine) };
        match exec::run(plan, attempt.as_ref(), graph, host, &mut engines, &mut self.counts) {
            Ok(report) => {
                if let Some((planning, _)) = planning.filter(|_| watched) {
                    planning.observe(graph, &report);
                }
                Outcome::Done
            }
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
            if let Some(planning) = &self.device.planning {
                planning.lost();
            }
            log::error!("{}: the GPU is lost and is not used any more; {then}", self.name);
        }
        if !unified {
            return how;
        }
        kept.restore(gpu);
        if how != Outcome::Lost {
            log::warn!("{}: graph {n} is computed again by the CPU", self.name);
        }
        self.run_watched(n, &plan::plan(graph, None), None, graph, host, false)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(gpu) = self.device.gpu() {
            self.trials.free(gpu);
        }
        let Counts { graphs, cpu_nodes, gpu_nodes } = self.counts;
        if graphs == 0 {
            return;
        }
        if let Some((planning, _)) = self.planning() {
            planning.save();
        }
        let gpu = if self.gpu.is_some() { format!("gpu {gpu_nodes}, ") } else { String::new() };
        let nodes = cpu_nodes + gpu_nodes;
        log::info!("{}: computed {nodes} nodes in {graphs} graphs: {gpu}cpu {cpu_nodes}", self.name);
    }
}
