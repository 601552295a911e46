//! The planner over time, against a small truth of its own: engines whose seconds are the chip's figures times a factor.

use super::problem::index;
use super::testing::{chip, model};
use super::timing::{Report, Timing, TrialTiming};
use super::work::Work;
use super::*;
use crate::chip::model::Chip;

/// How much slower each engine is than its figures.
struct World {
    chip: Chip,
    slow: [f64; 3],
    seen: u64,
    tried: f64,
    time: f64,
}

impl World {
    fn new(slow: [f64; 3]) -> World {
        World { chip: chip(), slow, seen: 0, tried: 0.0, time: 0.0 }
    }

    /// Timings that repeat within one per cent.
    fn timings(&mut self, graph: &Graph, waves: &[Wave]) -> (f64, Vec<Timing>) {
        let costs = costs::Costs::new(&self.chip);
        let (mut total, mut timings) = (0.0, Vec::new());
        for wave in waves {
            let mut longest = 0.0_f64;
            for step in wave.steps.iter().filter(|s| s.computed > 0) {
                let nodes = graph.nodes[step.first..step.first + step.count].iter().filter_map(Work::of);
                let parts: Vec<Work> = nodes.map(|w| step.rows.map_or(w, |r| w.with_rows(r.count))).collect();
                self.seen = self.seen.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let noise = 1.0 + 0.01 * ((self.seen >> 33) as f64 / (1_u64 << 30) as f64 - 1.0);
                let busy: f64 = parts.iter().map(|w| costs.seconds(step.engine, w)).sum();
                let crowd = if wave.steps.len() > 1 { 1.5 } else { 1.0 };
                let seconds = noise * (costs.launch(step.engine) + busy * crowd * self.slow[index(step.engine)]);
                longest = longest.max(seconds);
                timings.push(Timing { engine: step.engine, parts, seconds });
            }
            total += longest + if wave.steps.len() > 1 { self.chip.join } else { 0.0 };
        }
        (total, timings)
    }

    fn run(&mut self, planner: &mut Planner, graph: &Graph, idle: bool) -> Decision {
        let decision = planner.next(graph, &|_, _| Ok(()), idle);
        let (seconds, steps) = self.timings(graph, &decision.plan.waves);
        let trial = decision.trial.as_ref().map(|trial| {
            let nodes = trial.first..trial.first + trial.count;
            assert!(nodes.clone().all(|i| !graph.nodes[i].output && graph.nodes[i].op != "SET_ROWS"), "{trial:?}");
            let (candidate, steps) = self.timings(graph, &trial.waves);
            let engine = decision.plan.steps().find(|s| s.first <= trial.first && trial.first < s.first + s.count);
            let count = trial.count;
            let step = Step { engine: engine.unwrap().engine, first: trial.first, count, computed: 1, rows: None };
            let (current, _) = self.timings(graph, &[Wave { steps: vec![step] }]);
            self.tried += candidate;
            TrialTiming { candidate, current, steps, spent: candidate }
        });
        self.time += seconds;
        planner.observe(graph, &Report { seconds, steps, trial });
        decision
    }

    /// Noiseless seconds of a plan.
    fn seconds(&mut self, graph: &Graph, plan: &Plan) -> f64 {
        self.timings(graph, &plan.waves).0
    }

    fn single(&mut self, graph: &Graph, engine: EngineKind) -> f64 {
        let count = graph.nodes.len();
        let step = Step { engine, first: 0, count, computed: graph.computed(), rows: None };
        self.timings(graph, &[Wave { steps: vec![step] }]).0
    }
}

fn graph() -> Graph {
    model(1, 8, 1, 512)
}

#[test]
fn a_chip_that_is_not_as_its_figures_say_is_found_out_and_little_is_spent_on_it() {
    let (mut world, graph, mut planner) =
        (World::new([1.0, 3.0, 1.0]), graph(), Planner::new(chip(), Options::default()));
    let first = world.run(&mut planner, &graph, true).plan;
    assert!(first.uses(EngineKind::Gpu) && !first.uses(EngineKind::Cpu), "the figures say that the GPU is better");
    let mut said = Vec::new();
    for i in 1..400 {
        said.extend(world.run(&mut planner, &graph, i % 16 == 0).notices);
    }
    let last = planner.next(&graph, &|_, _| Ok(()), false).plan;
    let (cpu, gpu) = (world.single(&graph, EngineKind::Cpu), world.single(&graph, EngineKind::Gpu));
    let got = world.seconds(&graph, &last);
    assert!(cpu < 0.6 * gpu && got < 1.03 * cpu, "{got} {cpu} {gpu}: {said:#?}");
    assert!(said.iter().any(|s| s.contains("are planned anew") && s.contains('%')), "{said:#?}");
    assert!(world.tried < 0.05 * world.time, "{} of {}", world.tried, world.time);
}

