//! Matrix products of many columns.

use super::{Lowering, Reject};
use crate::graph::Node;

/// Lowers a MUL_MAT of many columns.
pub fn lower(node: &Node, _cx: &mut Lowering) -> Result<(), Reject> {
    Err(Reject::Op(node.op.to_owned()))
}
