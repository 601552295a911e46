//! What a node asks of a processor, as the silicon sees it. Counted here, not with the planner's numbers.

use crate::graph::{Node, Tensor, Type};

/// How a node's work is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// A product.
    Product,
    /// Products by expert.
    Experts,
    /// Flash attention.
    Attention,
    /// Row by row.
    Rows,
}

/// The demands of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ask {
    /// Its layout.
    pub shape: Shape,
    /// The type that is unpacked.
    pub ty: Type,
    /// Rows of the weights; heads; elements of a row.
    pub m: f64,
    /// Length of a sum.
    pub k: f64,
    /// Columns for each weight that is read; queries; rows.
    pub n: f64,
    /// Positions of the cache; experts that are touched; 1.
    pub depth: f64,
    /// Bytes that come from memory whatever the caches hold: weights, KV cache.
    pub stream: f64,
    /// Bytes of activations that are read.
    pub fresh: f64,
    /// Bytes that are written.
    pub made: f64,
    /// Operations.
    pub ops: f64,
}

fn size(t: &Tensor) -> f64 {
    t.elements().max(0) as f64 * t.ty.bytes() as f64 / t.ty.block() as f64
}

/// Operations for each element of a node that works row by row.
fn effort(op: &str) -> f64 {
    match op {
        "ROPE" => 6.0,
        "GLU" | "SOFT_MAX" => 10.0,
        "ARGSORT" => 12.0,
        "RMS_NORM" => 3.0,
        _ => 1.0,
    }
}

impl Ask {
    /// What `node` asks, or that many rows of it; `None` without work.
    pub fn of(node: &Node, rows: Option<u64>) -> Option<Ask> {
        if !node.compute || node.dst.elements() <= 0 {
            return None;
        }
        let (dst, d) = (&node.dst, |i: usize| node.dst.ne[i] as f64);
        Some(match (node.op, node.src[0], node.src[1]) {
            ("MUL_MAT", Some(w), Some(x)) => {
                let (m, k, n) = (rows.map_or(d(0), |r| r as f64), w.ne[0] as f64, dst.rows() as f64);
                let (share, fresh) = (m / d(0), size(&x));
                let (stream, made) = (size(&w) * share, size(dst) * share);
                Ask { shape: Shape::Product, ty: w.ty, m, k, n, depth: 1.0, stream, fresh, made, ops: 2.0 * m * k * n }
            }
            ("MUL_MAT_ID", Some(w), Some(x)) => {
                let (m, k, count) = (rows.map_or(d(0), |r| r as f64), w.ne[0] as f64, w.ne[2] as f64);
                let (share, used, tokens) = (m / d(0), d(1), d(2));
                // Neighbouring tokens like the same experts, so fewer are touched than by chance.
                let depth = count * (1.0 - (1.0 - used / count).powf(tokens.powf(0.9)));
                let ops = 2.0 * m * k * tokens * used;
                let (stream, made, n) = (size(&w) / count * depth * share, size(dst) * share, tokens * used / depth);
                Ask { shape: Shape::Experts, ty: w.ty, m, k, n, depth, stream, fresh: size(&x), made, ops }
            }
            ("FLASH_ATTN_EXT", Some(q), Some(k)) => {
                let [head, n, heads, depth] = [q.ne[0], q.ne[1] * q.ne[3], q.ne[2], k.ne[1]].map(|x| x as f64);
                let (stream, ops) = (2.0 * size(&k), 4.0 * heads * head * n * depth);
                let (shape, fresh, made) = (Shape::Attention, size(&q), size(dst));
                Ask { shape, ty: k.ty, m: heads, k: head, n, depth, stream, fresh, made, ops }
            }
            (op, first, _) => {
                let source = first.map_or(0.0, |t| size(&t));
                // These touch some rows of what they name.
                let part = ["GET_ROWS", "SET_ROWS"].contains(&op);
                let made = if part { size(dst).min(source) } else { size(dst) };
                let fresh = if part { made } else { node.sources().map(size).sum() };
                let (m, n) = if op == "SET_ROWS" { first.map_or((1.0, 1.0), |t| rows_of(&t)) } else { rows_of(dst) };
                let ops = effort(op) * m * n;
                Ask { shape: Shape::Rows, ty: Type::F32, m, k: 1.0, n, depth: 1.0, stream: 0.0, fresh, made, ops }
            }
        })
    }

    /// Whether its rows can be divided.
    pub fn divisible(&self) -> bool {
        matches!(self.shape, Shape::Product | Shape::Experts)
    }
}

fn rows_of(t: &Tensor) -> (f64, f64) {
    (t.ne[0] as f64, t.rows() as f64)
}
