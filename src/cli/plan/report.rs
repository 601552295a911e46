//! What `tri plan` says, as data; `--json` prints it as it is.

use std::collections::BTreeMap;

use ggml_tri::chip::model::{Chip, Processor};
use ggml_tri::graph::Graph;
use ggml_tri::plan::costs::FEW;
use ggml_tri::plan::work::{Kind, Work};
use serde::Serialize;

use super::machine::Source;
use super::sites::Site;
use super::timeline::{Piece, Timeline};

/// Everything.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Says of every time in here that nobody measured it.
    pub predicted: bool,
    /// The model.
    pub model: ModelLine,
    /// The chip.
    pub chip: ChipLine,
    /// Tokens of the pass.
    pub width: u64,
    /// Positions of the KV cache that attention looks at, at least.
    pub context: u64,
    /// `speed`, `energy` or `quiet`.
    pub objective: &'static str,
    /// Seconds of the pass.
    pub seconds: f64,
    /// Joules of the pass, by the chip's watts.
    pub joules: f64,
    /// Seconds of rest before it, so that a hot chip cools down.
    pub rest: f64,
    /// Tokens a second.
    pub tokens_per_second: f64,
    /// After how many passes the planner would have this plan.
    pub passes: usize,
    /// Seconds of the pass with the plan that it begins with.
    pub first_seconds: f64,
    /// What each engine does.
    pub engines: Vec<EngineLine>,
    /// Who computes what, layers folded together.
    pub sites: Vec<SiteLine>,
    /// Why each engine does what it does, in sentences.
    pub why: Vec<String>,
    /// What the planner would have said on its way here.
    pub notices: Vec<String>,
}

/// The model.
#[derive(Debug, Serialize)]
pub struct ModelLine {
    /// The file as it was named.
    pub file: String,
    /// The model's name by the file.
    pub name: String,
    /// Its architecture by the file.
    pub architecture: String,
    /// Layers.
    pub layers: usize,
    /// Elements of all tensors.
    pub elements: u64,
    /// Bytes of all tensors.
    pub bytes: u64,
    /// What the plan leaves out.
    pub notes: Vec<String>,
}

/// The chip.
#[derive(Debug, Serialize)]
pub struct ChipLine {
    /// Its name.
    pub name: String,
    /// Where its numbers come from.
    pub origin: String,
    /// Each number.
    pub sources: Vec<Source>,
    /// What else there is to say.
    pub notes: Vec<String>,
}

/// One engine.
#[derive(Debug, Serialize)]
pub struct EngineLine {
    /// `cpu`, `gpu` or `npu`.
    pub engine: &'static str,
    /// The processor.
    pub name: String,
    /// Seconds during which it has a step.
    pub busy: f64,
    /// Bytes that it reads and writes.
    pub bytes: f64,
    /// Bytes per second that it can read when it is alone.
    pub bandwidth: f64,
    /// Bytes per second while busy, over `bandwidth`.
    pub bandwidth_share: f64,
    /// Operations; a multiplication and an addition are two.
    pub operations: f64,
    /// Operations per second that it can do in products of this width.
    pub rate: f64,
    /// Operations per second while busy, over `rate`.
    pub operations_share: f64,
}

/// The same node in several layers, done by the same engine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SiteLine {
    /// Who.
    pub engine: &'static str,
    /// What: a weight's name in the file, `attention`, or `the rest`.
    pub name: &'static str,
    /// Type and size in words.
    pub work: String,
    /// How many rows it computes, if others compute the rest.
    pub rows: Option<u64>,
    /// In which layers.
    pub layers: Vec<usize>,
    /// How many nodes.
    pub count: usize,
    /// Seconds of all of them together.
    pub seconds: f64,
}

/// What nodes without a site are called.
pub const REST: &str = "the rest";

/// What each engine of a chip does.
pub fn engines(chip: &Chip, width: u64, timeline: &Timeline) -> Vec<EngineLine> {
    let line = |p: &Processor| {
        let busy = timeline.busy(p.kind);
        let sum = |of: fn(Work) -> f64| {
            timeline.pieces.iter().filter(|piece| piece.engine == p.kind).fold(0.0, |sum, piece| sum + of(piece.work))
        };
        let share = |amount: f64, rate: f64| if busy > 0.0 { amount / busy / rate } else { 0.0 };
        let (bytes, operations) = (sum(Work::bytes), sum(Work::operations));
        let rate = if width > FEW { p.many } else { p.few };
        EngineLine {
            engine: p.kind.name(),
            name: p.name.clone(),
            busy,
            bytes,
            bandwidth: p.bandwidth,
            bandwidth_share: share(bytes, p.bandwidth),
            operations,
            rate,
            operations_share: share(operations, rate),
        }
    };
    chip.processors.iter().map(line).collect()
}

/// Joules of a pass by the chip's watts.
pub fn joules(chip: &Chip, timeline: &Timeline) -> f64 {
    let busy = |p: &Processor| timeline.busy(p.kind) * p.watts;
    chip.processors.iter().fold(timeline.seconds * chip.idle, |sum, p| sum + busy(p))
}

/// Who computes what, the same in several layers folded together, in the order of the graph.
pub fn fold(graph: &Graph, sites: &[Option<Site>], timeline: &Timeline) -> Vec<SiteLine> {
    // By engine, name, size and rows; with the index of the first node, which is its place in the table.
    type Key = (&'static str, &'static str, String, Option<u64>);
    let mut lines: BTreeMap<Key, (usize, SiteLine)> = BTreeMap::new();
    for piece in &timeline.pieces {
        let site = sites.get(piece.node).copied().flatten();
        let (engine, name, rows) = (piece.engine.name(), site.map_or(REST, |s| s.name), piece.rows.map(|r| r.count));
        let work = if site.is_some() { words(graph, piece) } else { String::new() };
        let new = SiteLine { engine, name, work: work.clone(), rows, layers: Vec::new(), count: 0, seconds: 0.0 };
        let line = &mut lines.entry((engine, name, work, rows)).or_insert((piece.node, new)).1;
        line.count += 1;
        line.seconds += piece.seconds;
        line.layers.extend(site.and_then(|s| s.layer));
    }
    let mut lines: Vec<_> = lines.into_values().collect();
    // The rest comes last; it is everywhere in the graph.
    lines.sort_by_key(|(node, line)| (line.name == REST, *node));
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Type and size of a node, all of its rows.
fn words(graph: &Graph, piece: &Piece) -> String {
    let whole = graph.nodes.get(piece.node).and_then(Work::of).unwrap_or(piece.work);
    let Work { kind, ty, m, k, depth, used, .. } = whole;
    match kind {
        Kind::Product => format!("{} {m} x {k}", ty.name()),
        Kind::Experts => format!("{} {m} x {k}, {used} of {depth}", ty.name()),
        Kind::Attention => format!("{m} heads of {k}, {depth} positions",),
        Kind::Other => String::new(),
    }
}
