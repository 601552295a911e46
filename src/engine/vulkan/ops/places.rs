//! Operations that put elements of their sources at other places of the result, or numbers that need no source.

use super::loops::{GROUP, plain, push};
use super::{Dispatch, Lowering, Reject, copies, elementwise, source, type_list};
use crate::graph::{Node, Tensor};

/// Lowers a node of this family.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    match node.op {
        "REPEAT" => copies::repeat(node, cx, &source(node, 0)?),
        "CONCAT" => concat(node, cx),
        "SET" | "ACC" => change_part(node, cx),
        "FILL" => place(node, cx, 0, None, [0; 4]),
        "ARANGE" => place(node, cx, 1, None, [0; 4]),
        "TRI" => triangle(node, cx),
        "DIAG" => diagonal(node, cx),
        "PAD" => pad(node, cx),
        "ROLL" => roll(node, cx),
        op => Err(Reject::Op(op.to_owned())),
    }
}

fn shape(node: &Node) -> Reject {
    let from: Vec<_> = node.sources().map(|t| t.ne).collect();
    Reject::Shape(node.op, format!("{from:?} into {:?}", node.dst.ne))
}

/// The function `function` of `place.comp`.
fn place(node: &Node, cx: &mut Lowering, function: u32, src: Option<&Tensor>, p: [i32; 4]) -> Result<(), Reject> {
    let dst = &node.dst;
    let ty = plain(dst.ty).filter(|_| src.is_none_or(|s| s.ty == dst.ty));
    let ty = ty.ok_or_else(|| Reject::Types(node.op, type_list(node)))?;
    let signed = |t: &Tensor| t.ne.iter().all(|n| i32::try_from(*n).is_ok());
    if !signed(dst) || src.is_some_and(|s| !signed(s) || s.elements() == 0) {
        return Err(shape(node));
    }
    let reads = src.map(|s| cx.span(s)).transpose()?.into_iter().collect();
    // A result that has no source is its own; it is not read.
    let tensors = [cx.tensor(dst)?, cx.tensor(src.unwrap_or(dst))?];
    let mut push = p.iter().fold(push(&tensors), |push, x| push.u32(*x as u32));
    // FILL has the number alone, ARANGE a start, an end and a step.
    push = push.f32(node.param_f32(0)).f32(if function == 1 { node.param_f32(2) } else { 0.0 });
    let items = dst.elements() as u64;
    let groups = Dispatch::over(items, GROUP);
    let writes = vec![cx.span(dst)?];
    cx.push(Dispatch {
        shader: "place",
        spec: vec![GROUP, function, ty],
        push,
        groups,
        reads,
        writes,
        work: items as f64,
    });
    Ok(())
}

fn triangle(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    let src = source(node, 0)?;
    if src.ne != node.dst.ne || !(0..4).contains(&node.params[0]) {
        return Err(shape(node));
    }
    place(node, cx, 2, Some(&src), [node.params[0], 0, 0, 0])
}

fn diagonal(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    let src = source(node, 0)?;
    if src.ne[1] != 1 || node.dst.ne != [src.ne[0], src.ne[0], src.ne[2], src.ne[3]] {
        return Err(shape(node));
    }
    place(node, cx, 3, Some(&src), [0; 4])
}

/// Parameters: the places before and after the source in each dimension, then whether they go around.
fn pad(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    let src = source(node, 0)?;
    let p = &node.params;
    let fits = |i: usize| node.dst.ne[i] == src.ne[i] + i64::from(p[2 * i]) + i64::from(p[2 * i + 1]);
    if !(0..4).all(fits) {
        return Err(shape(node));
    }
    place(node, cx, if p[8] == 0 { 4 } else { 5 }, Some(&src), [p[0], p[2], p[4], p[6]])
}

fn roll(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    let src = source(node, 0)?;
    if src.ne != node.dst.ne {
        return Err(shape(node));
    }
    place(node, cx, 5, Some(&src), [node.params[0], node.params[1], node.params[2], node.params[3]])
}

/// The sources one after the other in the dimension of parameter 0.
fn concat(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    let dim = usize::try_from(node.params[0]).ok().filter(|d| *d < 4).ok_or_else(|| shape(node))?;
    let mut begin = 0;
    for i in 0..2 {
        let src = source(node, i)?;
        if src.ty != node.dst.ty {
            return Err(Reject::Types(node.op, type_list(node)));
        }
        let block = if dim == 0 { src.ty.block() } else { 1 };
        let same = (0..4).all(|d| d == dim || src.ne[d] == node.dst.ne[d]);
        if !same || begin + src.ne[dim] > node.dst.ne[dim] || !(src.ne[dim] as u64).is_multiple_of(block) {
            return Err(shape(node));
        }
        let data = node.dst.data + begin as u64 / block * node.dst.nb[dim];
        begin += src.ne[dim];
        if src.elements() > 0 {
            copies::raw(node, cx, &Tensor { data, ne: src.ne, ..node.dst }, &src)?;
        }
    }
    if begin == node.dst.ne[dim] { Ok(()) } else { Err(shape(node)) }
}

/// SET and ACC: a copy of the first source in which a part is replaced by the second, or to which that is added. Parameters:
/// the strides of the part above the first dimension, its offset, and whether the result is the first source itself.
fn change_part(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    let (a, b, dst) = (source(node, 0)?, source(node, 1)?, node.dst);
    if a.ty != dst.ty || b.ty != dst.ty || dst.ty.quantized() {
        return Err(Reject::Types(node.op, type_list(node)));
    }
    let bytes = |i: usize| u64::from(node.params[i] as u32);
    let mut part = Tensor { ne: b.ne, nb: [dst.nb[0], bytes(0), bytes(1), bytes(2)], ..dst };
    // Rows that share bytes would be written by several invocations at once.
    let apart = (1..4).all(|i| part.ne[i] <= 1 || part.nb[i] >= part.nb[i - 1] * part.ne[i - 1] as u64);
    if !apart || a.ne != dst.ne || bytes(3) + part.span() > dst.span() {
        return Err(shape(node));
    }
    part.data += bytes(3);
    if node.params[4] == 0 {
        copies::raw(node, cx, &dst, &a)?;
    }
    if b.elements() == 0 {
        return Ok(());
    }
    if node.op == "SET" {
        return copies::raw(node, cx, &part, &b);
    }
    elementwise::lower(&Node::new("ADD", part, &[part, b]), cx)
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
