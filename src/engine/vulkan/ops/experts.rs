//! MUL_MAT_ID: each column of the result is multiplied by the matrix that an index chooses.

use super::matvec::{MatvecParts, lower_parts};
use super::{Lowering, Reject, source, type_list};
use crate::graph::{Node, Type};

/// Lowers a MUL_MAT_ID node. The bits of a column depend on nothing but the column and its matrix.
///
/// # Errors
/// Why not.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    let (w, x, ids) = (source(node, 0)?, source(node, 1)?, source(node, 2)?);
    if ids.ty != Type::I32 || ids.nb[0] != 4 {
        return Err(Reject::Types(node.op, type_list(node)));
    }
    lower_parts(&MatvecParts { ids: Some(ids), ..MatvecParts::new(w, x, node.dst) }, cx)
}
