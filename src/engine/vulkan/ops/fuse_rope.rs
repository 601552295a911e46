//! ROPE whose result is stored into the KV cache and read by nobody else.

use super::fuse::WINDOW;
use super::rope::Rows;
use crate::graph::{Node, Type};

/// The SET_ROWS that alone reads the ROPE at `i`, through views that keep the order of the elements, and where it stores.
pub(super) fn rows_at(nodes: &[Node], i: usize, taken: &[bool]) -> Option<(usize, Rows)> {
    let rope = &nodes[i];
    if rope.op != "ROPE" || rope.output || rope.dst.root != rope.dst.id || !rope.dst.contiguous() {
        return None;
    }
    let mut at = i;
    let end = nodes.len().min(i + 1 + 2 * WINDOW);
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
    let set = &nodes[at];
    let (values, index) = (set.src[0]?, set.src[1]?);
    let [dims, heads, tokens, sequences] = rope.dst.ne;
    let same = values.ty == Type::F32 && values.data == rope.dst.data && values.contiguous();
    let whole = values.ne == [dims * heads, tokens, 1, 1] && sequences == 1;
    (set.op == "SET_ROWS" && !taken[at] && same && whole).then_some((at, Rows { cache: set.dst, index }))
}
