//! Which way a MUL_MAT or MUL_MAT_ID goes.

use super::{Lowering, Reject, floatvec, matmul, matmul_experts, matvec};
use crate::graph::Node;

/// Lowers a matrix product: few columns as matvec, many as matmul (by expert: sorted by expert), as matvec in pieces what
/// matmul does not take, and in float arithmetic what neither takes.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    if node.dst.ne[1] > 16 && node.op == "MUL_MAT" && matmul::lower(node, cx).is_ok() {
        return Ok(());
    }
    if node.op == "MUL_MAT_ID" && matmul_experts::lower(node, cx).is_ok() {
        return Ok(());
    }
    matvec::lower(node, cx).or_else(|_| floatvec::lower(node, cx))
}
