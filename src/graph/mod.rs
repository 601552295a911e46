//! WHAT is computed: a ggml graph as plain data.
//!
//! Pure room: no unsafe code, no clock, no file, no thread.

pub mod gguf;
pub mod grids;
pub mod kept;
pub mod reference;
pub mod shadow;
pub mod shapes;
pub mod types;

pub use types::Type;

/// A tensor as ggml describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tensor {
    /// Its type.
    pub ty: Type,
    /// Elements in each dimension.
    pub ne: [i64; 4],
    /// Bytes from one element to the next in each dimension; `nb[0]` is the size of a block.
    pub nb: [u64; 4],
    /// Address of the first byte as the host sees it; 0 when the tensor has no memory yet.
    pub data: u64,
    /// Names the tensor within its graph.
    pub id: u64,
    /// The tensor that it is a view of; its own `id` when it is none.
    pub root: u64,
}

impl Tensor {
    /// A contiguous tensor without memory.
    pub fn new(ty: Type, ne: [i64; 4]) -> Tensor {
        let mut nb = [ty.bytes(); 4];
        nb[1] = ty.bytes() * (ne[0].max(0) as u64).div_ceil(ty.block());
        nb[2] = nb[1] * ne[1].max(0) as u64;
        nb[3] = nb[2] * ne[2].max(0) as u64;
        Tensor { ty, ne, nb, data: 0, id: 0, root: 0 }
    }

    /// Number of elements.
    pub fn elements(&self) -> i64 {
        self.ne.iter().product()
    }

    /// Number of rows: elements over `ne[0]`.
    pub fn rows(&self) -> i64 {
        self.ne[1] * self.ne[2] * self.ne[3]
    }

    /// Bytes from the first to the one after the last, holes included; 0 for an empty tensor.
    pub fn span(&self) -> u64 {
        if self.elements() == 0 {
            return 0;
        }
        let row = if self.ty.quantized() {
            self.nb[0] * (self.ne[0] as u64).div_ceil(self.ty.block())
        } else {
            self.ty.bytes() + (self.ne[0] as u64 - 1) * self.nb[0]
        };
        row + (1..4).map(|i| (self.ne[i] as u64 - 1) * self.nb[i]).sum::<u64>()
    }

    /// Whether the elements lie without holes in the order of their dimensions, as `ggml_is_contiguous`.
    pub fn contiguous(&self) -> bool {
        self.contiguous_from(0)
    }

    /// Whether a row lies without holes.
    pub fn row_contiguous(&self) -> bool {
        self.nb[0] == self.ty.bytes()
    }

    /// Whether dimensions above `n` follow each other without holes, and rows too; as `ggml_is_contiguous_n`.
    pub fn contiguous_from(&self, n: usize) -> bool {
        let mut next = self.ty.bytes();
        if self.ne[0] != self.ty.block() as i64 && self.nb[0] != next {
            return false;
        }
        next *= (self.ne[0] as u64).div_ceil(self.ty.block());
        for i in 1..4 {
            if i <= n {
                next = self.nb[i] * self.ne[i] as u64;
                continue;
            }
            if self.ne[i] != 1 && self.nb[i] != next {
                return false;
            }
            next *= self.ne[i] as u64;
        }
        true
    }
}

/// The most sources that a node has; `GGML_MAX_SRC`.
pub const MAX_SRC: usize = 10;

/// One node of a graph.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Node {
    /// ggml's name of the operation, such as `MUL_MAT`.
    pub op: &'static str,
    /// ggml's name of the function of a `UNARY` or `GLU` node, such as `GELU`; empty for others.
    pub sub: &'static str,
    /// ggml's `op_params`; what they mean depends on the operation.
    pub params: [i32; 16],
    /// The result.
    pub dst: Tensor,
    /// The sources; ggml leaves gaps, so a place has its meaning.
    pub src: [Option<Tensor>; MAX_SRC],
    /// Whether there is anything to compute: ggml wants the result, and the node does more than rename memory.
    pub compute: bool,
    /// Whether the host reads the result after the graph.
    pub output: bool,
    /// How many nodes of the host's whole graph read the result, views of it included; `None` when that is unknown.
    pub uses: Option<u32>,
}

impl Node {
    /// A node without memory, for questions and tests.
    pub fn new(op: &'static str, dst: Tensor, sources: &[Tensor]) -> Node {
        let mut src = [None; MAX_SRC];
        for (place, tensor) in src.iter_mut().zip(sources) {
            *place = Some(*tensor);
        }
        Node { op, sub: "", params: [0; 16], dst, src, compute: true, output: false, uses: None }
    }

    /// A parameter that is a float.
    pub fn param_f32(&self, index: usize) -> f32 {
        f32::from_bits(self.params[index] as u32)
    }

    /// The sources that are there.
    pub fn sources(&self) -> impl Iterator<Item = &Tensor> {
        self.src.iter().flatten()
    }
}

/// A graph in its order of computation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Graph {
    /// Non-zero: names a repeated graph. Two graphs with the same non-zero uid are the same graph.
    pub uid: u64,
    /// The nodes.
    pub nodes: Vec<Node>,
}

impl Graph {
    /// The number of nodes that compute something.
    pub fn computed(&self) -> u64 {
        self.nodes.iter().filter(|n| n.compute).count() as u64
    }
}
