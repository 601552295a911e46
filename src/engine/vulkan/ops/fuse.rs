//! Which nodes become one dispatch. Only what nobody else reads is left unwritten: neither another node of the host's
//! whole graph, nor the host, nor a callback that stops after a node (it gets a part of the graph that ends there).

use super::norm::{self, NormParts};
use super::{Caps, Lowering, Reject, lower as lower_node};
use crate::graph::{Node, Tensor, Type};

/// One or several nodes that are lowered together, at the place of the last one.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A node by itself.
    Node(usize),
    /// `sum = a + b`, the norm of it or of `input` alone, times a weight, plus a tensor: whatever of it is there.
    Norm {
        /// The nodes in order; the last one writes the result.
        nodes: Vec<usize>,
        /// The numbers of the dispatch.
        parts: Box<NormParts>,
    },
}

/// The most nodes between two that are fused; they stand close together in every model.
const WINDOW: usize = 8;

/// The items of a run of nodes, in order; each node that computes something is in exactly one.
pub fn items(nodes: &[Node], caps: &Caps) -> Vec<Item> {
    let mut taken = vec![false; nodes.len()];
    // (place, item): a fused item stands where its last node stood.
    let mut out: Vec<(usize, Item)> = Vec::new();
    for i in 0..nodes.len() {
        if taken[i] || !nodes[i].compute {
            continue;
        }
        let found = norm_at(nodes, i, &taken, caps).filter(|(members, _)| movable(nodes, members));
        let item = match found {
            Some((members, parts)) => {
                for &m in &members {
                    taken[m] = true;
                }
                (members[members.len() - 1], Item::Norm { nodes: members, parts: Box::new(parts) })
            }
            None => (i, Item::Node(i)),
        };
        out.push(item);
    }
    out.sort_by_key(|(place, _)| *place);
    out.into_iter().map(|(_, item)| item).collect()
}

/// Lowers an item. A fused form that does not take these shapes is lowered node by node.
///
/// # Errors
/// The first node that the GPU does not compute.
pub fn lower(item: &Item, nodes: &[Node], cx: &mut Lowering) -> Result<(), Reject> {
    match item {
        Item::Node(i) => lower_node(&nodes[*i], cx),
        Item::Norm { nodes: members, parts } => {
            let before = cx.dispatches.len();
            if norm::lower_fused(parts, cx).is_ok() {
                return Ok(());
            }
            cx.dispatches.truncate(before);
            members.iter().try_for_each(|&i| lower_node(&nodes[i], cx))
        }
    }
}

/// The node after `i` that computes with its result, if that is the only reader and may be fused with it.
fn only_reader(nodes: &[Node], i: usize, taken: &[bool]) -> Option<usize> {
    let node = &nodes[i];
    if node.output || node.uses != Some(1) || node.dst.root != node.dst.id {
        return None;
    }
    let end = nodes.len().min(i + 1 + WINDOW);
    (i + 1..end).find(|&j| nodes[j].compute && !taken[j] && nodes[j].sources().any(|s| s.id == node.dst.id))
}

/// Both sources of an f32 sum or product of two contiguous tensors of the result's shape.
fn plain_pair(node: &Node, op: &str) -> Option<(Tensor, Tensor)> {
    let (a, b) = (node.src[0]?, node.src[1]?);
    let same = |t: &Tensor| t.ty == Type::F32 && t.ne == node.dst.ne && t.contiguous();
    (node.op == op && same(&a) && same(&b) && same(&node.dst)).then_some((a, b))
}

