//! A graph as the planner sees it: sites whose place is chosen, and between them what goes where the rest goes.

use super::Fallback;
use super::work::{Kind, Work};
use crate::engine::EngineKind;
use crate::graph::{Graph, Node, Type};
use std::collections::{BTreeMap, HashSet};

/// The engines in the order of their indices.
pub const ENGINES: [EngineKind; 3] = [EngineKind::Cpu, EngineKind::Gpu, EngineKind::Npu];

/// The index of an engine in arrays.
pub fn index(engine: EngineKind) -> usize {
    match engine {
        EngineKind::Cpu => 0,
        EngineKind::Gpu => 1,
        EngineKind::Npu => 2,
    }
}

/// Products with the same weights' shape, or attention over the same cache's: all have one assignment, whatever the width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// What kind.
    pub kind: Kind,
    /// The type of the weights or the cache.
    pub ty: Type,
    /// Rows of the weights; heads of Q.
    pub m: u64,
    /// Length of the sums; size of a head.
    pub k: u64,
    /// Experts; 0 for attention, whose cache grows while a sequence lasts.
    pub depth: u64,
    /// Experts that each column uses; heads of K.
    pub used: u64,
}

impl Site {
    fn of(work: &Work) -> Site {
        let depth = if work.kind == Kind::Attention { 0 } else { work.depth };
        Site { kind: work.kind, ty: work.ty, m: work.m, k: work.k, depth, used: work.used }
    }

    /// Whether its rows can be divided.
    pub fn divisible(self) -> bool {
        matches!(self.kind, Kind::Product | Kind::Experts)
    }

    /// Words for it: `q4_K product 8192x2048`.
    pub fn words(self) -> String {
        let Site { kind, ty, m, k, depth, used } = self;
        match kind {
            Kind::Experts => format!("{} experts {m}x{k} ({used} of {depth})", ty.name()),
            Kind::Attention => format!("{} attention of {m} heads of {k}", ty.name()),
            _ => format!("{} product {m}x{k}", ty.name()),
        }
    }
}

/// Nodes that cost the same and may go to the same engines.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Load {
    /// Whose place is chosen; `None` for what goes home.
    pub site: Option<usize>,
    /// Which engines accept all of it, by index. The CPU accepts everything.
    pub accepted: [bool; 3],
    /// Indices of `Problem::works` and how often each occurs; empty if nothing is computed.
    pub parts: Vec<(usize, u32)>,
}

/// A run of nodes with one load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// Index of `Problem::loads`.
    pub load: usize,
    /// Index of the first node.
    pub first: usize,
    /// Number of nodes; 1 for a site.
    pub count: usize,
    /// How many of them compute something.
    pub computed: u64,
}

/// A graph with the choices that it leaves.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Problem {
    /// The distinct works.
    pub works: Vec<Work>,
    /// The sites, in their order.
    pub sites: Vec<Site>,
    /// The distinct loads.
    pub loads: Vec<Load>,
    /// The nodes of the graph, in order, each once.
    pub items: Vec<Item>,
    /// What the GPU does not compute.
    pub fallbacks: Vec<Fallback>,
    /// Columns of the widest product.
    pub width: u64,
}

/// Whether an engine computes a node; an error says why not. What nobody accepts the CPU must compute.
pub type AcceptsOf<'a> = &'a dyn Fn(EngineKind, &Node) -> Result<(), String>;