#[test]
fn where_the_figures_are_right_nothing_becomes_slower_and_trials_end() {
    let (mut world, graph, mut planner) = (World::new([1.0; 3]), graph(), Planner::new(chip(), Options::default()));
    let first = world.run(&mut planner, &graph, true).plan;
    for _ in 0..600 {
        world.run(&mut planner, &graph, true);
    }
    let last = planner.next(&graph, &|_, _| Ok(()), false).plan;
    let (before, after) = (world.seconds(&graph, &first), world.seconds(&graph, &last));
    assert!(after < 1.02 * before, "{after} {before}");
    for _ in 0..50 {
        let decision = world.run(&mut planner, &graph, true);
        assert!(decision.trial.is_none() && decision.plan == last, "{decision:?}");
    }
}

#[test]
fn a_plan_changes_only_when_idle_and_never_when_frozen_or_off() {
    let graph = graph();
    for (mode, idle) in [(Mode::Adaptive, false), (Mode::Frozen, true), (Mode::Off, true)] {
        let mut world = World::new([1.0, 4.0, 1.0]);
        let mut planner = Planner::new(chip(), Options { mode, ..Options::default() });
        let first = world.run(&mut planner, &graph, true).plan;
        for _ in 0..200 {
            let decision = world.run(&mut planner, &graph, idle);
            assert_eq!(decision.plan, first, "{mode:?}");
            assert!(mode == Mode::Adaptive || decision.trial.is_none(), "{mode:?}");
        }
    }
}

#[test]
fn an_engine_that_becomes_slow_is_left_and_its_recovery_is_noticed() {
    let (mut world, graph, mut planner) = (World::new([1.0; 3]), graph(), Planner::new(chip(), Options::default()));
    for i in 0..200 {
        world.run(&mut planner, &graph, i % 8 == 0);
    }
    let mut change = |slow| {
        world.slow[1] = slow;
        let mut said = Vec::new();
        for i in 0..128 {
            said.extend(world.run(&mut planner, &graph, i % 8 == 0).notices);
        }
        let plan = planner.next(&graph, &|_, _| Ok(()), false).plan;
        (said, world.seconds(&graph, &plan), world.single(&graph, EngineKind::Cpu))
    };
    let (said, got, cpu) = change(4.0);
    assert!(said.iter().any(|s| s.starts_with("the gpu takes") && s.contains("longer")), "{said:?}");
    assert!(got < 1.05 * cpu, "{got} {cpu} {said:#?}");
    let (said, ..) = change(1.0);
    assert!(said.iter().any(|s| s.starts_with("the gpu takes") && s.contains("shorter")), "{said:?}");
}

#[test]
fn what_was_learned_plans_the_next_process_at_once() {
    let (mut world, graph, mut planner) =
        (World::new([1.0, 3.0, 1.0]), graph(), Planner::new(chip(), Options::default()));
    for _ in 0..400 {
        world.run(&mut planner, &graph, true);
    }
    let learned = planner.next(&graph, &|_, _| Ok(()), false).plan;
    for mode in [Mode::Adaptive, Mode::Frozen] {
        let mut next = Planner::new(chip(), Options { mode, ..Options::default() });
        next.costs_mut().restore(&planner.costs().entries());
        let plan = next.next(&graph, &|_, _| Ok(()), true).plan;
        let (then, now) = (world.seconds(&graph, &learned), world.seconds(&graph, &plan));
        assert!(now < 1.05 * then, "{now} {then}");
    }
}

#[test]
fn an_engine_that_is_gone_is_not_planned_on() {
    let (graph, mut planner) = (graph(), Planner::new(chip(), Options::default()));
    assert!(planner.next(&graph, &|_, _| Ok(()), true).plan.uses(EngineKind::Gpu));
    planner.lost(EngineKind::Gpu);
    assert!(!planner.next(&graph, &|_, _| Ok(()), false).plan.uses(EngineKind::Gpu));
}

#[test]
fn energy_prefers_the_engine_that_takes_fewer_joules() {
    let mut chip = chip();
    chip.idle = 0.0;
    chip.processors[1].watts = 300.0;
    let graph = graph();
    let plan = |objective| {
        let options = Options { objective, ..Options::default() };
        Planner::new(chip.clone(), options).next(&graph, &|_, _| Ok(()), true).plan
    };
    assert!(plan(Objective::Speed).uses(EngineKind::Gpu));
    assert!(!plan(Objective::Energy).uses(EngineKind::Gpu));
}
