//! The planner: keeps a plan for each repeated graph and one assignment for all graphs of a model and a class of widths.
//!
//! It does no harm: it begins with the best single engine, tries other ways beside the plan within a budget, changes the plan
//! only when no sequence is in flight and only to what was measured, and undoes a change that does not win.

use super::adapt::{Weighing, begin};
use super::assign::Assignment;
use super::costs::param::width_class;
use super::costs::{Costs, FEW};
use super::drift::Watcher;
use super::group::Group;
use super::observe::Thing;
use super::options::{Decision, Mode, Objective, Options};
use super::problem::{AcceptsOf, Problem, index};
use super::rest::Rest;
use super::waves::waves;
use super::work::Work;
use super::{Plan, explore};
use crate::chip::model::Chip;
use crate::engine::EngineKind;
use crate::graph::Graph;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Plans kept at most: each KV length of each stream has its own graph.
const KEPT: usize = 64;

/// Distinct works and how often each is there.
pub(super) type Counted = Vec<(Work, u32)>;

/// A graph that was planned.
pub(super) struct Known {
    pub(super) group: usize,
    generation: u64,
    pub(super) problem: Arc<Problem>,
    pub(super) plan: Arc<Plan>,
    /// For each wave the works of its steps that compute something, and how often each is in them.
    pub(super) works: Vec<Vec<Counted>>,
    used: u64,
}

/// Decides who computes what, and learns.
pub struct Planner {
    pub(super) costs: Costs,
    pub(super) options: Options,
    pub(super) engines: Vec<EngineKind>,
    pub(super) groups: Vec<Group>,
    pub(super) known: HashMap<u64, Known>,
    pub(super) notices: Vec<String>,
    pub(super) rest: Rest,
    pub(super) watcher: Watcher<Thing>,
    asked: u64,
}

impl Planner {
    /// A planner that knows the chip's figures.
    pub fn new(chip: Chip, options: Options) -> Planner {
        Planner {
            costs: Costs::new(&chip),
            options,
            engines: chip.processors.iter().map(|p| p.kind).collect(),
            groups: Vec::new(),
            known: HashMap::new(),
            notices: Vec::new(),
            rest: Rest::default(),
            watcher: Watcher::default(),
            asked: 0,
        }
    }

    /// What is believed of the costs.
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// The costs, to take over what was learned before; plans that were made already stay as they are.
    pub fn costs_mut(&mut self) -> &mut Costs {
        &mut self.costs
    }

    /// An engine is gone for good: nothing is planned on it any more.
    pub fn lost(&mut self, engine: EngineKind) {
        self.engines.retain(|e| *e != engine || *e == EngineKind::Cpu);
        self.groups.clear();
        self.known.clear();
    }

    /// The temperature of an engine's processor and the ceiling that it shall stay under, both in degrees Celsius; heeded
    /// when the objective is `Quiet`.
    pub fn temperature(&mut self, engine: EngineKind, celsius: f64, ceiling: f64) {
        self.rest.temperature(index(engine), celsius, ceiling);
    }

    /// Plans a graph. `accepts` is asked which engines other than the CPU compute a node, and why not; `idle` says that no
    /// sequence is in flight, so that a plan may change.
    pub fn next(&mut self, graph: &Graph, accepts: AcceptsOf, idle: bool) -> Decision {
        self.asked += 1;
        let known = self.known.get(&graph.uid).filter(|_| graph.uid != 0).map(|k| (k.group, Arc::clone(&k.problem)));
        let (group, problem) = known.unwrap_or_else(|| {
            let problem = Arc::new(Problem::of(graph, &self.engines, accepts));
            (self.group(&problem), problem)
        });
        self.groups[group].saw(&problem);
        if idle {
            // All widths of the model: a decode never begins a sequence itself.
            let family = self.groups[group].family.clone();
            for at in 0..self.groups.len() {
                if self.groups[at].family == family {
                    self.reconsider(at);
                }
            }
        }
        let plan = self.plan(group, graph, &problem);
        let trial = self.trial(group, graph, &problem);
        let rest = match self.options.objective {
            Objective::Quiet => self.rest.before(&plan),
            _ => 0.0,
        };
        Decision { plan, trial, notices: std::mem::take(&mut self.notices), rest }
    }

