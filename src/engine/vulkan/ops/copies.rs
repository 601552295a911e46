//! Rows and copies: GET_ROWS, SET_ROWS, CPY, DUP, CONT, and the operations that only place elements.

use super::{Lowering, Reject};
use crate::graph::Node;

/// Lowers a node of this family.
pub fn lower(node: &Node, _cx: &mut Lowering) -> Result<(), Reject> {
    Err(Reject::Op(node.op.to_owned()))
}
