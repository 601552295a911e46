//! What is tried beside the plan, and how much of it: trials cost at most a twentieth of the time that the first graphs take.

use super::assign::Share;
use super::problem::{Problem, Site};
use super::waves::split;
use super::work::Work;
use super::{Step, Trial, Wave};
use crate::engine::EngineKind;
use crate::graph::shadow::repeatable;
use crate::graph::{Graph, Node};
use std::collections::{BTreeMap, VecDeque};

/// Exploration ends after so many graphs, in decoding that many tokens.
pub const GRAPHS: u64 = 512;
/// Trials take at most this part of the graphs' time; a little less than the promise, since a trial's cost is a prediction.
const BUDGET: f64 = 0.045;
/// A choice is known after so many trials, half of them in each order.
pub const TRIALS: u32 = 4;
/// Trials that tell what nodes cost as the plan has them: both ways are the same then, so each counts twice.
pub const SURVEYS: u32 = 2;
/// Graphs between two searches for something worth trying.
const PAUSE: u64 = 4;
/// After so many searches in a row that found nothing there is nothing.
const FRUITLESS: u32 = 4;
/// An engine that was left because it became slow is tried again this often, in graphs; then exploration is over but for this.
const WATCH: u64 = 8;
/// Nodes of a trial that is not of a site.
const RUN: usize = 8;

/// What a trial is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// Another choice for a site.
    Site(Site),
    /// Another home for the rest.
    Rest,
}

/// A trial to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// About what.
    pub subject: Subject,
    /// The choice.
    pub share: Share,
    /// How often.
    pub times: u32,
}

/// The engines of a choice, in order: choices with the same engines and other rows are one.
pub fn engines(share: &Share) -> Vec<EngineKind> {
    match share {
        Share::Whole(engine) => vec![*engine],
        Share::Split(parts) => parts.iter().map(|p| p.0).collect(),
    }
}

/// The exploration of one group.
#[derive(Debug, Default)]
pub struct Explore {
    graphs: u64,
    earned: f64,
    spent: f64,
    queue: VecDeque<Probe>,
    tried: BTreeMap<(Subject, Vec<EngineKind>), u32>,
    next_search: u64,
    fruitless: u32,
    watched: Option<EngineKind>,
    /// The graph with which a trial was given out, the trial's first node, and what it is about.
    pub pending: Option<(u64, usize, Probe)>,
}

impl Explore {
    /// A graph took so many seconds.
    pub fn earn(&mut self, seconds: f64) {
        self.graphs += 1;
        if self.graphs <= GRAPHS || self.watched.is_some() {
            self.earned += seconds;
        }
    }

    /// A trial took so many seconds beside the graph.
    pub fn spend(&mut self, seconds: f64) {
        self.spent += seconds;
    }

    /// Whether trials may still be made.
    pub fn open(&self) -> bool {
        self.graphs < GRAPHS && self.fruitless < FRUITLESS
    }

    /// Whether no trial is planned.
    pub fn idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether a trial of so many seconds fits.
    pub fn affords(&self, seconds: f64) -> bool {
        self.spent + seconds <= BUDGET * self.earned
    }

    /// Whether it is time to search for something worth trying.
    pub fn wants_search(&self) -> bool {
        self.open() && self.queue.is_empty() && self.graphs >= self.next_search
    }

    /// The result of a search.
    pub fn found(&mut self, probes: Vec<Probe>) {
        self.next_search = self.graphs + PAUSE;
        self.fruitless = if probes.is_empty() { self.fruitless + 1 } else { 0 };
        self.queue = probes.into();
    }

    /// The trial that is next, if any.
    pub fn front(&self) -> Option<&Probe> {
        self.queue.front()
    }

    /// Whether a watched engine is due for a trial: from time to time, and at once when its last one was `suspicious`.
    pub fn watches(&self, suspicious: bool) -> Option<EngineKind> {
        let due = suspicious || self.graphs.is_multiple_of(WATCH);
        self.watched.filter(|_| due && !self.open() && self.queue.is_empty())
    }

    /// Queues a trial.
    pub fn push(&mut self, probe: Probe) {
        self.queue.push_back(probe);
    }

    /// The first trial of the queue cannot be made with any graph at hand.
    pub fn skip(&mut self) {
        if let Some(probe) = self.queue.pop_front() {
            self.tried.insert((probe.subject, engines(&probe.share)), TRIALS);
        }
    }

