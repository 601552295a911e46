//! Which memory must be kept to compute a graph a second time.

use super::Graph;

/// Memory of leaves that the graph overwrites, as (address, bytes): with it put back, the graph can be run again from its
/// start, whatever part of it ran before.
///
/// Rows that SET_ROWS stores are left out: they do not depend on what was there, so storing them again gives the same.
pub fn overwritten_inputs(graph: &Graph) -> Vec<(u64, u64)> {
    let made: std::collections::HashSet<u64> = graph.nodes.iter().filter(|n| n.compute).map(|n| n.dst.id).collect();
    let writes: Vec<(u64, u64)> = graph
        .nodes
        .iter()
        .filter(|n| n.compute && n.op != "SET_ROWS")
        .map(|n| (n.dst.data, n.dst.data + n.dst.span()))
        .collect();
    let mut kept = Vec::new();
    for t in graph.nodes.iter().filter(|n| n.compute).flat_map(|n| n.src.iter().flatten()) {
        // A view of a result is made by the graph too; a view of a leaf is not.
        if made.contains(&t.id) || made.contains(&t.root) {
            continue;
        }
        let (start, end) = (t.data, t.data + t.span());
        for &(from, to) in writes.iter().filter(|w| w.0 < end && start < w.1) {
            kept.push((start.max(from), end.min(to)));
        }
    }
    join(kept)
}

/// Joins (start, end) ranges that touch; gives (start, bytes).
fn join(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ranges {
        match out.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => out.push((start, end)),
        }
    }
    out.into_iter().map(|(start, end)| (start, end - start)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Node, Tensor, Type};
    use super::*;

    fn tensor(id: u64, data: u64) -> Tensor {
        Tensor { id, root: id, data, ..Tensor::new(Type::F32, [4, 1, 1, 1]) }
    }

    #[test]
    fn an_input_that_a_result_lies_over_is_kept_and_others_are_not() {
        let (input, weight, cache) = (tensor(1, 1000), tensor(2, 2000), tensor(3, 3000));
        let first = tensor(4, 4000);
        let nodes = vec![
            Node::new("ADD", first, &[input, weight]),
            // In the place of the input, half of it.
            Node::new("MUL", tensor(5, 1008), &[first, weight]),
            Node::new("SET_ROWS", Tensor { id: 6, root: 3, ..cache }, &[first, tensor(7, 7000), cache]),
            // In the place of a result: nothing to keep.
            Node::new("ADD", tensor(8, 4000), &[first, weight]),
        ];
        assert_eq!(overwritten_inputs(&Graph { uid: 1, nodes }), [(1008, 8)]);
    }

    #[test]
    fn ranges_are_joined() {
        assert_eq!(join(vec![(8, 12), (0, 4), (2, 6), (12, 13)]), [(0, 6), (8, 5)]);
    }
}
