//! DOES the plan: hands each step to its engine, wave by wave, and tells how long it took. It never chooses.

mod trial;

pub use trial::Attempt;

use crate::engine::{Engine, EngineKind, Outcome};
use crate::ggml::HostGraph;
use crate::graph::Graph;
use crate::plan::timing::{Report, Timing, TrialTiming};
use crate::plan::work::Work;
use crate::plan::{Plan, Step, Wave};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

/// How often what was computed where; shown when a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Graphs that were computed to the end.
    pub graphs: u64,
    /// Nodes that the CPU computed in them; a divided one counts for everyone who has a part of it.
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
    /// Whether somebody learns from what steps consist of; if not, they are not looked at.
    pub watched: bool,
    /// The CPU engine; always there.
    pub cpu: &'a mut dyn Engine,
    /// The GPU engine, if there is one.
    pub gpu: Option<&'a mut dyn Engine>,
}

impl Engines<'_> {
    /// The engine of a kind.
    fn of(&mut self, kind: EngineKind) -> Option<&mut dyn Engine> {
        match (kind, &mut self.gpu) {
            (EngineKind::Cpu, _) => Some(&mut *self.cpu),
            (EngineKind::Gpu, Some(gpu)) => Some(&mut **gpu),
            _ => None,
        }
    }
}

/// Runs the waves of a plan and counts what was computed. With a trial, the plan is cut before and after its nodes, and the
/// trial runs just before or after the plan's own way, when everything that they read is in its place.
///
/// # Errors
/// The first step that did not end with `Done`; the waves after it were not started.
pub fn run(
    plan: &Plan,
    trial: Option<&Attempt>,
    graph: &Graph,
    host: &HostGraph,
    engines: &mut Engines,
    counts: &mut Counts,
) -> Result<Report, StepError> {
    let begin = Instant::now();
    let call = |waves: &[Wave], engines: &mut Engines| {
        run_waves(waves, engines.watched.then_some(graph), &mut |kind, step| {
            let Some(engine) = engines.of(kind) else { return Outcome::Failed };
            match step {
                Some(step) => engine.begin(step, graph, host),
                None => engine.finish(),
            }
        })
    };
    let mut report = Report::default();
    let mut spent = 0.0;
    match trial {
        None => report.steps = call(&plan.waves, engines)?,
        Some(attempt) => {
            let (first, end) = (attempt.trial.first, attempt.trial.first + attempt.trial.count);
            report.steps = call(&plan.part(graph, 0..first), engines)?;
            let mut other = if attempt.before { trial::candidate(attempt, host, engines)? } else { None };
            let here = Instant::now();
            report.steps.extend(call(&plan.part(graph, first..end), engines)?);
            let current = here.elapsed().as_secs_f64();
            if !attempt.before {
                other = trial::candidate(attempt, host, engines)?;
            }
            report.steps.extend(call(&plan.part(graph, end..graph.nodes.len()), engines)?);
            spent = other.as_ref().map_or(0.0, |o| o.spent);
            report.trial = other.map(|o| TrialTiming { candidate: o.seconds, current, steps: o.steps, spent: o.spent });
        }
    }
    counts.graphs += 1;
    for step in plan.steps() {
        match step.engine {
            EngineKind::Cpu => counts.cpu_nodes += step.computed,
            EngineKind::Gpu | EngineKind::Npu => counts.gpu_nodes += step.computed,
        }
    }
    report.seconds = begin.elapsed().as_secs_f64() - spent;
    Ok(report)
}

/// `call` begins a step of an engine, or, without one, waits for the end of what the engine began. Without a graph the
/// timings have no parts.
fn run_waves(
    waves: &[Wave],
    graph: Option<&Graph>,
    call: &mut dyn FnMut(EngineKind, Option<&Step>) -> Outcome,
) -> Result<Vec<Timing>, StepError> {
    let mut timings = Vec::new();
    for wave in waves {
        // The CPU engine computes as soon as it is told, so the others must be under way by then.
        let mut steps: Vec<&Step> = wave.steps.iter().filter(|s| s.computed > 0).collect();
        steps.sort_by_key(|s| s.engine == EngineKind::Cpu);
        let mut error = None;
        let mut begun: Vec<(&Step, Instant)> = Vec::with_capacity(steps.len());
        for step in steps {
            let begin = Instant::now();
            let outcome = match catch_unwind(AssertUnwindSafe(|| call(step.engine, Some(step)))) {
                Ok(outcome) => outcome,
                // Whoever catches it may give memory up that the others still write into.
                Err(panic) => {
                    for (other, _) in &begun {
                        call(other.engine, None);
                    }
                    resume_unwind(panic)
                }
            };
            match outcome {
                Outcome::Done => begun.push((step, begin)),
                outcome => {
                    error = Some(StepError { engine: step.engine, outcome });
                    break;
                }
            }
        }
        // What was begun is waited for in any case, since it writes into the graph's memory; the CPU first, which is done.
        for (step, begin) in begun.into_iter().rev() {
            match call(step.engine, None) {
                Outcome::Done => timings.push(Timing {
                    engine: step.engine,
                    parts: graph.map_or_else(Vec::new, |graph| parts(step, graph)),
                    seconds: begin.elapsed().as_secs_f64(),
                }),
                outcome => error = error.or(Some(StepError { engine: step.engine, outcome })),
            }
        }
        if let Some(error) = error {
            return Err(error);
        }
    }
    Ok(timings)
}