    /// The first trial of the queue goes to the end.
    pub fn rotate(&mut self) {
        if let Some(probe) = self.queue.pop_front() {
            self.queue.push_back(probe);
        }
    }

    /// A trial was made.
    pub fn done(&mut self, probe: &Probe) {
        let count = self.tried.entry((probe.subject, engines(&probe.share))).or_default();
        *count += 1;
        if *count >= probe.times {
            self.queue.retain(|p| p != probe);
        }
    }

    /// Whether a choice was tried often enough.
    pub fn knows(&self, subject: Subject, share: &Share) -> bool {
        self.tried.get(&(subject, engines(share))).is_some_and(|n| *n >= TRIALS)
    }

    /// Whether a choice was tried at all.
    pub fn tried(&self, subject: Subject, share: &Share) -> bool {
        self.tried.contains_key(&(subject, engines(share)))
    }

    /// An engine has changed: what was found out about it is void, and a quarter of the first budget is granted anew.
    pub fn reopen(&mut self, engine: EngineKind, slower: bool) {
        self.tried.retain(|(_, engines), _| !engines.contains(&engine));
        self.queue.clear();
        self.graphs = self.graphs.min(GRAPHS * 3 / 4);
        (self.fruitless, self.next_search) = (0, self.graphs);
        (self.earned, self.spent) = (0.0, 0.0);
        if slower {
            self.watched = Some(engine);
        } else if self.watched == Some(engine) {
            self.watched = None;
        }
    }

    /// A number that differs from graph to graph, to take turns.
    pub fn turn(&self) -> u64 {
        self.graphs
    }
}

/// The nodes of a graph with which a trial can be made; `turn` chooses among them. With the works of the nodes.
///
/// A trial of divided rows goes on with the nodes behind them at `home`, if there are some: what it costs one engine to go on
/// after several were at work is a part of what the division costs.
pub fn trial(
    probe: &Probe,
    graph: &Graph,
    problem: &Problem,
    home: EngineKind,
    turn: u64,
) -> Option<(Trial, Vec<Work>)> {
    let accepted = |load: usize| {
        let accepted = problem.loads[load].accepted;
        engines(&probe.share).into_iter().all(|e| accepted[super::problem::index(e)])
    };
    let site = match probe.subject {
        Subject::Site(site) => Some(problem.sites.binary_search(&site).ok()?),
        Subject::Rest => None,
    };
    let runs = problem.items.iter().filter(|item| problem.loads[item.load].site == site && accepted(item.load));
    let runs: Vec<(usize, usize)> =
        runs.filter_map(|item| longest(&graph.nodes[item.first..item.first + item.count], item.first)).collect();
    let &(first, count) = runs.get(turn as usize % runs.len().max(1))?;
    let nodes = &graph.nodes[first..first + count];
    let works = nodes.iter().filter_map(Work::of).collect();
    let computed = |nodes: &[Node]| nodes.iter().filter(|n| n.compute).count() as u64;
    let whole = |engine, first, count| {
        let computed = computed(&graph.nodes[first..first + count]);
        Wave { steps: vec![Step { engine, first, count, computed, rows: None }] }
    };
    let parts = match &probe.share {
        Share::Whole(engine) => {
            return Some((Trial { first, count, waves: vec![whole(*engine, first, count)] }, works));
        }
        Share::Split(parts) => parts,
    };
    let mut waves = vec![Wave { steps: split(parts, first) }];
    let behind = problem.items.iter().find(|item| item.first == first + 1).filter(|item| {
        let load = &problem.loads[item.load];
        load.site.is_none() && load.accepted[super::problem::index(home)]
    });
    let more = behind.map_or(0, |item| {
        graph.nodes[item.first..item.first + item.count]
            .iter()
            .take(RUN)
            .take_while(|n| n.compute && repeatable(n))
            .count()
    });
    if more > 0 {
        waves.push(whole(home, first + 1, more));
    }
    Some((Trial { first, count: 1 + more, waves }, works))
}

/// The longest run of repeatable nodes, as (first node, count).
fn longest(nodes: &[Node], from: usize) -> Option<(usize, usize)> {
    let (mut best, mut start) = ((0, 0), 0);
    for (i, node) in nodes.iter().enumerate() {
        if !node.compute || !repeatable(node) {
            start = i + 1;
        } else if i + 1 - start > best.1 && i + 1 - start <= RUN {
            best = (start, i + 1 - start);
        }
    }
    (best.1 > 0).then_some((from + best.0, best.1))
}
