//! Matrix products of quantised weights and few columns, of which column j has the same bits at every width.
//!
//! `shaders/matvec.comp` multiplies any small number of columns; more are done in pieces.

use super::quantize::{Q8, quantized};
use super::{Dispatch, Lowering, Push, Reject, TensorParams, experts, source};
use crate::engine::vulkan::caps::Caps;
use crate::engine::vulkan::ops::dispatch::MAX_GROUPS;
use crate::graph::{Node, Tensor, Type};

/// `GGML_PREC_F32` in `op_params[0]`: the host wants no 8-bit activations.
const PRECISE: i32 = 10;

/// What a product of this kind consists of.
#[derive(Debug, Clone, Copy)]
pub struct MatvecParts {
    /// The weights.
    pub w: Tensor,
    /// The activations, f32.
    pub x: Tensor,
    /// The result.
    pub dst: Tensor,
    /// Is added to the result: a tensor of its shape, or with dimensions of 1 where it is repeated; not the first one.
    pub add: Option<Tensor>,
    /// The number of the matrix for each column of the result, as in MUL_MAT_ID.
    pub ids: Option<Tensor>,
    /// How the work is cut; `None` for what is known to be fast.
    pub geometry: Option<Geometry>,
}

/// How the work is cut. Has no influence on the result's bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Subgroups of a workgroup.
    pub subgroups: u32,
    /// Rows of a subgroup.
    pub rows: u32,
    /// The most columns of a subgroup; more are done in pieces that read the weights again.
    pub columns: u32,
    /// Units of a row that a lane loads before it computes.
    pub depth: u32,
}

/// The shader of a type of weights, and the alignment of its rows that the shader's loads need.
fn shader(ty: Type) -> Option<(&'static str, u64)> {
    Some(match ty {
        Type::Q4_0 => ("matvec_q4_0", 2),
        Type::Q4_1 => ("matvec_q4_1", 4),
        Type::Q5_0 => ("matvec_q5_0", 2),
        Type::Q5_1 => ("matvec_q5_1", 8),
        Type::Q8_0 => ("matvec_q8_0", 2),
        Type::Q2_K => ("matvec_q2_k", 4),
        Type::Q3_K => ("matvec_q3_k", 2),
        Type::Q4_K => ("matvec_q4_k", 16),
        Type::Q5_K => ("matvec_q5_k", 16),
        Type::Q6_K => ("matvec_q6_k", 2),
        Type::IQ4_NL => ("matvec_iq4_nl", 2),
        Type::IQ4_XS => ("matvec_iq4_xs", 8),
        Type::MXFP4 => ("matvec_mxfp4", 1),
        _ => return None,
    })
}

/// Lowers a MUL_MAT or MUL_MAT_ID node.
///
/// # Errors
/// Why not.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    if node.params[0] == PRECISE {
        return Err(Reject::Shape("MUL_MAT", "the host asks for float activations".to_owned()));
    }
    let (w, x, dst) = (source(node, 0)?, source(node, 1)?, node.dst);
    match node.op {
        "MUL_MAT" => lower_parts(&MatvecParts { w, x, dst, add: None, ids: None, geometry: None }, cx),
        "MUL_MAT_ID" => experts::lower(node, cx),
        _ => Err(Reject::Op(node.op.to_owned())),
    }
}

/// Lowers a product of these parts.
///
/// # Errors
/// Why not.
pub fn lower_parts(parts: &MatvecParts, cx: &mut Lowering) -> Result<(), Reject> {
    let MatvecParts { w, x, dst, .. } = *parts;
    if !cx.caps.dot {
        return Err(Reject::Device("MUL_MAT", "packed integer dot product"));
    }
    let types = || Reject::Types("MUL_MAT", format!("{} {} -> {}", w.ty.name(), x.ty.name(), dst.ty.name()));
    let (shader, align) = shader(w.ty).ok_or_else(types)?;
    if x.ty != Type::F32 || dst.ty != Type::F32 {
        return Err(types());
    }
    check_shape(parts)?;
    let [pw, pdst] = [cx.tensor(&w)?, cx.tensor(&dst)?];
    let odd = |n: u64| !n.is_multiple_of(align);
    if odd(pw.address) || pw.nb[1..].iter().any(|nb| odd(u64::from(*nb))) || !w.row_contiguous() || dst.nb[0] != 4 {
        return Err(Reject::Shape("MUL_MAT", format!("strides {:?} -> {:?} at {:#x}", w.nb, dst.nb, pw.address)));
    }
    let mut reads = vec![cx.span(&w)?];
    for t in parts.add.iter().chain(&parts.ids) {
        reads.push(cx.span(t)?);
    }
    let writes = vec![cx.span(&dst)?];
    let add = parts.add.map(|t| broadcast(&t, &dst, cx)).transpose()?;
    let ids = parts.ids.map(|t| cx.tensor(&t)).transpose()?;
    let mode = u32::from(ids.is_some()) + 2 * u32::from(add.is_some());
    let choose = |width: u32| parts.geometry.unwrap_or_else(|| geometry(width, pdst.ne[0], cx.caps));
    // Experts differ from column to column, so each is a matrix of one column.
    let widest = if ids.is_some() { 1 } else { choose(pdst.ne[1]).columns };
    let matrices = u32::try_from(dst.ne[2] * dst.ne[3]).unwrap_or(u32::MAX);
    let mut cuts = Vec::with_capacity(2);
    for (first, width, count) in pieces(pdst.ne[1], widest) {
        let g = choose(width);
        let groups = [pdst.ne[0].div_ceil(g.subgroups * g.rows), count, matrices];
        if groups.iter().any(|n| *n > MAX_GROUPS) {
            return Err(Reject::Shape("MUL_MAT", format!("{:?} x {:?} in workgroups {groups:?}", w.ne, x.ne)));
        }
        cuts.push((first, width, g, groups));
    }
    // Last, for it leaves a dispatch behind.
    let q8 = quantized(&x, cx)?;
    reads.push(q8.span);
    for (first, width, g, groups) in cuts {
        cx.push(Dispatch {
            shader,
            spec: vec![g.subgroups * cx.caps.subgroup, cx.caps.subgroup, g.rows, width, g.depth, mode],
            push: push(parts, [&pw, &pdst], &q8, [add, ids], first),
            groups,
            reads: reads.clone(),
            writes: writes.clone(),
            work: 2.0 * w.ne[0] as f64 * f64::from(pdst.ne[0]) * f64::from(width * groups[1]) * f64::from(matrices),
        });
    }
    Ok(())
}

