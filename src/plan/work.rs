//! What a node asks of whoever computes it: its numbers without addresses, the key under which costs are known.

use crate::graph::{Node, Type};

/// Kinds of work whose costs have something in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// MUL_MAT: its rows can be divided among engines.
    Product,
    /// MUL_MAT_ID, whose rows can be divided too.
    Experts,
    /// FLASH_ATTN_EXT.
    Attention,
    /// Everything else: memory goes in and out.
    Other,
}

/// The numbers of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Work {
    /// What kind.
    pub kind: Kind,
    /// The type of the weights; of the cache for attention; of the first source for the rest.
    pub ty: Type,
    /// Rows of the weights that are computed; heads of Q for attention; elements of a row for the rest.
    pub m: u64,
    /// Length of the sums: K of a product; the size of a head for attention; 1 for the rest.
    pub k: u64,
    /// Columns of the result, all matrices together: the width. Queries for attention; rows for the rest.
    pub n: u64,
    /// Experts that the columns can choose from; positions of the KV cache for attention; 1 for the rest.
    pub depth: u64,
    /// Experts that each column uses; heads of K for attention; sources for the rest.
    pub used: u64,
}

impl Work {
    /// The work of a node; `None` when it has none.
    pub fn of(node: &Node) -> Option<Work> {
        let (dst, first) = (&node.dst, node.src[0]);
        if !node.compute || dst.elements() <= 0 {
            return None;
        }
        let u = |n: i64| n.max(0) as u64;
        let work = match (node.op, first, node.src[1]) {
            ("MUL_MAT", Some(w), _) => {
                let (m, n) = (u(dst.ne[0]), u(dst.rows()));
                Work { kind: Kind::Product, ty: w.ty, m, k: u(w.ne[0]), n, depth: 1, used: 1 }
            }
            ("MUL_MAT_ID", Some(w), _) => {
                let (used, n) = (u(dst.ne[1]), u(dst.ne[2]));
                Work { kind: Kind::Experts, ty: w.ty, m: u(dst.ne[0]), k: u(w.ne[0]), n, depth: u(w.ne[2]), used }
            }
            ("FLASH_ATTN_EXT", Some(q), Some(k)) => {
                let (m, n) = (u(q.ne[2]), u(q.ne[1] * q.ne[3]));
                Work { kind: Kind::Attention, ty: k.ty, m, k: u(k.ne[0]), n, depth: u(k.ne[1]), used: u(k.ne[2]) }
            }
            // The result is the whole cache, of which the rows of the first source are written.
            ("SET_ROWS", Some(rows), _) => {
                Work { kind: Kind::Other, ty: dst.ty, m: u(rows.ne[0]), k: 1, n: u(rows.rows()), depth: 1, used: 1 }
            }
            _ => {
                let (ty, used) = (first.map_or(dst.ty, |t| t.ty), node.sources().count() as u64);
                Work { kind: Kind::Other, ty, m: u(dst.ne[0]), k: 1, n: u(dst.rows()), depth: 1, used }
            }
        };
        Some(work)
    }

    /// The same work for `m` of its rows.
    pub fn with_rows(self, m: u64) -> Work {
        Work { m, ..self }
    }

    /// Whether its rows can be divided among engines.
    pub fn divisible(self) -> bool {
        matches!(self.kind, Kind::Product | Kind::Experts)
    }

    /// Operations; a multiplication and an addition are two.
    pub fn operations(self) -> f64 {
        let [m, k, n, depth, used] = [self.m, self.k, self.n, self.depth, self.used].map(|x| x as f64);
        match self.kind {
            Kind::Product => 2.0 * m * k * n,
            Kind::Experts => 2.0 * m * k * n * used,
            Kind::Attention => 4.0 * m * k * n * depth,
            Kind::Other => m * n,
        }
    }

    /// Bytes that must come from memory and go there when nothing stays in a cache.
    pub fn bytes(self) -> f64 {
        let [m, k, n, depth, used] = [self.m, self.k, self.n, self.depth, self.used].map(|x| x as f64);
        let element = self.ty.bytes() as f64 / self.ty.block() as f64;
        match self.kind {
            Kind::Product => m * k * element + 4.0 * (k * n + m * n),
            // As many experts as the columns choose at random.
            Kind::Experts => {
                let touched = depth * (1.0 - (1.0 - used / depth.max(1.0)).powf(n));
                touched * m * k * element + 4.0 * (k * n + m * n * used)
            }
            Kind::Attention => 2.0 * used * k * depth * element + 8.0 * m * k * n,
            Kind::Other => (used + 1.0) * 4.0 * m * n,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Tensor;

    #[test]
    fn a_product_reads_its_weights_once() {
        let tensor = |ty, ne| Tensor::new(ty, ne);
        let (w, x) = (tensor(Type::Q4_0, [64, 10, 1, 1]), tensor(Type::F32, [64, 3, 1, 1]));
        let work = Work::of(&Node::new("MUL_MAT", tensor(Type::F32, [10, 3, 1, 1]), &[w, x])).unwrap();
        assert_eq!((work.kind, work.m, work.k, work.n), (Kind::Product, 10, 64, 3));
        assert_eq!(work.operations(), 2.0 * 10.0 * 64.0 * 3.0);
        // Ten rows of two blocks of 18 bytes, and f32 in and out.
        assert_eq!(work.bytes(), 360.0 + 4.0 * (64.0 * 3.0 + 30.0));
        assert_eq!(work.with_rows(5).operations(), work.operations() / 2.0);
    }

    #[test]
    fn experts_are_read_as_often_as_they_are_chosen() {
        let (w, x) = (Tensor::new(Type::Q8_0, [32, 4, 8, 1]), Tensor::new(Type::F32, [32, 1, 1, 1]));
        let ids = Tensor::new(Type::F32, [2, 1, 1, 1]);
        let work = Work::of(&Node::new("MUL_MAT_ID", Tensor::new(Type::F32, [4, 2, 1, 1]), &[w, x, ids])).unwrap();
        assert_eq!((work.n, work.depth, work.used), (1, 8, 2));
        // One token reads two experts of four rows of 34 bytes.
        assert!((work.bytes() - (2.0 * 4.0 * 34.0 + 4.0 * (32.0 + 8.0))).abs() < 1e-9);
    }

    #[test]
    fn storing_rows_in_a_cache_moves_those_rows() {
        let (row, cache) = (Tensor::new(Type::F32, [64, 2, 1, 1]), Tensor::new(Type::F16, [64, 4096, 1, 1]));
        let work = Work::of(&Node::new("SET_ROWS", cache, &[row, Tensor::new(Type::I64, [2, 1, 1, 1])])).unwrap();
        assert_eq!((work.m, work.n, work.ty), (64, 2, Type::F16));
    }

    #[test]
    fn nodes_without_work_have_none() {
        let t = Tensor::new(Type::F32, [8, 2, 1, 1]);
        assert!(Work::of(&Node { compute: false, ..Node::new("ADD", t, &[t, t]) }).is_none());
        assert!(Work::of(&Node::new("ADD", Tensor::new(Type::F32, [8, 0, 1, 1]), &[t, t])).is_none());
        let add = Work::of(&Node::new("ADD", t, &[t, t])).unwrap();
        assert_eq!((add.kind, add.bytes()), (Kind::Other, 3.0 * 64.0));
    }
}
