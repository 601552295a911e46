//! Which way a MUL_MAT or MUL_MAT_ID goes.

use super::{Lowering, Reject, matmul, matvec};
use crate::graph::Node;

/// Lowers a matrix product: few columns as matvec, many as matmul, and as matvec in pieces what matmul does not take.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    if node.dst.ne[1] > 16 && node.op == "MUL_MAT" && matmul::lower(node, cx).is_ok() {
        return Ok(());
    }
    matvec::lower(node, cx)
}
