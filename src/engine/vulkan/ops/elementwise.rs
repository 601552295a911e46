//! Operations that compute each element of the result from the elements at its place.

use super::loops::{GROUP, over, plain};
use super::{Dispatch, Lowering, Params, Push, Reject, Span, expect_types, source, type_list};
use crate::graph::{Node, Tensor, Type};

/// Functions of one number, by ggml's name of the operation or of the `UNARY` function; `unary.comp` counts them in this
/// order.
pub const FUNCTIONS: &[&str] = &[
    "ABS",
    "SGN",
    "NEG",
    "STEP",
    "TANH",
    "ELU",
    "RELU",
    "SIGMOID",
    "GELU",
    "GELU_QUICK",
    "SILU",
    "HARDSWISH",
    "HARDSIGMOID",
    "EXP",
    "EXPM1",
    "SOFTPLUS",
    "GELU_ERF",
    "XIELU",
    "FLOOR",
    "CEIL",
    "ROUND",
    "TRUNC",
    "SQR",
    "SQRT",
    "SIN",
    "COS",
    "LOG",
    "SCALE",
    "CLAMP",
    "LEAKY_RELU",
];

/// Where the functions that are operations of their own begin in [`FUNCTIONS`].
const FIRST_OPERATION: usize = 22;

/// Functions of two numbers, likewise, of `binary.comp`: operations, then functions of a `GLU` node.
pub const PAIRS: &[&str] =
    &["ADD", "SUB", "MUL", "DIV", "REGLU", "GEGLU", "SWIGLU", "SWIGLU_OAI", "GEGLU_ERF", "GEGLU_QUICK", "SWIGLU_CLAMP"];

/// Where the functions of `GLU` begin in [`PAIRS`].
const FIRST_GLU: usize = 4;

/// Lowers an element-wise node.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    let named = |names: &[&str], name: &str| names.iter().position(|n| *n == name);
    let none = || Reject::Op(format!("{} {}", node.op, node.sub).trim_end().to_owned());
    match node.op {
        "UNARY" => unary(node, cx, named(&FUNCTIONS[..FIRST_OPERATION], node.sub).ok_or_else(none)?),
        "GLU" => glu(node, cx, FIRST_GLU + named(&PAIRS[FIRST_GLU..], node.sub).ok_or_else(none)?),
        "ADD_ID" => add_id(node, cx),
        "ADD1" => {
            let b = source(node, 1)?;
            if b.elements() != 1 {
                return Err(Reject::Shape(node.op, format!("the second source has {} elements, not 1", b.elements())));
            }
            binary(node, cx, 0, &source(node, 0)?, &b)
        }
        op => {
            if let Some(pair) = named(&PAIRS[..FIRST_GLU], op) {
                return binary(node, cx, pair, &source(node, 0)?, &source(node, 1)?);
            }
            let function = named(&FUNCTIONS[FIRST_OPERATION..], op).ok_or_else(none)?;
            unary(node, cx, FIRST_OPERATION + function)
        }
    }
}

/// The codes of the types of the result and of `sources`.
fn codes(node: &Node, sources: &[&Tensor]) -> Result<Vec<u32>, Reject> {
    let all = std::iter::once(&node.dst).chain(sources.iter().copied());
    all.map(|t| plain(t.ty).ok_or_else(|| Reject::Types(node.op, type_list(node)))).collect()
}

fn same_shape(node: &Node, source: &Tensor) -> Result<(), Reject> {
    if source.ne == node.dst.ne {
        return Ok(());
    }
    Err(Reject::Shape(node.op, format!("the source is {:?}, the result {:?}", source.ne, node.dst.ne)))
}

fn unary(node: &Node, cx: &mut Lowering, function: usize) -> Result<(), Reject> {
    let a = source(node, 0)?;
    same_shape(node, &a)?;
    let types = codes(node, &[&a])?;
    let l = over(node.op, cx, &node.dst, &[a])?;
    // The first parameter of a UNARY node is ggml's number of the function.
    let first = if node.op == "UNARY" { 1 } else { 0 };
    let push = (first..first + 4).fold(l.push(), |push, i| push.f32(node.param_f32(i)));
    let reads = vec![cx.span(&a)?];
    push_elements(node, cx, "unary", vec![GROUP, function as u32, l.dims, types[0], types[1]], push, reads)
}

fn binary(node: &Node, cx: &mut Lowering, function: usize, a: &Tensor, b: &Tensor) -> Result<(), Reject> {
    same_shape(node, a)?;
    let types = codes(node, &[a, b])?;
    let l = over(node.op, cx, &node.dst, &[*a, *b])?;
    let push = l.push().f32(node.param_f32(2)).f32(node.param_f32(3));
    let spec = vec![GROUP, function as u32, l.dims, types[0], types[1], types[2], u32::from(l.repeats)];
    let reads = vec![cx.span(a)?, cx.span(b)?];
    push_elements(node, cx, "binary", spec, push, reads)
}

/// The gate and the values are two sources, or the halves of the rows of one; parameter 1 says that the values come first.
fn glu(node: &Node, cx: &mut Lowering, function: usize) -> Result<(), Reject> {
    let whole = source(node, 0)?;
    if let Some(b) = node.src[1] {
        same_shape(node, &b)?;
        return binary(node, cx, function, &whole, &b);
    }
    if whole.ne[0] != 2 * node.dst.ne[0] || !whole.row_contiguous() {
        let (n, half) = (whole.ne[0], node.dst.ne[0]);
        return Err(Reject::Shape(node.op, format!("rows of {n} in steps of {} bytes for {half}", whole.nb[0])));
    }
    let mut first = whole;
    first.ne[0] = node.dst.ne[0];
    let second = Tensor { data: first.data + first.ne[0] as u64 * first.nb[0], ..first };
    if node.params[1] == 0 {
        binary(node, cx, function, &first, &second)
    } else {
        binary(node, cx, function, &second, &first)
    }
}

fn add_id(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    expect_types(node, Type::F32, &[Type::F32, Type::F32, Type::I32])?;
    let (a, b, ids) = (source(node, 0)?, source(node, 1)?, source(node, 2)?);
    same_shape(node, &a)?;
    if b.ne[0] != a.ne[0] || b.ne[2] * b.ne[3] != 1 || ids.ne != [a.ne[1], a.ne[2], 1, 1] || a.ne[3] != 1 {
        return Err(Reject::Shape(node.op, format!("{:?} plus rows {:?} of {:?}", a.ne, ids.ne, b.ne)));
    }
    let mut params = Params::new();
    let mut reads = Vec::new();
    for t in [&node.dst, &a, &b, &ids] {
        params = params.tensor(cx.tensor(t)?);
        reads.push(cx.span(t)?);
    }
    reads.remove(0);
    let push = Push::new().u64(cx.params(&params));
    push_elements(node, cx, "add_id", vec![GROUP], push, reads)
}

/// Adds the dispatch of one invocation for each element of the result.
fn push_elements(
    node: &Node,
    cx: &mut Lowering,
    shader: &'static str,
    spec: Vec<u32>,
    push: Push,
    reads: Vec<Span>,
) -> Result<(), Reject> {
    let items = node.dst.elements() as u64;
    let writes = vec![cx.span(&node.dst)?];
    cx.push(Dispatch { shader, spec, push, groups: Dispatch::over(items, GROUP), reads, writes, work: items as f64 });
    Ok(())
}

#[cfg(test)]
#[path = "elementwise_tests.rs"]
mod tests;
