//! Normalisations with the sum before them, and the weight and the sum after them.

use super::Caps;
use super::fuse::{WINDOW, only_reader, reads_int8};
use super::norm::NormParts;
use crate::graph::{Node, Tensor, Type};

/// Both sources of an f32 sum or product of two contiguous tensors of the result's shape.
fn plain_pair(node: &Node, op: &str) -> Option<(Tensor, Tensor)> {
    let (a, b) = (node.src[0]?, node.src[1]?);
    let same = |t: &Tensor| t.ty == Type::F32 && t.ne == node.dst.ne && t.contiguous();
    (node.op == op && same(&a) && same(&b) && same(&node.dst)).then_some((a, b))
}

/// The nodes of a normalisation that begins at `i`, with what goes before and after it.
pub(super) fn norm_at(nodes: &[Node], i: usize, taken: &[bool], caps: &Caps) -> Option<(Vec<usize>, NormParts)> {
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
    if !in_place(&parts) {
        return None;
    }
    parts.int8 = nodes[last + 1..].iter().any(|n| reads_int8(n, &parts.dst, caps));
    // A norm alone gains nothing, except where products read it.
    (members.len() > 1 || parts.int8).then_some((members, parts))
}

/// Whether results may lie where they do while all rows are computed at once. Between the nodes ggml gives the memory of
/// what was read last to the next result; in one dispatch a row's result must not lie over another row's sources.
fn in_place(parts: &NormParts) -> bool {
    let sources = [Some(parts.input), parts.residual.map(|r| r.0), parts.add];
    let results = [parts.residual.map(|r| r.1), Some(parts.dst)];
    let apart = |a: &Tensor, b: &Tensor| a.data + a.span() <= b.data || b.data + b.span() <= a.data;
    let same = |a: &Tensor, b: &Tensor| a.data == b.data && a.ne == b.ne && a.nb == b.nb;
    let weight_apart = results.iter().flatten().all(|r| parts.weight.is_none_or(|w| apart(&w, r)));
    let results_apart = parts.residual.is_none_or(|(_, sum)| apart(&sum, &parts.dst));
    weight_apart
        && results_apart
        && results.iter().flatten().all(|r| sources.iter().flatten().all(|s| apart(s, r) || same(s, r)))
}

/// Whether `t` is one contiguous f32 row that is repeated over `over`.
fn row_of(t: &Tensor, over: &Tensor) -> bool {
    t.ty == Type::F32 && t.ne == [over.ne[0], 1, 1, 1] && t.row_contiguous()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(id: u64, data: u64) -> Tensor {
        Tensor { id, root: id, data, ..Tensor::new(Type::F32, [32, 4, 1, 1]) }
    }

    /// sum = a + b; norm of it; times a weight, with the result at `to`.
    fn chain(to: u64) -> Vec<Node> {
        let (a, b, sum, norm) = (tensor(1, 0x1000), tensor(2, 0x2000), tensor(3, 0x3000), tensor(4, 0x4000));
        let weight = Tensor { ne: [32, 1, 1, 1], ..tensor(5, 0x5000) };
        let one = |node: Node| Node { uses: Some(1), ..node };
        vec![
            Node { uses: Some(2), ..Node::new("ADD", sum, &[a, b]) },
            one(Node::new("RMS_NORM", norm, &[sum])),
            one(Node::new("MUL", tensor(6, to), &[norm, weight])),
        ]
    }

    #[test]
    fn a_result_over_its_own_rows_is_fused_and_one_over_other_rows_is_not() {
        let fused = |to| norm_at(&chain(to), 0, &[false; 3], &Caps::for_tests()).map(|(members, _)| members);
        assert_eq!(fused(0x6000), Some(vec![0, 1, 2]));
        assert_eq!(fused(0x2000), Some(vec![0, 1, 2]), "in the place of a source, row by row");
        assert_eq!(fused(0x2000 + 128), None, "one row further on");
        assert_eq!(fused(0x1000 - 64), None, "half a row before");
    }
}