impl Problem {
    /// Reads a graph. `engines` are those of the chip.
    pub fn of(graph: &Graph, engines: &[EngineKind], accepts: AcceptsOf) -> Problem {
        let made: HashSet<u64> = graph.nodes.iter().filter(|n| n.compute).map(|n| n.dst.id).collect();
        let mut maker = Maker::default();
        for (i, node) in graph.nodes.iter().enumerate() {
            let Some(work) = Work::of(node) else {
                maker.idle(i, node.compute);
                continue;
            };
            let mut accepted = [false; 3];
            for &engine in engines.iter().filter(|e| **e != EngineKind::Cpu) {
                match accepts(engine, node) {
                    Ok(()) => accepted[index(engine)] = true,
                    Err(reason) if engine == EngineKind::Gpu => {
                        maker.problem.fallbacks.push(Fallback { op: node.op, reason });
                    }
                    Err(_) => {}
                }
            }
            let chosen = match work.kind {
                // Products with a KV cache or a result have shapes that change with every few tokens.
                Kind::Product | Kind::Experts => {
                    // ggml's hint that the weights are a Hadamard matrix: ggml-cpu then transforms whole columns.
                    let hint = work.kind == Kind::Product && node.params[1] != 0;
                    !hint && node.src[0].is_some_and(|w| w.root == w.id && !made.contains(&w.id) && w.ne[3] == 1)
                }
                Kind::Attention => true,
                Kind::Other => false,
            };
            // Somebody must compute it, and the CPU is the one that is left.
            accepted[0] = !accepted.contains(&true) || accepts(EngineKind::Cpu, node).is_ok();
            maker.node(i, work, accepted, chosen);
        }
        maker.finish()
    }

    /// Which models it belongs to: graphs of one model have the same weights, whatever the width and the length of the cache.
    pub fn family(&self) -> Vec<Site> {
        self.sites.iter().copied().filter(|s| s.divisible()).collect()
    }
}

/// A problem while it is read: an item is open until its kind changes.
#[derive(Default)]
struct Maker {
    problem: Problem,
    works: BTreeMap<Work, usize>,
    sites: BTreeMap<Site, usize>,
    loads: BTreeMap<Load, usize>,
    open: Option<Open>,
}

struct Open {
    item: Item,
    accepted: Option<[bool; 3]>,
    parts: BTreeMap<usize, u32>,
}

impl Maker {
    /// A node without work goes wherever its neighbours go.
    fn idle(&mut self, at: usize, compute: bool) {
        let open = self.open.get_or_insert_with(|| Open::at(at));
        open.item.count += 1;
        open.item.computed += u64::from(compute);
    }

    fn node(&mut self, at: usize, work: Work, accepted: [bool; 3], chosen: bool) {
        let next = self.works.len();
        let index = *self.works.entry(work).or_insert(next);
        if index == next {
            self.problem.works.push(work);
        }
        if chosen {
            self.close();
            if work.kind != Kind::Attention {
                self.problem.width = self.problem.width.max(work.n);
            }
            let next = self.sites.len();
            let site = *self.sites.entry(Site::of(&work)).or_insert(next);
            let load = self.load(Load { site: Some(site), accepted, parts: vec![(index, 1)] });
            self.problem.items.push(Item { load, first: at, count: 1, computed: 1 });
            return;
        }
        if self.open.as_ref().is_some_and(|open| open.accepted.is_some_and(|a| a != accepted)) {
            self.close();
        }
        let open = self.open.get_or_insert_with(|| Open::at(at));
        open.accepted = Some(accepted);
        open.item.count += 1;
        open.item.computed += 1;
        *open.parts.entry(index).or_default() += 1;
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let accepted = open.accepted.unwrap_or([true; 3]);
        let load = self.load(Load { site: None, accepted, parts: open.parts.into_iter().collect() });
        self.problem.items.push(Item { load, ..open.item });
    }

    fn load(&mut self, load: Load) -> usize {
        let next = self.loads.len();
        *self.loads.entry(load).or_insert(next)
    }

    fn finish(mut self) -> Problem {
        self.close();
        // Sites in their own order, whatever the graph's: then two graphs of a model have the same list.
        let mut order = vec![0; self.sites.len()];
        for (place, (site, old)) in self.sites.iter().enumerate() {
            order[*old] = place;
            self.problem.sites.push(*site);
        }
        let mut loads: Vec<(usize, Load)> = self.loads.into_iter().map(|(load, i)| (i, load)).collect();
        loads.sort_unstable_by_key(|l| l.0);
        let renumbered = |load: Load| Load { site: load.site.map(|s| order[s]), ..load };
        self.problem.loads = loads.into_iter().map(|l| renumbered(l.1)).collect();
        self.problem
    }
}

impl Open {
    fn at(first: usize) -> Open {
        Open { item: Item { load: 0, first, count: 0, computed: 0 }, accepted: None, parts: BTreeMap::new() }
    }
}
