//! DOES the plan: hands each step to its engine, in order. It never chooses.

use crate::engine::{Engine, EngineKind, Outcome};
use crate::ggml::HostGraph;
use crate::graph::Graph;
use crate::plan::{Plan, Step};

/// How often what was computed where; shown when a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Graphs that were computed to the end.
    pub graphs: u64,
    /// Nodes that the CPU computed in them.
    pub cpu_nodes: u64,
    /// Nodes that the GPU computed in them.
    pub gpu_nodes: u64,
}

/// A step that did not succeed: whose, and how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the {} engine ended a step with {outcome:?}", engine.name())]
pub struct StepError {
    /// Whose step.
    pub engine: EngineKind,
    /// How it ended; never `Done`.
    pub outcome: Outcome,
}

/// The engines of one stream.
pub struct Engines<'a> {
    /// The CPU engine; always there.
    pub cpu: &'a mut dyn Engine,
    /// The GPU engine, if there is one.
    pub gpu: Option<&'a mut dyn Engine>,
}

/// Runs the waves of a plan with one engine per kind and counts what was computed.
///
/// # Errors
/// The first step that did not end with `Done`; the waves after it were not started.
pub fn run(
    plan: &Plan,
    graph: &Graph,
    host: &HostGraph,
    engines: Engines,
    counts: &mut Counts,
) -> Result<(), StepError> {
    let Engines { cpu, mut gpu } = engines;
    run_waves(plan, counts, |engine, step| {
        let engine = match (engine, &mut gpu) {
            (EngineKind::Cpu, _) => &mut *cpu,
            (EngineKind::Gpu, Some(gpu)) => &mut **gpu,
            _ => return Outcome::Failed,
        };
        match step {
            Some(step) => engine.begin(step, graph, host),
            None => engine.finish(),
        }
    })
}

/// `call` begins a step of an engine, or, without one, waits for the end of what it began.
fn run_waves(
    plan: &Plan,
    counts: &mut Counts,
    mut call: impl FnMut(EngineKind, Option<&Step>) -> Outcome,
) -> Result<(), StepError> {
    let mut done = Counts { graphs: 1, ..Counts::default() };
    for wave in &plan.waves {
        // The CPU engine computes as soon as it is told, so the others must be under way by then.
        let mut steps: Vec<&Step> = wave.steps.iter().collect();
        steps.sort_by_key(|s| s.engine == EngineKind::Cpu);
        let mut error = None;
        let mut begun = Vec::with_capacity(steps.len());
        for step in steps {
            match call(step.engine, Some(step)) {
                Outcome::Done => begun.push(step),
                outcome => {
                    error = Some(StepError { engine: step.engine, outcome });
                    break;
                }
            }
        }
        // What was begun is waited for in any case: it writes into the graph's memory.
        for step in begun {
            match call(step.engine, None) {
                Outcome::Done if step.engine == EngineKind::Cpu => done.cpu_nodes += step.computed,
                Outcome::Done => done.gpu_nodes += step.computed,
                outcome => error = error.or(Some(StepError { engine: step.engine, outcome })),
            }
        }
        if let Some(error) = error {
            return Err(error);
        }
    }
    counts.graphs += done.graphs;
    counts.cpu_nodes += done.cpu_nodes;
    counts.gpu_nodes += done.gpu_nodes;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Wave;

    fn step(engine: EngineKind, first: usize, count: usize) -> Step {
        Step { engine, first, count, computed: count as u64, rows: None }
    }

    /// Two nodes on the CPU, then one that both compute a part of, then two on the GPU.
    fn plan() -> Plan {
        let (cpu, gpu) = (EngineKind::Cpu, EngineKind::Gpu);
        let waves = [vec![step(cpu, 0, 2)], vec![step(cpu, 2, 1), step(gpu, 2, 1)], vec![step(gpu, 3, 2)]];
        Plan { waves: waves.map(|steps| Wave { steps }).into(), fallbacks: Vec::new() }
    }

    #[test]
    fn waves_run_in_order_and_the_cpu_begins_last() {
        let (mut counts, mut seen) = (Counts::default(), Vec::new());
        run_waves(&plan(), &mut counts, |engine, step| {
            seen.push((engine.name(), step.map(|s| s.first)));
            Outcome::Done
        })
        .unwrap();
        let wanted = [
            ("cpu", Some(0)),
            ("cpu", None),
            ("gpu", Some(2)),
            ("cpu", Some(2)),
            ("gpu", None),
            ("cpu", None),
            ("gpu", Some(3)),
            ("gpu", None),
        ];
        assert_eq!(seen, wanted);
        assert_eq!(counts, Counts { graphs: 1, cpu_nodes: 3, gpu_nodes: 3 });
    }

    #[test]
    fn a_step_that_fails_ends_the_graph_and_counts_nothing() {
        for outcome in [Outcome::Aborted, Outcome::NoMemory, Outcome::Failed, Outcome::Lost] {
            // The call that fails, and whose step that is.
            for (at, engine) in [(2, EngineKind::Gpu), (3, EngineKind::Cpu), (4, EngineKind::Gpu), (5, EngineKind::Cpu)]
            {
                let (mut counts, mut calls, mut under_way) = (Counts::default(), 0, 0);
                let error = run_waves(&plan(), &mut counts, |_, step| {
                    calls += 1;
                    let result = if calls == at + 1 { outcome } else { Outcome::Done };
                    under_way += match step {
                        Some(_) => i32::from(result == Outcome::Done),
                        None => -1,
                    };
                    result
                })
                .unwrap_err();
                assert_eq!((error.outcome, error.engine, counts), (outcome, engine, Counts::default()), "call {at}");
                assert_eq!(under_way, 0, "call {at}: what was begun was waited for");
            }
        }
    }
}
