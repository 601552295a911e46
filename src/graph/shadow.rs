//! Some nodes of a graph with their results elsewhere, so that they can be computed a second time and nobody sees it.

use super::{Graph, Node, Tensor};

/// Alignment of results in the memory of a trial, in bytes; what ggml's own buffers of the GPU have.
const ALIGN: u64 = 256;

/// Nodes of a graph with their results elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Shadow {
    /// The graph, of which the nodes of the trial have their results in the trial's memory.
    pub graph: Graph,
    /// The first of these nodes.
    pub first: usize,
    /// Where the result of each of them lies.
    pub addresses: Vec<u64>,
    /// Bytes that the results need.
    pub size: u64,
    /// Whether the sources are still what they were when the graph itself has computed these nodes.
    pub after: bool,
}

impl Shadow {
    /// Nodes `first .. first + count` with their results from `base` on; `None` where a second run would be seen: a node
    /// that writes into memory which exists beyond the graph, or into that of another tensor. `generation` names the memory,
    /// so that nothing recorded for another one is used again.
    pub fn of(graph: &Graph, first: usize, count: usize, base: u64, generation: u64) -> Option<Shadow> {
        let nodes = graph.nodes.get(first..first.checked_add(count)?)?;
        if !nodes.iter().all(repeatable) || !nodes.iter().any(|n| n.compute) {
            return None;
        }
        let mut size = 0;
        let mut moved: Vec<(u64, u64, u64)> = Vec::new();
        for node in nodes.iter().filter(|n| n.compute) {
            moved.push((node.dst.id, node.dst.data, base + size));
            size = (size + node.dst.span()).next_multiple_of(ALIGN);
        }
        let place = |t: &Tensor| {
            let of = |id: u64| moved.iter().find(|m| m.0 == id);
            of(t.id).or_else(|| of(t.root)).map_or(t.data, |(_, data, to)| to + (t.data - data))
        };
        let meet = |a: &Tensor, b: &Tensor| a.data < b.data + b.span() && b.data < a.data + a.span();
        let outside = |t: &&Tensor| place(t) == t.data;
        let written = |t: &Tensor| nodes.iter().any(|n| n.compute && meet(&n.dst, t));
        let after = !nodes.iter().flat_map(Node::sources).filter(outside).any(written);
        let addresses = nodes.iter().map(|n| place(&n.dst)).collect();
        let mut shadow = Shadow { graph: graph.clone(), first, addresses, size, after };
        // Never the name of a graph of the host, which counts from 1.
        shadow.graph.uid = if graph.uid == 0 { 0 } else { 1 << 63 | generation << 48 | graph.uid };
        for node in &mut shadow.graph.nodes[first..first + count] {
            node.dst.data = place(&node.dst);
            for source in node.src.iter_mut().flatten() {
                source.data = place(source);
            }
        }
        Some(shadow)
    }
}

/// Whether a node may be computed twice: nobody sees it, neither in memory that lives on nor in the host.
pub fn repeatable(node: &Node) -> bool {
    // What is no result of its own (in-place operations are views of their source) or lives on after the graph.
    let own = node.dst.root == node.dst.id && !node.output;
    // Custom operations call functions of the host.
    !node.compute || own && !node.op.contains("CUSTOM") && !matches!(node.op, "SET_ROWS" | "CPY" | "SET" | "ACC")
}

#[cfg(test)]
mod tests {
    use super::super::Type;
    use super::*;

    fn tensor(id: u64) -> Tensor {
        Tensor { id, root: id, data: id << 12, ..Tensor::new(Type::F32, [8, 2, 1, 1]) }
    }

    /// A product, a view of it, a sum of the view and a leaf.
    fn graph() -> Graph {
        let (w, x, product, leaf) = (tensor(1), tensor(2), tensor(3), tensor(4));
        let view = Tensor { id: 5, root: 3, data: product.data + 32, ne: [8, 1, 1, 1], ..product };
        let nodes = vec![
            Node::new("MUL_MAT", product, &[w, x]),
            Node { compute: false, ..Node::new("VIEW", view, &[product]) },
            Node::new("ADD", tensor(6), &[view, leaf]),
        ];
        Graph { uid: 7, nodes }
    }

    #[test]
    fn results_move_and_sources_from_outside_stay() {
        let shadow = Shadow::of(&graph(), 0, 3, 1 << 20, 2).unwrap();
        let base = 1 << 20;
        assert_eq!(shadow.addresses, [base, base + 32, base + 256]);
        assert_eq!(shadow.size, 512);
        assert!(shadow.after);
        let mut over = graph();
        over.nodes[2].dst.data = 2 << 12;
        assert!(!Shadow::of(&over, 0, 3, 1 << 20, 2).unwrap().after, "the sum lies over a source of the product");
        let [product, view, sum] = [0, 1, 2].map(|i| shadow.graph.nodes[i]);
        assert_eq!(product.src[0].unwrap().data, 1 << 12, "weights stay");
        assert_eq!((product.dst.data, view.dst.data, sum.dst.data), (base, base + 32, base + 256));
        assert_eq!(sum.src[0].unwrap().data, base + 32, "a view of a result moves with it");
        assert_eq!(sum.src[1].unwrap().data, 4 << 12);
        assert_ne!(shadow.graph.uid, 7);
        // The sum alone reads what the graph itself has computed.
        let alone = Shadow::of(&graph(), 2, 1, base, 2).unwrap();
        assert_eq!(alone.graph.nodes[2].src[0].unwrap().data, (3 << 12) + 32);
        assert_eq!(alone.graph.nodes[2].dst.data, base);
    }

    #[test]
    fn what_others_would_see_is_not_tried() {
        let with = |change: fn(&mut Node)| {
            let mut graph = graph();
            change(&mut graph.nodes[2]);
            Shadow::of(&graph, 0, 3, 1 << 20, 0)
        };
        assert!(with(|_| {}).is_some());
        assert!(with(|n| n.output = true).is_none());
        assert!(with(|n| n.op = "SET_ROWS").is_none());
        assert!(with(|n| n.dst.root = 4).is_none(), "in the place of its source");
        assert!(Shadow::of(&graph(), 1, 1, 0, 0).is_none(), "nothing to compute");
        assert!(Shadow::of(&graph(), 2, 2, 0, 0).is_none(), "beyond the end");
    }
}
