//! Matrix products of many columns: with cooperative matrices where the device has them, else with tiles of integer dot
//! products, else with tiles of floats. A column's bits can depend on how many there are.

use super::{Lowering, Reject, matmul_matrix, matmul_tile, source, type_list};
use crate::graph::{Node, Tensor, Type};

/// The fewest columns; fewer are left to the kernels whose columns have the same bits at every width.
const COLUMNS: i64 = 17;

/// `GGML_PREC_F32` in `op_params[0]`: no 16-bit and no 8-bit activations.
pub const PRECISE: i32 = 10;

/// A product that was looked at: `dst[n][m] = sum over k of a[m][k] * b[n][k]`.
#[derive(Debug, Clone, Copy)]
pub struct Product {
    /// The weights.
    pub a: Tensor,
    /// The activations, f32.
    pub b: Tensor,
    /// The result, f32.
    pub dst: Tensor,
    /// Rows of the weights.
    pub m: u32,
    /// Columns.
    pub n: u32,
    /// Length of the sums.
    pub k: u32,
    /// Matrices of the result.
    pub batches: u32,
    /// So many matrices of the result in dimensions 2 and 3 share their weights.
    pub share: [u32; 2],
    /// The host wants no less than f32 activations.
    pub precise: bool,
}

impl Product {
    fn of(node: &Node) -> Result<Product, Reject> {
        let (a, b, dst) = (source(node, 0)?, source(node, 1)?, node.dst);
        let shape = |what: &str| Err(Reject::Shape("MUL_MAT", format!("{what}: {:?} x {:?}", a.ne, b.ne)));
        if node.op != "MUL_MAT" {
            return Err(Reject::Op(node.op.to_owned()));
        }
        if b.ty != Type::F32 || dst.ty != Type::F32 {
            return Err(Reject::Types("MUL_MAT", type_list(node)));
        }
        if dst.ne[1] < COLUMNS {
            return shape("few columns");
        }
        let fits = a.ne[0] == b.ne[0] && dst.ne == [a.ne[1], b.ne[1], b.ne[2], b.ne[3]];
        let shared = |i: usize| a.ne[i] > 0 && b.ne[i] % a.ne[i] == 0;
        if !fits || !shared(2) || !shared(3) || a.ne[0] == 0 || !(a.ne[0] as u64).is_multiple_of(a.ty.block()) {
            return shape("no matrix product");
        }
        let words = |t: &Tensor| t.nb.iter().all(|nb| nb.is_multiple_of(4));
        if !a.row_contiguous() || dst.nb[0] != 4 || !words(&dst) || !words(&b) {
            return Err(Reject::Shape("MUL_MAT", format!("strides {:?} x {:?} -> {:?}", a.nb, b.nb, dst.nb)));
        }
        if [a.span(), b.span(), dst.span(), dst.elements() as u64 * 4].iter().any(|s| *s > u64::from(u32::MAX)) {
            return shape("more than 4 GiB");
        }
        // Below 4 GiB every number of elements is below 2^32.
        Ok(Product {
            a,
            b,
            dst,
            m: a.ne[1] as u32,
            n: b.ne[1] as u32,
            k: a.ne[0] as u32,
            batches: (b.ne[2] * b.ne[3]) as u32,
            share: [(b.ne[2] / a.ne[2]) as u32, (b.ne[3] / a.ne[3]) as u32],
            precise: node.params[0] == PRECISE,
        })
    }

    /// Multiplications and additions, for cutting submissions.
    pub fn work(&self) -> f64 {
        2.0 * f64::from(self.m) * f64::from(self.n) * f64::from(self.k) * f64::from(self.batches)
    }
}

/// Lowers a MUL_MAT of many columns.
///
/// # Errors
/// Few columns; weights that are f32 or bf16, whose range f16 does not have; or a request for f32 precision.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    let product = Product::of(node)?;
    if product.precise {
        return Err(Reject::Shape("MUL_MAT", "f32 precision is asked for".to_owned()));
    }
    if matmul_matrix::usable(cx.caps) {
        return matmul_matrix::lower(&product, cx);
    }
    matmul_tile::lower(&product, cx)
}

#[cfg(test)]
#[path = "matmul_tests.rs"]
mod tests;
