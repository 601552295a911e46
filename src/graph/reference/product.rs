//! Scalar reference of matrix products: sums in f64.

use super::quant::value;
use crate::graph::Tensor;

/// A tensor and its bytes.
pub type Data<'a> = (&'a Tensor, &'a [u8]);

/// Element `k` of row (i1, i2, i3).
fn at((t, bytes): Data, k: i64, i: [i64; 3]) -> f64 {
    let row = (0..3).map(|d| i[d] as usize * t.nb[d + 1] as usize).sum::<usize>();
    f64::from(match t.row_contiguous() {
        true => value(t.ty, &bytes[row..], k as usize),
        false => value(t.ty, &bytes[row + k as usize * t.nb[0] as usize..], 0),
    })
}

/// `MUL_MAT`: [M, N, b2, b3] in the order of dimensions. A matrix of a serves several of b where b has more.
pub fn mul_mat(a: Data, b: Data) -> Vec<f32> {
    let (ta, tb) = (a.0, b.0);
    let (repeat2, repeat3) = (tb.ne[2] / ta.ne[2], tb.ne[3] / ta.ne[3]);
    let mut out = Vec::new();
    for i3 in 0..tb.ne[3] {
        for i2 in 0..tb.ne[2] {
            for n in 0..tb.ne[1] {
                for m in 0..ta.ne[1] {
                    let of_a = [m, i2 / repeat2, i3 / repeat3];
                    out.push((0..ta.ne[0]).map(|k| at(a, k, of_a) * at(b, k, [n, i2, i3])).sum::<f64>() as f32);
                }
            }
        }
    }
    out
}

/// `MUL_MAT_ID`: [M, used, tokens]; `expert(use, token)` is the matrix of a.
pub fn mul_mat_id(a: Data, b: Data, used: i64, expert: impl Fn(i64, i64) -> i32) -> Vec<f32> {
    let mut out = Vec::new();
    for token in 0..b.0.ne[2] {
        for u in 0..used {
            for m in 0..a.0.ne[1] {
                let of_a = [m, i64::from(expert(u, token)), 0];
                let of_b = [u % b.0.ne[1], token, 0];
                out.push((0..a.0.ne[0]).map(|k| at(a, k, of_a) * at(b, k, of_b)).sum::<f64>() as f32);
            }
        }
    }
    out
}
