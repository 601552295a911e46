//! Nodes in the order in which `ggml_build_forward_expand` finds them.

use crate::graph::{MAX_SRC, Node, Tensor, Type};

/// A tensor of the tape.
#[derive(Clone, Copy)]
pub struct Ref(usize);

struct Made {
    node: Node,
    sources: Vec<Ref>,
    leaf: bool,
    found: bool,
}

/// Tensors as they are made, and the nodes among them as they are asked for.
pub struct Tape {
    base: u64,
    made: Vec<Made>,
    order: Vec<usize>,
}

impl Tape {
    /// An empty tape. `base` tells the tensors of one model from another's.
    pub fn new(base: u64) -> Tape {
        Tape { base, made: Vec::new(), order: Vec::new() }
    }

    fn push(&mut self, node: Node, sources: &[Ref], leaf: bool, root: Option<Ref>) -> Ref {
        let at = Ref(self.made.len());
        let id = self.base.wrapping_add(at.0 as u64 + 1);
        let root = root.map_or(id, |r| self.made[r.0].node.dst.root);
        let mut node = Node { uses: Some(0), ..node };
        (node.dst.id, node.dst.root) = (id, root);
        for (place, source) in node.src.iter_mut().take(MAX_SRC).zip(sources) {
            *place = Some(self.made[source.0].node.dst);
        }
        self.made.push(Made { node, sources: sources.to_vec(), leaf, found: false });
        at
    }

    /// A weight, a cache or an input.
    pub fn leaf(&mut self, ty: Type, ne: [i64; 4]) -> Ref {
        self.push(Node::new("NONE", Tensor::new(ty, ne), &[]), &[], true, None)
    }

    /// A node that computes a contiguous result.
    pub fn node(&mut self, op: &'static str, ne: [i64; 4], sources: &[Ref]) -> Ref {
        self.push(Node::new(op, Tensor::new(Type::F32, ne), &[]), sources, false, None)
    }

    /// A node that is another name of its source's memory.
    pub fn view(&mut self, op: &'static str, of: Ref, ne: [i64; 4], nb: [u64; 4]) -> Ref {
        let dst = Tensor { ne, nb, ..self.tensor(of) };
        let node = Node { compute: false, ..Node::new(op, dst, &[]) };
        self.push(node, &[of], false, Some(of))
    }

    /// `ggml_reshape`.
    pub fn reshape(&mut self, of: Ref, ne: [i64; 4]) -> Ref {
        let nb = Tensor::new(self.tensor(of).ty, ne).nb;
        self.view("RESHAPE", of, ne, nb)
    }

    /// `ggml_permute(.., 0, 2, 1, 3)`.
    pub fn permute(&mut self, of: Ref) -> Ref {
        let Tensor { ne, nb, .. } = self.tensor(of);
        self.view("PERMUTE", of, [ne[0], ne[2], ne[1], ne[3]], [nb[0], nb[2], nb[1], nb[3]])
    }

    /// A node that writes some rows of `into`, and whose result is all of it.
    pub fn set_rows(&mut self, into: Ref, rows: Ref, indices: Ref) -> Ref {
        let node = Node::new("SET_ROWS", self.tensor(into), &[]);
        self.push(node, &[rows, indices, into], false, Some(into))
    }

    /// The product of a weight and its input.
    pub fn product(&mut self, weight: Ref, x: Ref) -> Ref {
        let (w, x_ne) = (self.tensor(weight).ne, self.tensor(x).ne);
        self.node("MUL_MAT", [w[1], x_ne[1], x_ne[2], x_ne[3]], &[weight, x])
    }

    /// The products of each column with the experts that it chose.
    pub fn product_by_expert(&mut self, weights: Ref, x: Ref, chosen: Ref) -> Ref {
        let (w, ids) = (self.tensor(weights).ne, self.tensor(chosen).ne);
        self.node("MUL_MAT_ID", [w[1], ids[0], ids[1], 1], &[weights, x, chosen])
    }

    /// The tensor.
    pub fn tensor(&self, at: Ref) -> Tensor {
        self.made[at.0].node.dst
    }

    /// The node, to set what distinguishes it.
    pub fn edit(&mut self, at: Ref) -> &mut Node {
        &mut self.made[at.0].node
    }

    /// `ggml_build_forward_expand`: the node and what it needs, sources first, each once.
    pub fn expand(&mut self, at: Ref) {
        if std::mem::replace(&mut self.made[at.0].found, true) {
            return;
        }
        for source in self.made[at.0].sources.clone() {
            self.expand(source);
            let uses = &mut self.made[source.0].node.uses;
            *uses = uses.map(|n| n + 1);
        }
        if !self.made[at.0].leaf {
            self.order.push(at.0);
        }
    }

    /// The nodes that were asked for.
    pub fn finish(self) -> Vec<Node> {
        self.order.iter().map(|&i| self.made[i].node).collect()
    }
}
