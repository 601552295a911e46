//! The planner on simulated chips, against the best static plan of each.

use ggml_tri::engine::EngineKind;
use ggml_tri::graph::Graph;
use ggml_tri::graph::shapes::Model;
use ggml_tri::plan::{Decision, Objective, Options, Plan, Planner};
use ggml_tri::sim::best::Measure;
use ggml_tri::sim::{Cost, Event, Truth};
use std::sync::Arc;

/// Graphs in which the planner learns; for decoding, tokens.
pub const LEARNING: usize = 512;
/// Graphs that are watched after a change, and graphs in which it must have been answered.
const WATCHED: usize = 192;
pub const ANSWER: usize = 64;
/// A sequence ends after so many graphs, so that plans may change: an answer of 16 tokens.
const SEQUENCE: usize = 16;
/// How much slower an engine becomes, and how near to the best a plan is when it has recovered.
const SLOWER: f64 = 0.7;
const NEAR: f64 = 0.05;

/// One case.
#[derive(Debug, Clone)]
pub struct Case {
    pub chip: String,
    pub model: String,
    /// Tokens in a pass; passes of these widths take turns.
    pub widths: Vec<u64>,
    pub objective: Objective,
}

/// How it went. Shares of the best plan's cost, or of time.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub case: Case,
    /// Above the best static plan, after learning.
    pub regret: f64,
    /// Above the best single engine, after learning; negative when better.
    pub slowdown: f64,
    /// What the best single engine is above the best static plan: what there is to win.
    pub room: f64,
    /// Time of trials, and of plans worse than the first, as a share of all time while learning.
    pub learning: f64,
    /// Graphs after an engine became slower until the plan is near the best again for good; `None` if never.
    pub recovery: Option<usize>,
    /// Above the best static plan, with the first plan after a restart.
    pub restart: f64,
}

/// One planner on one chip.
struct Bench<'a> {
    truth: Truth,
    planner: Planner,
    graphs: &'a [Graph],
    measure: Measure,
    /// The plans of the graphs that were last used.
    plans: Vec<Arc<Plan>>,
    asked: usize,
}

fn planner_of(chip: &Truth, objective: Objective) -> Planner {
    Planner::new(chip.chip().clone(), Options { objective, ..Options::default() })
}

impl Bench<'_> {
    /// What the plans cost without noise.
    fn cost(&self, plans: &[Arc<Plan>]) -> Cost {
        let mut sum = Cost::default();
        self.graphs.iter().zip(plans).for_each(|(g, p)| sum += self.truth.cost(g, &p.waves));
        sum
    }

    fn price(&self) -> f64 {
        self.measure.of(self.cost(&self.plans))
    }

    fn best(&self) -> f64 {
        self.measure.of(self.truth.best(self.graphs, self.measure).1)
    }

    /// One graph; gives the seconds of the trial beside it.
    fn pass(&mut self) -> f64 {
        let (turn, idle) = (self.asked % self.graphs.len(), self.asked.is_multiple_of(SEQUENCE));
        self.asked += 1;
        let graph = &self.graphs[turn];
        let decision = ask(&mut self.planner, &self.truth, graph, idle);
        let before = self.truth.clock();
        let trial = decision.trial.as_ref().map(|t| (t.first, t.count, &t.waves[..]));
        let report = self.truth.run(graph, &decision.plan.waves, trial);
        self.planner.observe(graph, &report);
        match self.plans.get_mut(turn) {
            Some(plan) => *plan = decision.plan,
            None => self.plans.push(decision.plan),
        }
        (self.truth.clock() - before - report.seconds).max(0.0)
    }
}

fn ask(planner: &mut Planner, truth: &Truth, graph: &Graph, idle: bool) -> Decision {
    planner.next(graph, &|kind, node| truth.accepts(kind, node), idle)
}

/// Which engine does most of the plans' work.
fn busiest(plans: &[Arc<Plan>]) -> EngineKind {
    let steps = |kind| plans.iter().flat_map(|p| p.steps()).filter(move |s| s.engine == kind);
    let kinds = [EngineKind::Cpu, EngineKind::Gpu, EngineKind::Npu];
    kinds.into_iter().max_by_key(|k| steps(*k).map(|s| s.computed).sum::<u64>()).unwrap_or(EngineKind::Cpu)
}

/// The whole life of one planner: learning, a restart, a change.
pub fn live(chip: &Truth, model: &Model, widths: &[u64], objective: Objective) -> Outcome {
    let graphs: Vec<Graph> = widths.iter().map(|w| model.graph(*w, (*w).max(512))).collect();
    let measure = if objective == Objective::Energy { Measure::Joules } else { Measure::Seconds };
    let (truth, planner) = (chip.clone(), planner_of(chip, objective));
    let mut b = Bench { truth, planner, graphs: &graphs, measure, plans: Vec::new(), asked: 0 };
    let (mut extra, mut first) = (0.0, None);
    let (mut plans, mut cost, mut worse) = (Vec::new(), Cost::default(), 0.0);
    for _ in 0..LEARNING {
        extra += b.pass();
        if b.plans.len() == graphs.len() {
            if plans != b.plans {
                (plans, cost) = (b.plans.clone(), b.cost(&b.plans));
            }
            let first = *first.get_or_insert(measure.of(cost));
            worse += (measure.of(cost) / first - 1.0).max(0.0) * cost.seconds / graphs.len() as f64;
        }
    }
    let learning = (extra + worse) / b.truth.clock();

    let (now, best) = (b.price(), b.best());
    let single = |kind| {
        let mut sum = Cost::default();
        for graph in &graphs {
            sum += b.truth.single(graph, kind)?.1;
        }
        Some(measure.of(sum))
    };
    let kinds = [EngineKind::Cpu, EngineKind::Gpu, EngineKind::Npu];
    let single = kinds.into_iter().filter_map(single).fold(f64::INFINITY, f64::min);

    let mut again = planner_of(chip, objective);
    again.costs_mut().restore(&b.planner.costs().entries());
    let restarted: Vec<_> = graphs.iter().map(|g| ask(&mut again, &b.truth, g, true).plan).collect();
    let restart = measure.of(b.cost(&restarted)) / best - 1.0;

    b.truth.happen(Event::Driver(busiest(&b.plans), SLOWER));
    let (best_after, mut near_since) = (b.best(), None);
    let (mut plans, mut price) = (b.plans.clone(), b.price());
    for i in 0..WATCHED {
        b.pass();
        if plans != b.plans {
            (plans, price) = (b.plans.clone(), b.price());
        }
        let near = price <= best_after * (1.0 + NEAR);
        near_since = if near { near_since.or(Some(i)) } else { None };
    }
    let case = Case { chip: chip.chip().name.clone(), model: model.name.clone(), widths: widths.to_vec(), objective };
    Outcome {
        case,
        regret: now / best - 1.0,
        slowdown: now / single - 1.0,
        room: single / best - 1.0,
        learning,
        recovery: near_since,
        restart,
    }
}
