//! The planner: keeps a plan for each repeated graph and one assignment for all graphs of a model and a class of widths.

use super::Plan;
use super::assign::{Assignment, Share};
use super::costs::param::width_class;
use super::costs::{Costs, FEW};
use super::options::{Decision, Mode, Options};
use super::problem::{AcceptsOf, Problem, Site};
use super::search::{Mix, Priced, Question};
use super::split::{forced, unit};
use super::timing::Report;
use super::waves::waves;
use crate::chip::model::Chip;
use crate::engine::EngineKind;
use crate::graph::Graph;
use std::collections::HashMap;
use std::sync::Arc;

/// Plans kept at most: each KV length of each stream has its own graph.
const KEPT: usize = 64;
/// Forced shares come in multiples of this many rows, whatever the engines could do.
const QUOTA_ROWS: u64 = 32;

/// All graphs of one model in one class of widths.
struct Group {
    family: Vec<Site>,
    class: u8,
    assignment: Assignment,
    generation: u64,
}

/// A graph that was planned.
struct Known {
    group: usize,
    generation: u64,
    problem: Arc<Problem>,
    plan: Arc<Plan>,
    used: u64,
}

/// Decides who computes what, and learns.
pub struct Planner {
    costs: Costs,
    options: Options,
    engines: Vec<EngineKind>,
    groups: Vec<Group>,
    known: HashMap<u64, Known>,
    asked: u64,
}

impl Planner {
    /// A planner that knows the chip's figures.
    pub fn new(chip: Chip, options: Options) -> Planner {
        let engines = chip.processors.iter().map(|p| p.kind).collect();
        Planner { costs: Costs::new(&chip), options, engines, groups: Vec::new(), known: HashMap::new(), asked: 0 }
    }

    /// What is believed of the costs.
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// The costs, to take over what was learned before.
    pub fn costs_mut(&mut self) -> &mut Costs {
        &mut self.costs
    }

    /// Plans a graph. `accepts` is asked which engines other than the CPU compute a node, and why not; `idle` says that no
    /// sequence is in flight, so that a plan may change.
    pub fn next(&mut self, graph: &Graph, accepts: AcceptsOf, _idle: bool) -> Decision {
        self.asked += 1;
        let fresh = |known: &Known, groups: &[Group]| known.generation == groups[known.group].generation;
        if graph.uid != 0
            && let Some(known) = self.known.get_mut(&graph.uid)
            && fresh(known, &self.groups)
        {
            known.used = self.asked;
            return Decision { plan: Arc::clone(&known.plan), trial: None, notices: Vec::new(), rest: 0.0 };
        }
        let problem = Arc::new(Problem::of(graph, &self.engines, accepts));
        let group = self.group(&problem);
        let plan = Arc::new(waves(&problem, &self.groups[group].assignment));
        if graph.uid != 0 {
            let generation = self.groups[group].generation;
            self.keep(graph.uid, Known { group, generation, problem, plan: Arc::clone(&plan), used: self.asked });
        }
        Decision { plan, trial: None, notices: Vec::new(), rest: 0.0 }
    }

    /// Learns from what was measured.
    pub fn observe(&mut self, graph: &Graph, report: &Report) {
        if self.options.mode != Mode::Adaptive || !self.known.contains_key(&graph.uid) {
            return;
        }
        for step in &report.steps {
            self.costs.observe(step);
        }
    }

    /// The group of a problem, made when it is first seen.
    fn group(&mut self, problem: &Arc<Problem>) -> usize {
        let class = if problem.width <= FEW { 0 } else { width_class(problem.width) };
        let family = problem.family();
        if let Some(found) = self.groups.iter().position(|g| g.class == class && g.family == family) {
            return found;
        }
        let mix = Mix { problems: vec![(Arc::clone(problem), 1.0)] };
        let assignment = self.first(&mix);
        self.groups.push(Group { family, class, assignment, generation: 0 });
        self.groups.len() - 1
    }

    /// The assignment with which a group begins: the best single engine.
    fn first(&self, mix: &Mix) -> Assignment {
        let allowed = |_: &Site, _: &Share| true;
        let (objective, strain) = (self.options.objective, [1.0; 3]);
        let question = Question { costs: &self.costs, objective, strain, allowed: &allowed, homes: &self.engines };
        let priced = Priced::new(&question, mix);
        let mut assignment = priced.single().1;
        if let Some(quota) = &self.options.quota {
            let rows = unit(self.costs.chip(), &self.engines).max(QUOTA_ROWS);
            for site in priced.sites().into_iter().filter(|site| site.divisible()) {
                if let Some(parts) = forced(site.m, rows, &quota.shares) {
                    assignment = assignment.with(site, Share::Split(parts));
                }
            }
        }
        assignment
    }

    fn keep(&mut self, uid: u64, known: Known) {
        if self.known.len() >= KEPT
            && let Some(oldest) = self.known.iter().min_by_key(|k| k.1.used).map(|k| *k.0)
        {
            self.known.remove(&oldest);
        }
        self.known.insert(uid, known);
    }
}
