//! Why a node is not computed by the GPU, and the looks at a node that find it out.

use crate::graph::{Node, Tensor, Type};

/// Why the GPU does not compute a node. Prints as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    /// No shader for this operation.
    #[error("no shader for {0}")]
    Op(String),
    /// No shader for this combination of types.
    #[error("{0}: no shader for the types {1}")]
    Types(&'static str, String),
    /// A shape that the shader does not take; the sentence has the numbers.
    #[error("{0}: {1}")]
    Shape(&'static str, String),
    /// The device lacks something.
    #[error("{0}: the device has no {1}")]
    Device(&'static str, &'static str),
}

/// The types of a node's sources and result, for messages.
pub fn type_list(node: &Node) -> String {
    let mut names: Vec<_> = node.sources().map(|t| t.ty.name()).collect();
    names.push("->");
    names.push(node.dst.ty.name());
    names.join(" ")
}

/// Refuses a node whose result or sources have other types than these.
///
/// # Errors
/// [`Reject::Types`].
pub fn expect_types(node: &Node, dst: Type, sources: &[Type]) -> Result<(), Reject> {
    let fits = node.dst.ty == dst && sources.iter().enumerate().all(|(i, ty)| node.src[i].is_some_and(|t| t.ty == *ty));
    if fits { Ok(()) } else { Err(Reject::Types(node.op, type_list(node))) }
}

/// Source `i` of a node.
///
/// # Errors
/// [`Reject::Shape`] when it is missing.
pub fn source(node: &Node, i: usize) -> Result<Tensor, Reject> {
    node.src[i].ok_or_else(|| Reject::Shape(node.op, format!("source {i} is missing")))
}
