//! From measurements to costs.

use super::assign::Share;
use super::costs::{Costs, Drift};
use super::explore::{Probe, TRIALS};
use super::learn::Planner;
use super::options::Mode;
use super::problem::index;
use super::split::bounds;
use super::timing::{Report, Timing, TrialTiming};
use super::work::Work;
use super::{Step, Wave, notice};
use crate::engine::EngineKind;
use crate::graph::Graph;
use std::sync::Arc;

/// Once exploration is over, one graph of so many is looked at.
const SAMPLED: u32 = 4;

impl Planner {
    /// Learns from what was measured with the last decision for this graph.
    pub fn observe(&mut self, graph: &Graph, report: &Report) {
        if self.options.mode != Mode::Adaptive || !(report.seconds.is_finite() && report.seconds > 0.0) {
            return;
        }
        for step in &report.steps {
            self.rest.worked(index(step.engine), step.seconds);
        }
        let Some(known) = self.known.get(&graph.uid).filter(|_| graph.uid != 0) else {
            let drifts: Vec<Drift> = report.steps.iter().filter_map(|step| self.costs.observe(step)).collect();
            self.upset(&drifts);
            return;
        };
        let group = &mut self.groups[known.group];
        group.explore.earn(report.seconds);
        group.measured(&known.problem, report.seconds);
        let mut drifts = Vec::new();
        let looked_at = group.explore.open() || group.on_probation() || group.news % SAMPLED == 0;
        let fits = report.steps.len() == known.works.len();
        if looked_at && fits {
            let mut at = 0;
            for wave in &known.plan.waves {
                let (steps, works) = (&report.steps[at..], &known.works[at..]);
                drifts.extend(learn_wave(&mut self.costs, wave, steps, works));
                at += wave.steps.len();
            }
        }
        if let Some((_, probe)) = group.explore.pending.take_if(|(uid, _)| *uid == graph.uid) {
            // A trial that did not succeed counts too, or it would be made for ever.
            group.explore.done(&probe);
            if let Some(trial) = &report.trial {
                group.explore.spend(trial.candidate + 2.0 * self.costs.launch(group.assignment.home));
                group.news += if group.explore.knows(probe.subject, &probe.share) { TRIALS * 2 } else { 0 };
                drifts.extend(learn_trial(&mut self.costs, &probe, trial, group.assignment.home));
            }
        }
        self.upset(&drifts);
    }

    /// Engines have changed: says so, and lets everything that depended on their speed be found out again.
    fn upset(&mut self, drifts: &[Drift]) {
        for drift in drifts {
            self.notices.push(notice::drift(drift));
            for group in &mut self.groups {
                group.upset(drift.engine, drift.ratio > 1.0);
            }
        }
    }
}

/// Learns from the steps of a wave.
fn learn_wave(costs: &mut Costs, wave: &Wave, timings: &[Timing], works: &[Vec<(Work, u32)>]) -> Vec<Drift> {
    if let [step] = &wave.steps[..] {
        return costs.observe_parts(step.engine, &works[0], timings[0].seconds).into_iter().collect();
    }
    let parts: Vec<(EngineKind, u64)> =
        wave.steps.iter().filter_map(|s: &Step| Some((s.engine, s.rows?.count))).collect();
    let work = works.iter().find_map(|w| w.first()).map(|w| w.0);
    let Some(work) = work.filter(|_| parts.len() == wave.steps.len()) else { return Vec::new() };
    side_by_side(costs, &work, &parts, timings)
}

/// Learns from engines that ran side by side: about the shared memory if that was the limit, else about each by itself.
fn side_by_side(costs: &mut Costs, work: &Work, parts: &[(EngineKind, u64)], timings: &[Timing]) -> Vec<Drift> {
    let (alone, bus) = bounds(costs, work, parts);
    let measured = timings.iter().take(parts.len()).map(|t| t.seconds).fold(0.0, f64::max);
    if bus > alone {
        costs.observe_bus(bus, measured);
        return Vec::new();
    }
    let mut drifts = Vec::new();
    for ((engine, rows), timing) in parts.iter().zip(timings) {
        drifts.extend(costs.observe_parts(*engine, &[(work.with_rows(*rows), 1)], timing.seconds));
    }
    drifts
}

/// Learns from a trial, and from the plan's own way, which was measured with it.
fn learn_trial(costs: &mut Costs, probe: &Probe, trial: &TrialTiming, home: EngineKind) -> Vec<Drift> {
    let mut drifts = Vec::new();
    let whole = |step: &Timing| Arc::<[Work]>::from(&step.parts[..]);
    match &probe.share {
        Share::Whole(_) => {
            for step in &trial.steps {
                drifts.extend(costs.observe(step));
            }
            // The same nodes as the plan has them, if that is one step of the home engine.
            if let [step] = &trial.steps[..]
                && probe.share != Share::Whole(home)
            {
                let parts = whole(step).to_vec();
                drifts.extend(costs.observe(&Timing { engine: home, parts, seconds: trial.current }));
            }
        }
        Share::Split(parts) => {
            let work = trial.steps.first().and_then(|step| step.parts.first());
            let all: u64 = parts.iter().map(|p| p.1).sum();
            if let Some(work) = work {
                drifts.extend(side_by_side(costs, &work.with_rows(all), parts, &trial.steps));
            }
        }
    }
    drifts
}