    /// The plan of a graph: the one that is kept, if the assignment has not changed since.
    fn plan(&mut self, group: usize, graph: &Graph, problem: &Arc<Problem>) -> Arc<Plan> {
        let generation = self.groups[group].generation;
        if graph.uid != 0
            && let Some(known) = self.known.get_mut(&graph.uid)
            && known.generation == generation
        {
            known.used = self.asked;
            return Arc::clone(&known.plan);
        }
        let plan = Arc::new(waves(problem, &self.groups[group].assignment));
        if graph.uid != 0 {
            if self.known.len() >= KEPT
                && let Some(oldest) = self.known.iter().min_by_key(|k| k.1.used).map(|k| *k.0)
            {
                self.known.remove(&oldest);
            }
            let works = if self.options.mode == Mode::Adaptive { works(graph, &plan) } else { Vec::new() };
            let (problem, plan) = (Arc::clone(problem), Arc::clone(&plan));
            self.known.insert(graph.uid, Known { group, generation, problem, plan, works, used: self.asked });
        }
        plan
    }

    /// The group of a problem, made when it is first seen.
    fn group(&mut self, problem: &Arc<Problem>) -> usize {
        let class = if problem.width <= FEW { 0 } else { width_class(problem.width) };
        let family = problem.family();
        if let Some(found) = self.groups.iter().position(|g| g.class == class && g.family == family) {
            return found;
        }
        let assignment = begin(&self.costs, &self.options, &self.engines, problem);
        self.groups.push(Group::new(family, class, assignment));
        self.groups.len() - 1
    }

    /// Thinks a group's assignment over. No sequence is in flight.
    fn reconsider(&mut self, at: usize) {
        if self.options.mode != Mode::Adaptive || self.options.quota.is_some() {
            return;
        }
        let group = &mut self.groups[at];
        if let Some(verdict) = group.judge() {
            self.notices.extend(super::notice::verdict(group.class, &verdict));
        }
        if group.on_probation() || !group.due() {
            return;
        }
        group.news = 0;
        let strain = self.rest.strain();
        let weighing = Weighing { costs: &self.costs, options: &self.options, engines: &self.engines, strain };
        let Some(change) = weighing.change(group) else { return };
        self.notices.push(super::notice::change(group.class, &group.mix(), &group.assignment, &change));
        let needed =
            (self.options.objective == Objective::Speed).then_some((change.gain / 4.0).min(super::adapt::WORTH));
        group.change(change.to, &self.costs, needed);
    }

    /// The trial that goes beside a graph, if there is one worth its time.
    fn trial(&mut self, at: usize, graph: &Graph, problem: &Problem) -> Option<super::Trial> {
        let group = &mut self.groups[at];
        if self.options.mode != Mode::Adaptive || self.options.quota.is_some() || graph.uid == 0 {
            return None;
        }
        group.explore.pending = None;
        if group.on_probation() {
            return None;
        }
        if group.explore.wants_search() {
            let strain = self.rest.strain();
            let weighing = Weighing { costs: &self.costs, options: &self.options, engines: &self.engines, strain };
            let probes = weighing.probes(group);
            group.explore.found(probes);
        }
        if let Some(engine) = group.explore.watches(self.watcher.suspicious()) {
            group.explore.push(super::adapt::watch(problem, engine)?);
        }
        let probe = group.explore.front()?.clone();
        let home = group.assignment.home;
        let Some((trial, works)) = explore::trial(&probe, graph, problem, home, group.explore.turn()) else {
            group.explore.skip();
            return None;
        };
        let seconds = super::adapt::price(&self.costs, home, &probe, &works);
        if !group.explore.affords(seconds) {
            group.explore.rotate();
            return None;
        }
        group.explore.pending = Some((graph.uid, trial.first, probe));
        Some(trial)
    }

    /// The assignment of the group of a graph that was planned; for explanations.
    pub fn assignment(&self, graph: &Graph) -> Option<&Assignment> {
        self.known.get(&graph.uid).map(|known| &self.groups[known.group].assignment)
    }
}

/// The works of a plan's steps, wave by wave. Steps without work have no timings and are left out.
fn works(graph: &Graph, plan: &Plan) -> Vec<Vec<Counted>> {
    let of = |step: &super::Step| {
        let mut counts: BTreeMap<Work, u32> = BTreeMap::new();
        for work in graph.nodes[step.first..step.first + step.count].iter().filter_map(Work::of) {
            let work = step.rows.map_or(work, |rows| work.with_rows(rows.count));
            *counts.entry(work).or_default() += 1;
        }
        counts.into_iter().collect()
    };
    let worked = |step: &&super::Step| step.computed > 0;
    plan.waves.iter().map(|wave| wave.steps.iter().filter(worked).map(of).collect()).collect()
}
