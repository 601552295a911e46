//! Which nodes become one dispatch. Only what nobody else reads is left unwritten: neither another node of the host's
//! whole graph, nor the host, nor a callback that stops after a node (it gets a part of the graph that ends there).

use super::fuse_gated::gated_at;
use super::fuse_norm::norm_at;
use super::fuse_rope::rows_at;
use super::matvec::{self, MatvecParts};
use super::norm::{self, NormParts};
use super::rope::{self, Rows};
use super::{Caps, Lowering, Reject, attention, lower as lower_node};
use crate::graph::{Node, Tensor};

/// One or several nodes that are lowered together, at the place of the last one.
#[derive(Debug, Clone)]
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
    /// ROPE whose result SET_ROWS stores into the KV cache.
    Rows {
        /// The ROPE and the SET_ROWS.
        nodes: [usize; 2],
        /// Where to.
        rows: Rows,
    },
    /// Two products of the same activations, and a GLU of both.
    Gated {
        /// The products and the GLU, in order.
        nodes: [usize; 3],
        /// The numbers of the dispatch.
        parts: Box<MatvecParts>,
    },
    /// FLASH_ATTN_EXT whose result a product reads in its int8 form.
    Attention(usize),
}

impl Item {
    /// The node at whose place the item is lowered.
    pub(super) fn place(&self) -> usize {
        match self {
            Item::Node(i) | Item::Attention(i) => *i,
            Item::Norm { nodes, .. } => nodes[nodes.len() - 1],
            Item::Rows { nodes, .. } => nodes[1],
            Item::Gated { nodes, .. } => nodes[2],
        }
    }

    /// The nodes that are fused, in order; none for a node by itself.
    fn members(&self) -> &[usize] {
        match self {
            Item::Node(_) | Item::Attention(_) => &[],
            Item::Norm { nodes, .. } => nodes,
            Item::Rows { nodes, .. } => nodes,
            Item::Gated { nodes, .. } => nodes,
        }
    }

    /// Lowers the fused form.
    fn lower(&self, nodes: &[Node], cx: &mut Lowering) -> Result<(), Reject> {
        match self {
            Item::Node(i) => lower_node(&nodes[*i], cx),
            Item::Norm { parts, .. } => norm::lower_fused(parts, cx),
            Item::Gated { parts, .. } => matvec::lower_parts(parts, cx),
            Item::Rows { nodes: [i, _], rows } => rope::lower_rows(&nodes[*i], rows, cx),
            Item::Attention(i) => attention::lower_with(&nodes[*i], cx, true),
        }
    }
}

/// The most nodes between two that are fused; they stand close together in every model.
pub(super) const WINDOW: usize = 8;

/// Whether a node computes something; a layer that nobody wants an output of has results without elements.
fn computes(node: &Node) -> bool {
    node.compute && node.dst.elements() > 0
}

/// The items of a run of nodes, in order; each node that computes something is in exactly one.
pub fn items(nodes: &[Node], caps: &Caps) -> Vec<Item> {
    let mut taken = vec![false; nodes.len()];
    let mut out: Vec<Item> = Vec::new();
    for i in 0..nodes.len() {
        if taken[i] || !computes(&nodes[i]) {
            continue;
        }
        let found = norm_at(nodes, i, &taken, caps)
            .map(|(members, parts)| Item::Norm { nodes: members, parts: Box::new(parts) })
            .or_else(|| rows_at(nodes, i, &taken).map(|(set, rows)| Item::Rows { nodes: [i, set], rows }))
            .or_else(|| {
                gated_at(nodes, i, &taken, caps).map(|(nodes, parts)| Item::Gated { nodes, parts: Box::new(parts) })
            })
            .or_else(|| attention_at(nodes, i, caps).then_some(Item::Attention(i)))
            .filter(|item| item.members().iter().all(|&m| computes(&nodes[m])) && movable(nodes, item.members()))
            .unwrap_or(Item::Node(i));
        for &member in found.members() {
            taken[member] = true;
        }
        out.push(found);
    }
    out.sort_by_key(Item::place);
    out
}

/// Lowers an item. A fused form that does not take these shapes is lowered node by node.
///
/// # Errors
/// The first node that the GPU does not compute.
pub fn lower(item: &Item, nodes: &[Node], cx: &mut Lowering) -> Result<(), Reject> {
    let before = cx.dispatches.len();
    cx.taken.clear();
    let result = item.lower(nodes, cx);
    if result.is_ok() || item.members().is_empty() {
        return result;
    }
    cx.dispatches.truncate(before);
    item.members().iter().try_for_each(|&i| lower_node(&nodes[i], cx))
}

/// Results beyond this many bytes stay where ggml put them: those of a prompt, where a barrier counts for nothing.
const LARGEST_MOVED: u64 = 1 << 20;

