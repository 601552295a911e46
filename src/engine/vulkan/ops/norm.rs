//! Normalisations: RMS_NORM, NORM, L2_NORM, GROUP_NORM, and RMS_NORM with what surrounds it in a model.

use super::quantize::{FORM, Q8, quantizable};
use super::{Dispatch, Lowering, Push, Reject, expect_types, source};
use crate::graph::{Node, Tensor, Type};

/// What a row is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The root of the mean square.
    Rms,
    /// The standard deviation, after subtracting the mean.
    Norm,
    /// The root of the sum of squares.
    L2,
}

/// `dst = rms_norm(input) * weight + add`, rounded after each step, so with the bits of separate nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormParts {
    /// What is normalised, row by row; rows may lie anywhere.
    pub input: Tensor,
    /// `(other, sum)`: `sum = input + other` is stored and normalised instead of `input`.
    pub residual: Option<(Tensor, Tensor)>,
    /// Added to the mean square.
    pub eps: f32,
    /// One row that every row is multiplied with.
    pub weight: Option<Tensor>,
    /// Of the shape of `dst`, added last.
    pub add: Option<Tensor>,
    /// The result; it may share memory with any of the others but `weight`.
    pub dst: Tensor,
    /// Whether the int8 form of `dst` is written too, for the products that read it.
    pub int8: bool,
}

/// Lowers a node of this family.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    expect_types(node, Type::F32, &[Type::F32])?;
    let input = source(node, 0)?;
    let parts = |input, eps, dst| NormParts { input, residual: None, eps, weight: None, add: None, dst, int8: false };
    match node.op {
        "RMS_NORM" => lower_fused(&parts(input, node.param_f32(0), node.dst), cx),
        "NORM" => dispatch(node.op, Kind::Norm, &parts(input, node.param_f32(0), node.dst), cx),
        "L2_NORM" => dispatch(node.op, Kind::L2, &parts(input, node.param_f32(0), node.dst), cx),
        _ => {
            let (input, dst) = (grouped(node, &input)?, grouped(node, &node.dst)?);
            dispatch(node.op, Kind::Norm, &parts(input, node.param_f32(1), dst), cx)
        }
    }
}

/// The groups of channels of a GROUP_NORM as rows.
fn grouped(node: &Node, t: &Tensor) -> Result<Tensor, Reject> {
    let groups = i64::from(node.params[0]);
    if groups <= 0 || t.ne[2] % groups != 0 || !t.contiguous() {
        let what = format!("{groups} groups of {} channels, strides {:?}; groups are equal and dense", t.ne[2], t.nb);
        return Err(Reject::Shape(node.op, what));
    }
    let row = t.ne[0] * t.ne[1] * (t.ne[2] / groups);
    Ok(Tensor { data: t.data, id: t.id, root: t.root, ..Tensor::new(Type::F32, [row, groups, t.ne[3], 1]) })
}

/// Lowers an RMS_NORM with what surrounds it to one dispatch.
///
/// # Errors
/// The parts are not f32 of fitting shapes, or other parts than `input` and `dst` have holes.
pub fn lower_fused(parts: &NormParts, cx: &mut Lowering) -> Result<(), Reject> {
    dispatch("RMS_NORM", Kind::Rms, parts, cx)
}

/// The size of a workgroup for rows of `ne0` elements: four for each invocation, in whole subgroups.
pub fn group_size(ne0: i64, cx: &Lowering) -> u32 {
    let wanted = (ne0 as u64).div_ceil(4).next_power_of_two().min(512) as u32;
    wanted.min(cx.caps.invocations).max(cx.caps.subgroup)
}

/// Pieces of four elements that each invocation keeps in registers; 0 when a row is too long for that.
pub fn held(ne0: i64, size: u32) -> u32 {
    let rounds = (ne0 as u64).div_ceil(4 * u64::from(size));
    if rounds <= 4 { rounds as u32 } else { 0 }
}

/// Whether all rows of a f32 tensor are of 16-byte pieces at addresses that are multiples of 16.
pub fn wide(t: &Tensor) -> bool {
    let strides = (1..4).all(|i| t.ne[i] <= 1 || t.nb[i].is_multiple_of(16));
    t.ty == Type::F32 && t.nb[0] == 4 && t.ne[0] % 4 == 0 && strides && t.data.is_multiple_of(16)
}

fn dispatch(op: &'static str, kind: Kind, parts: &NormParts, cx: &mut Lowering) -> Result<(), Reject> {
    let NormParts { input, residual, eps, weight, add, dst, int8 } = *parts;
    let dense = [add, residual.map(|r| r.0), residual.map(|r| r.1)];
    let shaped = |t: &Tensor| t.ty == Type::F32 && t.ne == dst.ne;
    let row = |t: &Tensor| t.ty == Type::F32 && t.ne == [dst.ne[0], 1, 1, 1] && t.row_contiguous();
    if !shaped(&input) || !dst.row_contiguous() || dst.elements() > i64::from(u32::MAX) {
        return Err(Reject::Shape(op, format!("{:?} to {:?}, strides {:?}", input.ne, dst.ne, dst.nb)));
    }
    if let Some(t) = dense.iter().flatten().find(|t| !shaped(t) || !t.contiguous()) {
        return Err(Reject::Shape(op, format!("{:?} with a part of {:?}, strides {:?}", dst.ne, t.ne, t.nb)));
    }
    if let Some(t) = weight.iter().find(|t| !row(t)) {
        return Err(Reject::Shape(op, format!("{:?} with a weight of {:?}", dst.ne, t.ne)));
    }
    let size = group_size(dst.ne[0], cx);
    let all = || [Some(input), Some(dst), weight].into_iter().chain(dense).flatten();
    if int8 {
        quantizable(&dst)?;
    }
    let form = int8.then(|| cx.scratch(Q8::bytes(&dst)));
    let mut push = Push::new().u64(form.map_or(0, |span| span.start));
    for t in [Some(input), Some(dst), weight, dense[0], dense[1], dense[2]] {
        push = push.u64(t.map_or(Ok(0), |t| cx.address(&t))?);
    }
    let (from, to) = (cx.tensor(&input)?, cx.tensor(&dst)?);
    for x in from.ne[..3].iter().chain([&(dst.rows() as u32)]).chain(&from.nb).chain(&to.nb[1..]) {
        push = push.u32(*x);
    }
    let mut reads = vec![cx.span(&input)?];
    for t in [weight, add, residual.map(|r| r.0)].iter().flatten() {
        reads.push(cx.span(t)?);
    }
    let mut writes = vec![cx.span(&dst)?];
    if let Some((_, sum)) = residual {
        writes.push(cx.span(&sum)?);
    }
    writes.extend(form);
    let flags = [all().all(|t| wide(&t)), residual.is_some(), weight.is_some(), add.is_some(), int8];
    let spec = [size, kind as u32].into_iter().chain(flags.map(u32::from)).chain([held(dst.ne[0], size)]);
    cx.push(Dispatch {
        shader: "norm",
        spec: spec.collect(),
        push: push.f32(eps),
        groups: Dispatch::groups_of(dst.rows() as u64),
        reads,
        writes,
        work: 4.0 * dst.elements() as f64,
    });
    form.map_or(Ok(()), |span| cx.note_derived(&dst, FORM, span))
}

#[cfg(test)]
#[path = "norm_tests.rs"]
mod tests;
