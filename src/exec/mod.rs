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

/// Runs the steps of a plan with one engine per kind and counts what was computed.
///
/// # Errors
/// The first step that did not end with `Done`; the steps after it were not started.
pub fn run(
    plan: &Plan,
    graph: &Graph,
    host: &HostGraph,
    engines: Engines,
    counts: &mut Counts,
) -> Result<(), StepError> {
    let Engines { cpu, mut gpu } = engines;
    run_steps(plan, counts, |step| match (step.engine, &mut gpu) {
        (EngineKind::Cpu, _) => cpu.compute(step, graph, host),
        (EngineKind::Gpu, Some(gpu)) => gpu.compute(step, graph, host),
        (EngineKind::Gpu, None) => Outcome::Failed,
    })
}

fn run_steps(plan: &Plan, counts: &mut Counts, mut compute: impl FnMut(&Step) -> Outcome) -> Result<(), StepError> {
    let (mut cpu, mut gpu) = (0, 0);
    for step in &plan.steps {
        match compute(step) {
            Outcome::Done if step.engine == EngineKind::Cpu => cpu += step.computed,
            Outcome::Done => gpu += step.computed,
            outcome => return Err(StepError { engine: step.engine, outcome }),
        }
    }
    counts.graphs += 1;
    counts.cpu_nodes += cpu;
    counts.gpu_nodes += gpu;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(parts: &[(usize, usize)]) -> Plan {
        let step = |&(first, count)| Step { engine: EngineKind::Cpu, first, count, computed: count as u64 };
        Plan { steps: parts.iter().map(step).collect(), fallbacks: Vec::new() }
    }

    #[test]
    fn steps_run_in_order_and_their_nodes_are_counted() {
        let (mut counts, mut seen) = (Counts::default(), Vec::new());
        run_steps(&plan_of(&[(0, 3), (3, 2)]), &mut counts, |s| {
            seen.push(s.first);
            Outcome::Done
        })
        .unwrap();
        assert_eq!(seen, [0, 3]);
        assert_eq!(counts, Counts { graphs: 1, cpu_nodes: 5, gpu_nodes: 0 });
    }

    #[test]
    fn a_step_that_fails_ends_the_graph_and_counts_nothing() {
        for outcome in [Outcome::Aborted, Outcome::NoMemory, Outcome::Failed] {
            let (mut counts, mut calls) = (Counts::default(), 0);
            let error = run_steps(&plan_of(&[(0, 3), (3, 2)]), &mut counts, |_| {
                calls += 1;
                outcome
            })
            .unwrap_err();
            assert_eq!((error.outcome, calls, counts), (outcome, 1, Counts::default()));
        }
    }
}
