//! From measurements to costs.

use super::assign::Share;
use super::costs::{Costs, counted};
use super::drift::Drift;
use super::explore::{Probe, Subject, TRIALS};
use super::learn::{Known, Planner};
use super::options::Mode;
use super::problem::{ENGINES, Site, index};
use super::split::works;
use super::timing::{Report, Timing, TrialTiming};
use super::{Step, notice};
use crate::engine::EngineKind;
use crate::graph::Graph;

/// Once exploration is over, one graph of so many is looked at.
const SAMPLED: u32 = 4;

/// What has timings of its own: an engine's part of a group's plan, or a trial of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Thing {
    group: usize,
    /// The generation of the plan; of a trial only what it is about.
    of: Result<u64, Site>,
    engine: EngineKind,
}

impl Planner {
    /// Learns from what was measured with the last decision for this graph.
    pub fn observe(&mut self, graph: &Graph, report: &Report) {
        if self.options.mode != Mode::Adaptive || !(report.seconds.is_finite() && report.seconds > 0.0) {
            return;
        }
        for step in &report.steps {
            self.rest.worked(index(step.engine), step.seconds);
        }
        let Some(known) = self.known.get(&graph.uid).filter(|_| graph.uid != 0) else { return };
        let (at, group) = (known.group, &mut self.groups[known.group]);
        group.explore.earn(report.seconds);
        group.measured(&known.problem, report.seconds);
        let looked_at = group.explore.open() || group.on_probation() || group.news % SAMPLED == 0;
        let mut jumps = Vec::new();
        if (looked_at || self.watcher.suspicious()) && report.steps.len() == known.works.iter().flatten().count() {
            for (engine, error) in learn_plan(&mut self.costs, known, &report.steps) {
                let thing = Thing { group: at, of: Ok(group.generation), engine };
                jumps.extend(self.watcher.see(thing, error).map(|jump| (engine, jump)));
            }
        }
        if let Some((_, first, probe)) = group.explore.pending.take_if(|pending| pending.0 == graph.uid) {
            // A trial that did not succeed counts too, or it would be made for ever.
            group.explore.done(&probe);
            if let Some(trial) = &report.trial {
                group.explore.spend(trial.spent);
                group.news += if group.explore.knows(probe.subject, &probe.share) { TRIALS * 2 } else { 0 };
                let holds =
                    |step: &&Step| step.rows.is_none() && (step.first..step.first + step.count).contains(&first);
                let now = known.plan.steps().find(holds).map(|step| step.engine);
                let learned = learn_trial(&mut self.costs, &probe, trial, now);
                if let (Some((engine, error)), Subject::Site(site)) = (learned, probe.subject) {
                    let thing = Thing { group: at, of: Err(site), engine };
                    jumps.extend(self.watcher.see(thing, error).map(|jump| (engine, jump)));
                }
            }
        }
        for (engine, jump) in jumps {
            self.upset(engine, jump.exp());
        }
    }

    /// An engine has changed: says so, and lets everything that depended on its speed be found out again.
    fn upset(&mut self, engine: EngineKind, ratio: f64) {
        let factors = self.costs.forget(engine);
        self.notices.push(notice::drift(&Drift { engine, ratio, factors }));
        self.watcher.clear();
        for group in &mut self.groups {
            group.upset(engine, ratio > 1.0);
        }
    }
}

/// Learns from the steps of a plan. Gives for each engine the logarithm of measured over predicted seconds of all that it did
/// alone.
fn learn_plan(costs: &mut Costs, known: &Known, timings: &[Timing]) -> Vec<(EngineKind, f64)> {
    let (mut at, mut sums) = (0, [(0.0, 0.0); 3]);
    let mut before: &[Step] = &[];
    for (wave, parts) in known.plan.waves.iter().zip(&known.works) {
        let timings = &timings[at..at + parts.len()];
        at += parts.len();
        let previous = std::mem::replace(&mut before, &wave.steps);
        if wave.steps.len() > 1 {
            let works: Vec<_> =
                wave.steps.iter().zip(parts).filter_map(|(s, p)| Some((s.engine, p.first()?.0))).collect();
            let seconds: Vec<f64> = timings.iter().map(|t| t.seconds).collect();
            costs.observe_beside(&works, &seconds);
        } else if let ([step], [part], [timing]) = (&wave.steps[..], &parts[..], timings)
            && let Some(error) = costs.observe_parts(step.engine, part, timing.seconds, worked(previous, step.engine))
        {
            let sum = &mut sums[index(step.engine)];
            *sum = (sum.0 + timing.seconds, sum.1 + timing.seconds * (-error).exp());
        }
    }
    ENGINES.into_iter().zip(sums).filter(|(_, s)| s.1 > 0.0).map(|(e, s)| (e, (s.0 / s.1).ln())).collect()
}

/// Learns from a trial, and from the plan's own way, which was measured with it and is one step of the engine `now`. Gives the candidate's error if it is one step.
fn learn_trial(
    costs: &mut Costs,
    probe: &Probe,
    trial: &TrialTiming,
    now: Option<EngineKind>,
) -> Option<(EngineKind, f64)> {
    let first = trial.steps.first()?;
    match &probe.share {
        Share::Whole(engine) => {
            if let Some(engine) = now {
                costs.observe(&Timing { engine, parts: first.parts.clone(), seconds: trial.current });
            }
            Some((*engine, costs.observe(first)?))
        }
        Share::Split(parts) => {
            let rows: u64 = parts.iter().map(|p| p.1).sum();
            let works = works(&first.parts.first()?.with_rows(rows), parts);
            let seconds: Vec<f64> = trial.steps.iter().map(|t| t.seconds).collect();
            costs.observe_beside(&works, &seconds);
            if let Some(step) = trial.steps.get(parts.len()) {
                let warm = parts.iter().any(|p| p.0 == step.engine);
                costs.observe_parts(step.engine, &counted(&step.parts), step.seconds, warm);
            }
            None
        }
    }
}

/// Whether an engine was at work in the steps of a wave.
fn worked(steps: &[Step], engine: EngineKind) -> bool {
    steps.iter().any(|s| s.engine == engine && s.computed > 0)
}
