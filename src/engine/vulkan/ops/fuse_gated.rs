//! The two products of a gated feed-forward layer with the function that joins them.

use super::Caps;
use super::fuse::{WINDOW, only_reader, reads_int8};
use super::matvec::{Glu, MatvecParts};
use crate::graph::{Node, Type};

/// The most columns for which the fused form exists; it is a matvec.
const COLUMNS: i64 = 16;

/// The two products of which the one at `i` comes first, and their GLU, when nobody else reads the products.
pub(super) fn gated_at(nodes: &[Node], i: usize, taken: &[bool], caps: &Caps) -> Option<([usize; 3], MatvecParts)> {
    let first = &nodes[i];
    let glu = only_reader(nodes, i, taken).filter(|&j| nodes[j].op == "GLU")?;
    let kind = match nodes[glu].sub {
        "SWIGLU" => Glu::Swiglu,
        "GEGLU" => Glu::Geglu,
        _ => return None,
    };
    let (gate, up) = (nodes[glu].src[0]?, nodes[glu].src[1]?);
    let other = if gate.id == first.dst.id { up.id } else { gate.id };
    let second = (i + 1..glu).find(|&j| nodes[j].dst.id == other && nodes[j].compute && !taken[j])?;
    if only_reader(nodes, second, taken) != Some(glu) || gate.id == up.id {
        return None;
    }
    let few = |n: &Node| n.op == "MUL_MAT" && n.dst.ty == Type::F32 && n.dst.ne[1] <= COLUMNS && n.dst.contiguous();
    if !few(first) || !few(&nodes[second]) || !caps.dot {
        return None;
    }
    let (a, b) = if gate.id == first.dst.id { (first, &nodes[second]) } else { (&nodes[second], first) };
    let (w, w2, x, x2) = (a.src[0]?, b.src[0]?, a.src[1]?, b.src[1]?);
    let shared = x.data == x2.data && x.ne == x2.ne && x.nb == x2.nb;
    // A request for f32 arithmetic is not for integer products.
    if !shared || w.ty != w2.ty || !w.ty.quantized() || a.params != [0; 16] || b.params != [0; 16] {
        return None;
    }
    let dst = nodes[glu].dst;
    let end = nodes.len().min(glu + 1 + WINDOW);
    let int8 = nodes[glu + 1..end].iter().any(|n| n.compute && reads_int8(n, &dst, caps));
    let parts = MatvecParts { pair: Some((w2, kind)), int8, ..MatvecParts::new(w, x, dst) };
    Some(([i, second, glu], parts))
}