/// What a step consists of.
fn parts(step: &Step, graph: &Graph) -> Vec<Work> {
    let nodes = graph.nodes.get(step.first..step.first + step.count).unwrap_or_default();
    let works = nodes.iter().filter_map(Work::of);
    works.map(|w| step.rows.map_or(w, |rows| w.with_rows(rows.count))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(engine: EngineKind, first: usize, count: usize) -> Step {
        Step { engine, first, count, computed: count as u64, rows: None }
    }

    /// Two nodes on the CPU, then one that both compute a part of, then two on the GPU.
    fn waves() -> Vec<Wave> {
        let (cpu, gpu) = (EngineKind::Cpu, EngineKind::Gpu);
        let waves = [vec![step(cpu, 0, 2)], vec![step(cpu, 2, 1), step(gpu, 2, 1)], vec![step(gpu, 3, 2)]];
        waves.map(|steps| Wave { steps }).into()
    }

    #[test]
    fn waves_run_in_order_and_the_cpu_begins_last() {
        let mut seen = Vec::new();
        let timings = run_waves(&waves(), None, &mut |engine, step| {
            seen.push((engine.name(), step.map(|s| s.first)));
            Outcome::Done
        });
        let wanted = [
            ("cpu", Some(0)),
            ("cpu", None),
            ("gpu", Some(2)),
            ("cpu", Some(2)),
            ("cpu", None),
            ("gpu", None),
            ("gpu", Some(3)),
            ("gpu", None),
        ];
        assert_eq!(seen, wanted);
        let engines: Vec<_> = timings.unwrap().iter().map(|t| t.engine.name()).collect();
        assert_eq!(engines, ["cpu", "cpu", "gpu", "gpu"]);
    }

    #[test]
    fn a_panic_goes_on_when_all_that_was_begun_is_done() {
        let mut seen = Vec::new();
        let result = catch_unwind(AssertUnwindSafe(|| {
            run_waves(&waves(), None, &mut |engine, step| {
                seen.push((engine.name(), step.map(|s| s.first)));
                assert!(engine != EngineKind::Cpu || step.is_none_or(|s| s.first != 2), "a test's panic");
                Outcome::Done
            })
        }));
        assert!(result.is_err());
        assert_eq!(seen[2..], [("gpu", Some(2)), ("cpu", Some(2)), ("gpu", None)]);
    }

    #[test]
    fn a_step_without_work_is_not_begun() {
        let views = Wave { steps: vec![Step { computed: 0, ..step(EngineKind::Gpu, 0, 1) }] };
        let timings = run_waves(&[views], None, &mut |_, _| unreachable!("there is nothing to do"));
        assert_eq!(timings, Ok(Vec::new()));
    }

    #[test]
    fn a_step_that_fails_ends_the_graph_when_all_that_was_begun_is_done() {
        for outcome in [Outcome::Aborted, Outcome::NoMemory, Outcome::Failed, Outcome::Lost] {
            // The call that fails, and whose step that is.
            for (at, engine) in [(2, EngineKind::Gpu), (3, EngineKind::Cpu), (4, EngineKind::Cpu), (5, EngineKind::Gpu)]
            {
                let (mut calls, mut under_way) = (0, 0);
                let error = run_waves(&waves(), None, &mut |_, step| {
                    calls += 1;
                    let result = if calls == at + 1 { outcome } else { Outcome::Done };
                    under_way += match step {
                        Some(_) => i32::from(result == Outcome::Done),
                        None => -1,
                    };
                    result
                })
                .unwrap_err();
                assert_eq!((error.outcome, error.engine), (outcome, engine), "call {at}");
                assert_eq!(under_way, 0, "call {at}");
            }
        }
    }
}
