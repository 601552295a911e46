//! The best static plan that a simulated chip allows, found by dynamic programming over the truth without noise.
//!
//! Searched are all ways to give each node whole to an engine and each product to an engine or by rows to any set of them.
//! A node's time depends on the node before it in the same step, and a launch on who worked in the wave before, so a state is
//! the set of engines of the last wave. Not searched: two runs of different nodes side by side.

use super::Truth;
use super::ask::Ask;
use super::run::{Cost, WAITING, WARM};
use crate::engine::EngineKind;
use crate::graph::Graph;
use crate::plan::{Rows, Step, Wave};
use std::collections::HashMap;

/// What a plan should spend little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Time.
    Seconds,
    /// Energy of the whole chip.
    Joules,
}

impl Measure {
    /// The number to look at.
    pub fn of(self, cost: Cost) -> f64 {
        match self {
            Measure::Seconds => cost.seconds,
            Measure::Joules => cost.joules,
        }
    }
}

/// Sets of engines are bits, by their order in `EngineKind`.
const KINDS: [EngineKind; 3] = [EngineKind::Cpu, EngineKind::Gpu, EngineKind::Npu];
const SETS: usize = 8;

fn kinds(set: usize) -> Vec<EngineKind> {
    (0..3).filter(|b| set & (1 << b) != 0).map(|b| KINDS[b]).collect()
}

/// How a state was reached: from which, and how the node's rows are divided if they are.
#[derive(Clone, Default)]
struct Move {
    from: usize,
    /// Whether the step of the state before goes on.
    continues: bool,
    rows: Vec<(EngineKind, u64)>,
}

type Division = Option<(f64, Vec<(EngineKind, u64)>)>;

struct Search<'a> {
    truth: &'a Truth,
    graphs: &'a [Graph],
    measure: Measure,
    /// Divisions of products that were looked at, by what they ask in each graph, the engines, and those before.
    seen: HashMap<(Vec<u64>, usize, usize), Division>,
}

impl Truth {
    /// The best static plan of some graphs, one for all of them: they come equally often, and have the same nodes but for the
    /// width. With it the sum of their costs.
    pub fn best(&self, graphs: &[Graph], measure: Measure) -> (Vec<Wave>, Cost) {
        let mut search = Search { truth: self, graphs, measure, seen: HashMap::new() };
        let waves = search.waves();
        let mut cost = Cost::default();
        graphs.iter().for_each(|g| cost += self.cost(g, &waves));
        (waves, cost)
    }
}

