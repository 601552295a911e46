//! The planner on simulated chips, against the best static plan of each.

use ggml_tri::chip::model::Chip;
use ggml_tri::engine::EngineKind;
use ggml_tri::engine::sim::best::Measure;
use ggml_tri::engine::sim::{Event, Truth};
use ggml_tri::graph::Graph;
use ggml_tri::graph::shapes::Model;
use ggml_tri::plan::Wave;
use ggml_tri::plan::learn::Planner;
use ggml_tri::plan::{Decision, Objective, Options};

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
    pub width: u64,
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
    graph: &'a Graph,
    measure: Measure,
    waves: Vec<Wave>,
    asked: usize,
}

fn planner(chip: &Chip, objective: Objective) -> Planner {
    Planner::new(chip.clone(), Options { objective, ..Options::default() })
}

impl Bench<'_> {
    fn price(&self, waves: &[Wave]) -> f64 {
        self.measure.of(self.truth.cost(self.graph, waves))
    }

    /// One graph; gives the seconds of the trial beside it.
    fn graph(&mut self) -> f64 {
        let idle = self.asked % SEQUENCE == 0;
        self.asked += 1;
        let Bench { truth, planner, graph, .. } = self;
        let decision = ask(planner, truth, graph, idle);
        let before = truth.clock();
        let trial = decision.trial.as_ref().map(|t| (t.first, t.count, &t.waves[..]));
        let report = truth.run(graph, &decision.plan.waves, trial);
        planner.observe(graph, &report);
        self.waves.clone_from(&decision.plan.waves);
        truth.clock() - before - report.seconds
    }
}

fn ask(planner: &mut Planner, truth: &Truth, graph: &Graph, idle: bool) -> Decision {
    planner.next(graph, &|kind, node| truth.accepts(kind, node), idle)
}

/// Which engine does most of a plan's work.
fn busiest(waves: &[Wave]) -> EngineKind {
    let work = |kind| waves.iter().flat_map(|w| &w.steps).filter(|s| s.engine == kind).map(|s| s.computed).sum::<u64>();
    let kinds = [EngineKind::Cpu, EngineKind::Gpu, EngineKind::Npu];
    kinds.into_iter().max_by_key(|k| work(*k)).unwrap_or(EngineKind::Cpu)
}

/// The whole life of one planner: learning, a restart, a change.
pub fn live(chip: &Truth, model: &Model, width: u64, objective: Objective) -> Outcome {
    let graph = &model.graph(width, width.max(512));
    let measure = if objective == Objective::Energy { Measure::Joules } else { Measure::Seconds };
    let planner_of = |t: &Truth| planner(t.chip(), objective);
    let mut b = Bench { truth: chip.clone(), planner: planner_of(chip), graph, measure, waves: Vec::new(), asked: 0 };
    let (mut extra, mut first, mut prices) = (0.0, None, Vec::new());
    let mut last: (Vec<Wave>, f64, f64) = Default::default();
    for _ in 0..LEARNING {
        extra += b.graph();
        if last.0 != b.waves {
            let cost = b.truth.cost(graph, &b.waves);
            last = (b.waves.clone(), measure.of(cost), cost.seconds);
        }
        prices.push((last.1, last.2));
        first.get_or_insert(last.1);
    }
    let first = first.unwrap_or(0.0);
    let worse: f64 = prices.iter().map(|(price, seconds)| (price / first - 1.0).max(0.0) * seconds).sum();
    let learning = (extra + worse) / b.truth.clock();

    let best = measure.of(b.truth.best(graph, measure).1);
    let kinds = [EngineKind::Cpu, EngineKind::Gpu, EngineKind::Npu];
    let singles = kinds.iter().filter_map(|k| b.truth.single(graph, *k)).map(|(_, cost)| measure.of(cost));
    let single = singles.fold(f64::INFINITY, f64::min);
    let now = b.price(&b.waves);

    let mut again = planner_of(chip);
    again.costs_mut().restore(&b.planner.costs().entries());
    let restarted = ask(&mut again, &b.truth, graph, true);
    let restart = b.price(&restarted.plan.waves) / best - 1.0;

    b.truth.happen(Event::Driver(busiest(&b.waves), SLOWER));
    let (best_after, mut near_since) = (measure.of(b.truth.best(graph, measure).1), None);
    for i in 0..WATCHED {
        b.graph();
        let near = b.price(&b.waves) <= best_after * (1.0 + NEAR);
        near_since = if near { near_since.or(Some(i)) } else { None };
    }
    let case = Case { chip: chip.chip().name.clone(), model: model.name.clone(), width, objective };
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