/// The result of a product that exactly one node reads, soon, and the place of the item that reads it. ggml hands the memory
/// of such a result on at once, and products that could run together would wait for each other.
pub(super) fn movable_result(item: &Item, nodes: &[Node], items: &[Item]) -> Option<(Tensor, usize)> {
    let Item::Node(i) = item else { return None };
    let node = &nodes[*i];
    let own = node.dst.root == node.dst.id && !node.output && node.dst.span() <= LARGEST_MOVED;
    if node.op != "MUL_MAT" || !own {
        return None;
    }
    let (mut at, end) = (*i, nodes.len().min(i + 1 + 2 * WINDOW));
    loop {
        if nodes[at].uses != Some(1) || nodes[at].output {
            return None;
        }
        let id = nodes[at].dst.id;
        at = (at + 1..end).find(|&j| nodes[j].sources().any(|s| s.id == id))?;
        if nodes[at].compute {
            break;
        }
    }
    // What is computed in place, as a view of the product, is the product's memory, and has readers of its own.
    if nodes.iter().any(|n| n.compute && n.dst.root == node.dst.id && n.dst.id != node.dst.id) {
        return None;
    }
    // A fused reader reads when its last node's turn comes.
    let reader = items.iter().find(|item| item.place() == at || item.members().contains(&at))?;
    Some((node.dst, reader.place()))
}

/// The node after `i` that computes with its result, if that is the only reader and may be fused with it.
pub(super) fn only_reader(nodes: &[Node], i: usize, taken: &[bool]) -> Option<usize> {
    let node = &nodes[i];
    if node.output || node.uses != Some(1) || node.dst.root != node.dst.id {
        return None;
    }
    let end = nodes.len().min(i + 1 + WINDOW);
    (i + 1..end).find(|&j| nodes[j].compute && !taken[j] && nodes[j].sources().any(|s| s.id == node.dst.id))
}

/// Whether a node reads `t` in its int8 form: a product of few columns with quantised weights.
pub(super) fn reads_int8(node: &Node, t: &Tensor, caps: &Caps) -> bool {
    let product = node.op == "MUL_MAT" || node.op == "MUL_MAT_ID";
    let (Some(w), Some(x)) = (node.src[0], node.src[1]) else { return false };
    let few = node.op == "MUL_MAT_ID" || node.dst.ne[1] <= 16 || caps.matrix_f16.is_none();
    product && caps.dot && w.ty.quantized() && few && x.data == t.data && x.elements() == t.elements()
}

/// Whether `i` is an attention whose result a product reads in its int8 form.
fn attention_at(nodes: &[Node], i: usize, caps: &Caps) -> bool {
    let dst = &nodes[i].dst;
    let end = nodes.len().min(i + 1 + WINDOW);
    nodes[i].op == "FLASH_ATTN_EXT" && nodes[i + 1..end].iter().any(|n| n.compute && reads_int8(n, dst, caps))
}

/// Whether all members can be computed at the place of the last one: no node between writes what they read, or reads or
/// writes what they write.
fn movable(nodes: &[Node], members: &[usize]) -> bool {
    let (Some(&first), Some(&last)) = (members.first(), members.last()) else { return true };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Type;

    fn tensor(id: u64) -> Tensor {
        Tensor { id, root: id, data: id << 12, ..Tensor::new(Type::F32, [32, 4, 1, 1]) }
    }

    /// A product that is read once, and what reads it: a node with a result at `sum`, which a third node reads.
    fn chain(sum: Tensor) -> Vec<Node> {
        let (w, x, product) = (tensor(1), tensor(2), tensor(3));
        let one = |node: Node| Node { uses: Some(1), ..node };
        let nodes = [("MUL_MAT", product, [w, x]), ("ADD", sum, [product, x]), ("MUL", tensor(9), [sum, x])];
        nodes.map(|(op, dst, src)| one(Node::new(op, dst, &src))).to_vec()
    }

    #[test]
    fn what_has_no_elements_is_in_no_item() {
        let caps = Caps { dot: true, ..Caps::for_tests() };
        let (t, weights) = (|id, n| Tensor { ne: [32, n, 1, 1], ..tensor(id) }, Tensor { ty: Type::Q8_0, ..tensor(1) });
        let layer = |n: i64| {
            let (x, gate, up, hidden) = (t(2, n), t(3, n), t(4, n), t(5, n));
            let node = |op, dst, src: &[Tensor]| Node { uses: Some(1), ..Node::new(op, dst, src) };
            let function = Node { sub: "SWIGLU", ..node("GLU", hidden, &[gate, up]) };
            vec![node("MUL_MAT", gate, &[weights, x]), node("MUL_MAT", up, &[weights, x]), function]
        };
        assert!(matches!(items(&layer(1), &caps)[..], [Item::Gated { .. }]));
        assert!(items(&layer(0), &caps).is_empty(), "a layer without outputs");
        let mut cx = Lowering::question(&caps);
        assert_eq!(super::super::lower_all(&layer(0), &mut cx), Ok(()));
        assert!(cx.dispatches.is_empty());
    }

    #[test]
    fn a_product_is_not_moved_when_a_view_of_it_is_computed_in_its_place() {
        let moved = |nodes: &[Node]| movable_result(&Item::Node(0), nodes, &items(nodes, &Caps::for_tests())).is_some();
        assert!(moved(&chain(tensor(4))));
        // As ggml_add_inplace makes it: another tensor over the product's memory.
        let inplace = Tensor { id: 4, ..tensor(3) };
        assert!(!moved(&chain(inplace)));
        let mut read_by_the_host = chain(tensor(4));
        read_by_the_host[0].output = true;
        assert!(!moved(&read_by_the_host));
    }
}
