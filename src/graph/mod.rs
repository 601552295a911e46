//! WHAT is computed: a ggml graph as plain data.
//!
//! Pure room: no unsafe code, no clock, no file, no thread.

/// One node of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// ggml's name of the operation, such as `MUL_MAT`.
    pub op: &'static str,
    /// Elements of the result in each dimension.
    pub ne: [i64; 4],
    /// Whether there is anything to compute: ggml wants the result, and the node does more than rename memory.
    pub compute: bool,
}

/// A graph in its order of computation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