/// The nodes of a normalisation that begins at `i`, with what goes before and after it.
fn norm_at(nodes: &[Node], i: usize, taken: &[bool], caps: &Caps) -> Option<(Vec<usize>, NormParts)> {
    let (mut members, norm, residual) = match plain_pair(&nodes[i], "ADD") {
        Some((a, b)) => {
            // The sum is written whoever reads it, so it may have other readers than the norm.
            let sum = nodes[i].dst;
            let end = nodes.len().min(i + 1 + WINDOW);
            let reads = |j: &usize| nodes[*j].compute && nodes[*j].sources().any(|s| s.id == sum.id);
            let norm = (i + 1..end).find(reads).filter(|&j| nodes[j].op == "RMS_NORM" && !taken[j])?;
            (vec![i, norm], norm, Some((a, b, sum)))
        }
        None if nodes[i].op == "RMS_NORM" => (vec![i], i, None),
        None => return None,
    };
    let mut parts = NormParts {
        input: residual.map_or(nodes[norm].src[0], |(a, ..)| Some(a))?,
        residual: residual.map(|(_, b, sum)| (b, sum)),
        eps: nodes[norm].param_f32(0),
        weight: None,
        add: None,
        dst: nodes[norm].dst,
        int8: false,
    };
    let mut last = norm;
    if let Some(mul) = only_reader(nodes, last, taken).filter(|&j| nodes[j].op == "MUL") {
        let other = |place: usize| nodes[mul].src[place].filter(|t| t.id != nodes[last].dst.id);
        let weight = other(0).or(other(1)).filter(|w| row_of(w, &nodes[mul].dst));
        if weight.is_some() && nodes[mul].dst.ne == nodes[last].dst.ne {
            (parts.weight, parts.dst, last) = (weight, nodes[mul].dst, mul);
            members.push(mul);
            if let Some(add) = only_reader(nodes, last, taken).filter(|&j| plain_pair(&nodes[j], "ADD").is_some()) {
                let other = nodes[add].src.into_iter().flatten().find(|t| t.id != nodes[last].dst.id);
                if other.is_some() {
                    (parts.add, parts.dst, last) = (other, nodes[add].dst, add);
                    members.push(add);
                }
            }
        }
    }
    parts.int8 = nodes[last + 1..].iter().any(|n| reads_int8(n, &parts.dst, caps));
    // A norm alone gains nothing, except where products read it.
    (members.len() > 1 || parts.int8).then_some((members, parts))
}

/// Whether `t` is one contiguous f32 row that is repeated over `over`.
fn row_of(t: &Tensor, over: &Tensor) -> bool {
    t.ty == Type::F32 && t.ne == [over.ne[0], 1, 1, 1] && t.row_contiguous()
}

/// Whether a node reads `t` in its int8 form: a product of few columns with quantised weights.
fn reads_int8(node: &Node, t: &Tensor, caps: &Caps) -> bool {
    let product = node.op == "MUL_MAT" || node.op == "MUL_MAT_ID";
    let (Some(w), Some(x)) = (node.src[0], node.src[1]) else { return false };
    let few = node.op == "MUL_MAT_ID" || node.dst.ne[1] <= 16 || caps.matrix_f16.is_none();
    product && caps.dot && w.ty.quantized() && few && x.data == t.data && x.elements() == t.elements()
}

/// Whether all members can be computed at the place of the last one: no node between writes what they read, or reads or
/// writes what they write.
fn movable(nodes: &[Node], members: &[usize]) -> bool {
    let (Some(&first), Some(&last)) = (members.first(), members.last()) else { return false };
    let between = (first..last).filter(|i| nodes[*i].compute && !members.contains(i)).map(|i| &nodes[i]);
    let meet = |a: &Tensor, b: &Tensor| a.data < b.data + b.span() && b.data < a.data + a.span();
    let inner = |t: &Tensor| members[..members.len() - 1].iter().any(|&m| nodes[m].dst.id == t.id);
    for node in between {
        for member in members.iter().map(|&m| &nodes[m]) {
            let reads = member.sources().filter(|t| !inner(t)).any(|t| meet(t, &node.dst));
            let written = node.sources().chain([&node.dst]).any(|t| meet(t, &member.dst));
            if reads || written {
                return false;
            }
        }
    }
    true
}
