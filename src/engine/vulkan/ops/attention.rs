//! FLASH_ATTN_EXT.

use super::{Lowering, Reject};
use crate::graph::Node;

/// Lowers a node of this family.
pub fn lower(node: &Node, _cx: &mut Lowering) -> Result<(), Reject> {
    Err(Reject::Op(node.op.to_owned()))
}
