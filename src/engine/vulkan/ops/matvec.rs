//! Matrix products of few columns, of which column j has the same bits at every width from 1 to 16.

use super::{Lowering, Reject};
use crate::graph::Node;

/// Lowers a node of this family.
pub fn lower(node: &Node, _cx: &mut Lowering) -> Result<(), Reject> {
    Err(Reject::Op(node.op.to_owned()))
}