impl Search<'_> {
    fn waves(&mut self) -> Vec<Wave> {
        let Some(graph) = self.graphs.first() else { return Vec::new() };
        let work: Vec<usize> = (0..graph.nodes.len()).filter(|i| graph.nodes[*i].compute).collect();
        let mut cost = [f64::INFINITY; SETS];
        cost[0] = 0.0;
        let mut moves: Vec<Vec<Move>> = Vec::with_capacity(work.len());
        let mut before = None;
        for i in &work {
            let (mut next, mut how) = ([f64::INFINITY; SETS], vec![Move::default(); SETS]);
            let node = &graph.nodes[*i];
            let able = KINDS.map(|k| self.truth.accepts(k, node).is_ok());
            let divisible = Ask::of(node, None).is_some_and(|a| a.divisible());
            for from in (0..SETS).filter(|s| cost[*s].is_finite()) {
                for set in (1..SETS).filter(|set| (0..3).all(|b| set & (1 << b) == 0 || able[b])) {
                    let single = set.count_ones() == 1;
                    let continues = set == from && single;
                    let found = if single {
                        Some((self.whole(*i, kinds(set)[0], before.filter(|_| continues), from), Vec::new()))
                    } else if divisible {
                        self.divided(*i, set, from)
                    } else {
                        None
                    };
                    let Some((price, rows)) = found else { continue };
                    if cost[from] + price < next[set] {
                        next[set] = cost[from] + price;
                        how[set] = Move { from, continues, rows };
                    }
                }
            }
            cost = next;
            moves.push(how);
            before = Some(*i);
        }
        let end = (0..SETS).min_by(|a, b| cost[*a].total_cmp(&cost[*b])).unwrap_or(0);
        self.trace(&work, &moves, end)
    }

    /// The price of a node on one engine: in the step of the node `before`, or in a new one.
    fn whole(&self, at: usize, kind: EngineKind, before: Option<usize>, from: usize) -> f64 {
        let p = self.truth.worker(kind);
        let slow = self.truth.share_of_power(&[p]);
        let (speed, watts) = (self.truth.pace(p, slow), self.truth.watts(p, slow));
        let warm = if kinds(from).contains(&kind) { WARM } else { 1.0 };
        let launch = if before.is_some() { 0.0 } else { p.launch * warm };
        let price = |graph: &Graph| {
            let seconds = p.alone(&graph.nodes[at], None, before.map(|b| &graph.nodes[b])).seconds / speed;
            let idle = self.truth.idle * (seconds + launch);
            let joules = idle + watts * (seconds + WAITING * launch);
            self.measure.of(Cost { seconds: seconds + launch, joules })
        };
        self.graphs.iter().map(price).sum()
    }

    /// The best division of a product's rows among all engines of a set.
    fn divided(&mut self, at: usize, set: usize, from: usize) -> Division {
        let asks: Vec<Ask> = self.graphs.iter().filter_map(|g| Ask::of(&g.nodes[at], None)).collect();
        let numbers = |a: &Ask| [a.m, a.k, a.n, a.depth, a.stream, a.fresh, a.made].map(f64::to_bits);
        let mut key: Vec<u64> = asks.iter().flat_map(numbers).collect();
        key.extend(asks.first().map(|a| a.shape as u64 * 256 + a.ty as u64));
        if let Some(known) = self.seen.get(&(key.clone(), set, from)) {
            return known.clone();
        }
        let found = self.divide(at, asks.first()?.m as u64, &kinds(set), &kinds(from));
        self.seen.insert((key, set, from), found.clone());
        found
    }

    fn divide(&self, at: usize, m: u64, engines: &[EngineKind], previous: &[EngineKind]) -> Division {
        let unit = engines.iter().map(|k| self.truth.worker(*k).rows).max().unwrap_or(1);
        let units = m / unit;
        if units < engines.len() as u64 {
            return None;
        }
        let rows = |parts: &[u64]| -> Vec<(EngineKind, u64)> {
            let counts = parts.iter().enumerate().map(|(i, p)| p * unit + if i == 0 { m % unit } else { 0 });
            engines.iter().copied().zip(counts).collect()
        };
        let price = |parts: &[u64]| {
            let wave = wave_of(at, &rows(parts));
            let of = |g| self.measure.of(self.truth.wave(g, &wave, previous, &mut |_| 1.0).cost);
            self.graphs.iter().map(of).sum::<f64>()
        };
        // A grid first, since rounds of workgroups make many valleys; then downhill.
        let grid = if engines.len() == 2 { 48 } else { 12 };
        let steps = |most: u64| (1..=most.min(grid)).map(move |i| (i * most / most.min(grid)).max(1));
        let mut best: Option<(f64, Vec<u64>)> = None;
        for first in steps(units - 1) {
            let rest = units - first;
            let parts: Vec<Vec<u64>> = match engines.len() {
                2 => vec![vec![first, rest]],
                _ if rest < 2 => vec![],
                _ => steps(rest - 1).map(|second| vec![first, second, rest - second]).collect(),
            };
            for parts in parts {
                let p = price(&parts);
                if best.as_ref().is_none_or(|(b, _)| p < *b) {
                    best = Some((p, parts));
                }
            }
        }
        let (mut low, mut parts) = best?;
        let mut step = (units / grid).max(1);
        while step > 0 {
            let mut moved = false;
            for (a, b) in (0..parts.len()).flat_map(|a| (0..engines.len()).map(move |b| (a, b))) {
                if a != b && parts[a] > step {
                    let mut other = parts.clone();
                    (other[a], other[b]) = (other[a] - step, other[b] + step);
                    let p = price(&other);
                    if p < low {
                        (low, parts, moved) = (p, other, true);
                    }
                }
            }
            step = if moved { step } else { step / 2 };
        }
        Some((low, rows(&parts)))
    }

    /// The waves that lead to the last state. Nodes without work go with the node before them, the first ones with the first.
    fn trace(&self, work: &[usize], moves: &[Vec<Move>], end: usize) -> Vec<Wave> {
        let (mut set, mut path) = (end, Vec::with_capacity(work.len()));
        for how in moves.iter().rev() {
            path.push((set, &how[set]));
            set = how[set].from;
        }
        path.reverse();
        let mut waves: Vec<Wave> = Vec::new();
        for (i, (set, how)) in path.into_iter().enumerate() {
            let first = if i == 0 { 0 } else { work[i] };
            let next = work.get(i + 1).copied().unwrap_or(self.graphs[0].nodes.len());
            match waves.last_mut().and_then(|w| w.steps.last_mut()) {
                Some(step) if how.continues => {
                    step.count = next - step.first;
                    step.computed += 1;
                }
                _ if how.rows.is_empty() => {
                    let step = Step { engine: kinds(set)[0], first, count: next - first, computed: 1, rows: None };
                    waves.push(Wave { steps: vec![step] });
                }
                _ => {
                    waves.push(wave_of(work[i], &how.rows));
                    let names = |from: usize, to: usize| Wave {
                        steps: vec![Step {
                            engine: EngineKind::Cpu,
                            first: from,
                            count: to - from,
                            computed: 0,
                            rows: None,
                        }],
                    };
                    if first < work[i] {
                        waves.insert(waves.len() - 1, names(first, work[i]));
                    }
                    if work[i] + 1 < next {
                        waves.push(names(work[i] + 1, next));
                    }
                }
            }
        }
        waves
    }
}

/// The wave that divides the product `at`.
fn wave_of(at: usize, rows: &[(EngineKind, u64)]) -> Wave {
    let mut first = 0;
    let step = |(engine, count): &(EngineKind, u64)| {
        let rows = Some(Rows { first, count: *count });
        first += count;
        Step { engine: *engine, first: at, count: 1, computed: 1, rows }
    };
    Wave { steps: rows.iter().map(step).collect() }
}
