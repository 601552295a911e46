//! A chip and small graphs for the tests of this room.

use crate::chip::model::{Chip, Processor};
use crate::engine::EngineKind;
use crate::graph::{Graph, Node, Tensor, Type};

/// A CPU and a GPU on one memory.
pub fn chip() -> Chip {
    let cpu = Processor {
        kind: EngineKind::Cpu,
        name: "eight cores".into(),
        bandwidth: 50e9,
        few: 400e9,
        many: 600e9,
        launch: 5e-6,
        node: 3e-6,
        rows: 16,
        watts: 30.0,
    };
    let gpu = Processor {
        kind: EngineKind::Gpu,
        name: "twelve units".into(),
        bandwidth: 60e9,
        few: 2e12,
        many: 5e12,
        launch: 40e-6,
        node: 4e-6,
        rows: 32,
        watts: 20.0,
    };
    let (name, shared) = ("a test".into(), vec![EngineKind::Cpu, EngineKind::Gpu]);
    Chip { name, bus: 75e9, shared, join: 20e-6, idle: 5.0, processors: vec![cpu, gpu] }
}

/// Layers of norm, three products, attention over `depth` positions and a sum, then the head.
pub fn model(uid: u64, layers: u64, width: i64, depth: i64) -> Graph {
    let mut nodes: Vec<Node> = Vec::new();
    let leaf = |id: u64, ty, ne| Tensor { id, root: id, ..Tensor::new(ty, ne) };
    let mut x = leaf(1, Type::F32, [1024, width, 1, 1]);
    for layer in 0..layers {
        let id = 100 * (layer + 1);
        let norm = leaf(id, Type::F32, [1024, width, 1, 1]);
        nodes.push(Node::new("RMS_NORM", norm, &[x]));
        let cache = leaf(id + 10, Type::F16, [64, depth, 4, 1]);
        let q = leaf(id + 1, Type::F32, [1024, width, 1, 1]);
        nodes.push(Node::new("MUL_MAT", q, &[leaf(id + 11, Type::Q4_K, [1024, 1024, 1, 1]), norm]));
        nodes.push(Node { compute: false, ..Node::new("RESHAPE", Tensor { id: id + 2, ..q }, &[q]) });
        let heads = Tensor { id: id + 2, root: id + 1, ..Tensor::new(Type::F32, [64, width, 16, 1]) };
        let seen = leaf(id + 3, Type::F32, [64, 16, width, 1]);
        nodes.push(Node::new("SET_ROWS", Tensor { id: id + 12, root: id + 10, ..cache }, &[norm, cache]));
        nodes.push(Node::new("FLASH_ATTN_EXT", seen, &[heads, cache, cache]));
        let up = leaf(id + 4, Type::F32, [4096, width, 1, 1]);
        nodes.push(Node::new("MUL_MAT", up, &[leaf(id + 13, Type::Q4_K, [1024, 4096, 1, 1]), seen]));
        let down = leaf(id + 5, Type::F32, [1024, width, 1, 1]);
        nodes.push(Node::new("MUL_MAT", down, &[leaf(id + 14, Type::Q6_K, [4096, 1024, 1, 1]), up]));
        x = leaf(id + 6, Type::F32, [1024, width, 1, 1]);
        nodes.push(Node::new("ADD", x, &[down, norm]));
    }
    let logits = leaf(2, Type::F32, [32000, width, 1, 1]);
    let head = Node::new("MUL_MAT", logits, &[leaf(3, Type::Q6_K, [1024, 32000, 1, 1]), x]);
    nodes.push(Node { output: true, ..head });
    Graph { uid, nodes }
}