/// Whether the shapes make a product.
fn check_shape(parts: &MatvecParts) -> Result<(), Reject> {
    let MatvecParts { w, x, dst, .. } = *parts;
    let shared = |i: usize| w.ne[i] > 0 && x.ne[i] % w.ne[i] == 0;
    let fits = match parts.ids {
        None => dst.ne == [w.ne[1], x.ne[1], x.ne[2], x.ne[3]] && shared(2) && shared(3),
        Some(ids) => {
            let slots = ids.ne[0];
            dst.ne == [w.ne[1], slots, ids.ne[1], 1]
                && ids.ne[2..] == [1, 1]
                && (x.ne[1] == 1 || x.ne[1] == slots)
                && x.ne[2..] == dst.ne[2..]
                && w.ne[3] == 1
        }
    };
    let whole = w.ne[0] > 0 && (w.ne[0] as u64).is_multiple_of(w.ty.block());
    if fits && whole && w.ne[0] == x.ne[0] {
        return Ok(());
    }
    Err(Reject::Shape("MUL_MAT", format!("{:?} x {:?} -> {:?}", w.ne, x.ne, dst.ne)))
}

/// A tensor that is added to the result, with strides of 0 where it is repeated.
fn broadcast(t: &Tensor, dst: &Tensor, cx: &Lowering) -> Result<TensorParams, Reject> {
    let fits = t.ty == Type::F32
        && t.row_contiguous()
        && t.ne[0] == dst.ne[0]
        && (1..4).all(|i| t.ne[i] == dst.ne[i] || t.ne[i] == 1);
    if fits { cx.tensor(t) } else { Err(Reject::Shape("MUL_MAT", format!("{:?} added to {:?}", t.ne, dst.ne))) }
}

/// (first column, columns of a workgroup, workgroups): whole pieces of `widest` columns, and the rest, of exactly its size.
fn pieces(columns: u32, widest: u32) -> impl Iterator<Item = (u32, u32, u32)> {
    let (whole, rest) = (columns / widest, columns % widest);
    let all = [(0, widest, whole), (whole * widest, rest, 1)];
    all.into_iter().filter(|(_, width, count)| *width > 0 && *count > 0)
}

/// Mirrors `Push` of the shader.
fn push(
    parts: &MatvecParts,
    [w, dst]: [&TensorParams; 2],
    q8: &Q8,
    more: [Option<TensorParams>; 2],
    first: u32,
) -> Push {
    let none = TensorParams { address: 0, ne: [0; 4], nb: [0; 4] };
    let [add, ids] = more.map(|t| t.unwrap_or(none));
    let share = |i: usize| (parts.x.ne[i] / parts.w.ne[i].max(1)).max(1) as u32;
    let mut push = Push::new().u64(w.address).u64(q8.span.start).u64(dst.address).u64(add.address).u64(ids.address);
    push = push.u32(parts.w.ne[0] as u32).u32(dst.ne[0]);
    for nb in w.nb[1..].iter().chain(&dst.nb[1..]).chain(&add.nb[1..]) {
        push = push.u32(*nb);
    }
    push.u32(parts.x.ne[1] as u32).u32(dst.ne[2]).u32(share(2)).u32(share(3)).u32(first).u32(ids.nb[1])
}

/// The geometry that was fastest where it was measured.
fn geometry(width: u32, m: u32, caps: &Caps) -> Geometry {
    let (subgroups, rows, columns, depth) = match width {
        // A software device gains nothing from large pieces and compiles them for seconds.
        _ if caps.software => (4, 4, 4, 1),
        1 => (2, 1, 1, 1),
        2..=3 => (4, 2, 3, 1),
        _ => (4, 4, 16, 1),
    };
    // The grid has a limit in each dimension; a vocabulary can exceed it.
    let subgroups = if m / (subgroups * rows) >= MAX_GROUPS { 16 } else { subgroups };
    Geometry { subgroups: subgroups.min(caps.invocations / caps.subgroup), rows, columns, depth }
}

#[cfg(test)]
#[path = "matvec_tests.rs"]
mod tests;
