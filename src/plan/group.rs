//! All graphs of one model in one class of widths: they share an assignment, and what is known of how well it does.

use super::assign::Assignment;
use super::costs::Costs;
use super::explore::Explore;
use super::options::Objective;
use super::problem::{Problem, Site};
use super::search::{Mix, Priced, Question};
use crate::engine::EngineKind;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Graphs that are remembered with their seconds.
const RECENT: usize = 16;
/// Each graph takes this part of the weight of all widths for its own.
const FRESH: f64 = 0.02;
/// Graphs after a change that do not count, since caches and recordings are made in them; and those that then do.
const WARMING: u32 = 2;
const JUDGED: usize = 12;

/// A change on probation.
#[derive(Debug)]
struct Probation {
    previous: Assignment,
    /// The costs by which graphs of different widths and cache lengths are compared.
    costs: Costs,
    /// Logarithm of measured over predicted seconds of the previous assignment, before the change.
    before: f64,
    after: Vec<f64>,
    warming: u32,
    /// The logarithm by which the change must have won.
    needed: f64,
}

/// How a probation ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The change won by this part of the time.
    Kept(f64),
    /// It did not win enough; the previous assignment comes back.
    Dropped(f64),
}

/// The graphs of a model in a class of widths.
#[derive(Debug)]
pub struct Group {
    /// The model.
    pub family: Vec<Site>,
    /// The class of widths; 0 for 1 to 16.
    pub class: u8,
    /// Who computes what.
    pub assignment: Assignment,
    /// Counts the changes of the assignment.
    pub generation: u64,
    /// What is tried.
    pub explore: Explore,
    /// Assignments that did not win when they were used.
    pub rejected: Vec<Assignment>,
    /// Observations since the assignment was last thought about.
    pub news: u32,
    /// A verdict that waits for a moment at which plans may change.
    pub verdict: Option<Verdict>,
    widths: BTreeMap<u64, (Arc<Problem>, f64)>,
    recent: VecDeque<(Arc<Problem>, f64)>,
    probation: Option<Probation>,
}

impl Group {
    /// A group that begins with an assignment.
    pub fn new(family: Vec<Site>, class: u8, assignment: Assignment) -> Group {
        Group {
            family,
            class,
            assignment,
            generation: 0,
            explore: Explore::default(),
            rejected: Vec::new(),
            news: 0,
            verdict: None,
            widths: BTreeMap::new(),
            recent: VecDeque::new(),
            probation: None,
        }
    }

    /// The widths that were seen, each as its last graph, by how often.
    pub fn mix(&self) -> Mix {
        let seen = self.widths.values().filter(|w| w.1 > FRESH / 2.0);
        Mix { problems: seen.map(|(p, weight)| (Arc::clone(p), *weight)).collect() }
    }

    /// Whether a change is on probation.
    pub fn on_probation(&self) -> bool {
        self.probation.is_some() || self.verdict.is_some()
    }

    /// Whether there is enough news to think the assignment over.
    pub fn due(&self) -> bool {
        self.explore.idle() && self.recent.len() >= RECENT / 2 && self.news >= if self.explore.open() { 8 } else { 64 }
    }

    /// A graph is planned or seen again.
    pub fn saw(&mut self, problem: &Arc<Problem>) {
        let fresh = if self.widths.is_empty() { 1.0 } else { FRESH };
        self.widths.values_mut().for_each(|w| w.1 *= 1.0 - fresh);
        let width = self.widths.entry(problem.width).or_insert_with(|| (Arc::clone(problem), 0.0));
        width.0 = Arc::clone(problem);
        width.1 += fresh;
        self.widths.retain(|_, w| w.1 > FRESH / 10.0);
    }

    /// A graph took so many seconds.
    pub fn measured(&mut self, problem: &Arc<Problem>, seconds: f64) {
        self.news += 1;
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((Arc::clone(problem), seconds));
        let Some(probation) = &mut self.probation else { return };
        if probation.warming > 0 {
            probation.warming -= 1;
            return;
        }
        probation.after.push((seconds / predicted(&probation.costs, problem, &probation.previous)).ln());
        if probation.after.len() < JUDGED {
            return;
        }
        let gain = probation.before - median(&mut probation.after);
        self.verdict = Some(if gain >= probation.needed { Verdict::Kept(gain) } else { Verdict::Dropped(gain) });
    }

    /// Changes the assignment. `needed` is by which logarithm graphs must become faster for the change to stay; `None` when
    /// that cannot be told from seconds.
    pub fn change(&mut self, to: Assignment, costs: &Costs, needed: Option<f64>) {
        let previous = std::mem::replace(&mut self.assignment, to);
        self.generation += 1;
        let mut before: Vec<f64> =
            self.recent.iter().map(|(p, seconds)| (seconds / predicted(costs, p, &previous)).ln()).collect();
        self.recent.clear();
        self.probation = needed.filter(|_| before.len() >= RECENT / 2).map(|needed| Probation {
            previous,
            costs: costs.clone(),
            before: median(&mut before),
            after: Vec::new(),
            warming: WARMING,
            needed,
        });
    }

    /// Ends a probation: a change that did not win is undone. Call it only when plans may change.
    pub fn judge(&mut self) -> Option<Verdict> {
        let verdict = self.verdict.take()?;
        let probation = self.probation.take()?;
        if matches!(verdict, Verdict::Dropped(_)) {
            self.rejected.push(std::mem::replace(&mut self.assignment, probation.previous));
            self.generation += 1;
            self.recent.clear();
        }
        Some(verdict)
    }

    /// An engine has changed: nothing that was measured before can be compared with what is measured now.
    pub fn upset(&mut self, engine: EngineKind, slower: bool) {
        self.probation = None;
        self.verdict = None;
        self.rejected.clear();
        self.recent.clear();
        self.explore.reopen(engine, slower);
        self.news = u32::MAX / 2;
    }
}

/// Seconds that a graph takes by these costs.
pub fn predicted(costs: &Costs, problem: &Arc<Problem>, assignment: &Assignment) -> f64 {
    let (objective, strain) = (Objective::Speed, [1.0; 3]);
    let question = Question { costs, objective, strain, margin: 0.0, allowed: &|_, _| true, homes: &[] };
    let mix = Mix { problems: vec![(Arc::clone(problem), 1.0)] };
    Priced::new(&question, &mix).measure(assignment).seconds.max(1e-12)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
