//! Matrix products of quantised weights and few columns, of which column j has the same bits at every width.
//!
//! `shaders/matvec.comp` multiplies any small number of columns; more are done in pieces.

use super::quantize::{FORM, Q8, quantized};
use super::{Dispatch, Lowering, Push, Reject, Span, TensorParams, experts, source};
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
    /// Second weights, of the shape of the first: the result is then a function of both products.
    pub pair: Option<(Tensor, Glu)>,
    /// Whether the result is also to be left behind in its int8 form, if that is faster than a dispatch for it.
    pub int8: bool,
    /// How the work is cut; `None` for what is known to be fast.
    pub geometry: Option<Geometry>,
}

/// A function of two products: the second times a function of the first. The numbers are those of the shader's modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glu {
    /// SiLU.
    Swiglu = 4,
    /// GELU by tanh.
    Geglu = 8,
}

impl MatvecParts {
    /// A plain product.
    pub fn new(w: Tensor, x: Tensor, dst: Tensor) -> MatvecParts {
        MatvecParts { w, x, dst, add: None, ids: None, pair: None, int8: false, geometry: None }
    }
}

/// How the work is cut. Has no influence on the result's bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Subgroups of a workgroup.
    pub subgroups: u32,
    /// Rows of a subgroup; on a software device, of each of its invocations.
    pub rows: u32,
    /// The most columns of a subgroup; more are cut into pieces of like size that read the weights again.
    pub columns: u32,
    /// Units of a row that a lane loads before it computes.
    pub depth: u32,
}

impl Geometry {
    fn rows_of_subgroup(self, caps: &Caps) -> u32 {
        if caps.software { self.rows * caps.subgroup } else { self.rows }
    }
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
        "MUL_MAT" => lower_parts(&MatvecParts::new(w, x, dst), cx),
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
    let add = parts.add.map(|t| broadcast(&t, &dst, cx)).transpose()?;
    let ids = parts.ids.map(|t| cx.tensor(&t)).transpose()?;
    let pair = parts.pair.map(|(w2, _)| second(&w2, &w, cx)).transpose()?;
    let columns = pdst.ne[1];
    let (g, write_int8) = cut(parts, columns, cx.caps)?;
    // Experts differ from column to column, so each is a matrix of one column.
    let pieces = columns.div_ceil(if ids.is_some() { 1 } else { g.columns });
    let width = columns.div_ceil(pieces);
    let matrices = u32::try_from(dst.ne[2] * dst.ne[3]).unwrap_or(u32::MAX);
    let groups = [pieces, pdst.ne[0].div_ceil(g.subgroups * g.rows_of_subgroup(cx.caps)), matrices];
    if groups.iter().any(|n| *n > MAX_GROUPS) {
        return Err(Reject::Shape("MUL_MAT", format!("{:?} x {:?} in workgroups {groups:?}", w.ne, x.ne)));
    }
    let mode = u32::from(ids.is_some())
        + 2 * u32::from(add.is_some())
        + parts.pair.map_or(0, |(_, glu)| glu as u32)
        + 16 * u32::from(write_int8);
    // Before the columns of x, which this piece of memory must not displace.
    let int8 = write_int8.then(|| cx.scratch(Q8::bytes(&dst)));
    // Last, for it leaves a dispatch behind.
    let q8 = quantized(&x, cx)?;
    reads.push(q8.span);
    if let Some((w2, _)) = parts.pair {
        reads.push(cx.span(&w2)?);
    }
    let mut writes = vec![cx.span(&dst)?];
    writes.extend(int8);
    let start = |span: Option<Span>| span.map_or(0, |s| s.start);
    cx.push(Dispatch {
        shader,
        spec: vec![g.subgroups * cx.caps.subgroup, cx.caps.subgroup, g.rows, width, g.depth, mode],
        push: push(parts, [&pw, &pdst], [pair.unwrap_or(0), q8.span.start, start(int8)], [add, ids]),
        groups,
        reads,
        writes,
        work: 2.0 * w.ne[0] as f64 * f64::from(pdst.ne[0]) * f64::from(columns) * f64::from(matrices),
    });
    if let Some(span) = int8 {
        cx.note_derived(&dst, FORM, span)?;
    }
    Ok(())
}

/// The address of the second weights, which must look like the first.
fn second(w2: &Tensor, w: &Tensor, cx: &Lowering) -> Result<u64, Reject> {
    if (w2.ty, w2.ne, w2.nb) == (w.ty, w.ne, w.nb) && w2.data % 16 == w.data % 16 {
        return cx.address(w2);
    }
    Err(Reject::Shape("MUL_MAT", format!("weights {:?} beside {:?}", w2.ne, w.ne)))
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

/// Mirrors `Push` of the shader.
fn push(
    parts: &MatvecParts,
    [w, dst]: [&TensorParams; 2],
    [w2, x, int8]: [u64; 3],
    more: [Option<TensorParams>; 2],
) -> Push {
    let none = TensorParams { address: 0, ne: [0; 4], nb: [0; 4] };
    let [add, ids] = more.map(|t| t.unwrap_or(none));
    // With experts the first one is their number.
    let share = |i: usize| match parts.ids {
        Some(_) => parts.w.ne[i] as u32,
        None => (parts.x.ne[i] / parts.w.ne[i].max(1)).max(1) as u32,
    };
    let mut push = Push::new().u64(w.address).u64(w2).u64(x).u64(dst.address).u64(int8);
    push = push.u64(add.address).u64(ids.address).u32(parts.w.ne[0] as u32).u32(dst.ne[0]);
    for nb in w.nb[1..].iter().chain(&dst.nb[1..]).chain(&add.nb[1..]) {
        push = push.u32(*nb);
    }
    push.u32(parts.x.ne[1] as u32).u32(dst.ne[2]).u32(share(2)).u32(share(3)).u32(dst.ne[1]).u32(ids.nb[1])
}

/// How a product is cut, and whether it writes int8 blocks too.
fn cut(parts: &MatvecParts, columns: u32, caps: &Caps) -> Result<(Geometry, bool), Reject> {
    let m = parts.dst.ne[0];
    // For more columns a dispatch of its own is faster: 25.5 us instead of 30.1 for two columns of the gated product below.
    let int8 = parts.int8 && m % 32 == 0 && (columns == 1 || parts.geometry.is_some());
    let mut g = parts.geometry.unwrap_or_else(|| geometry(parts, columns, caps));
    // There all lanes have the same unit.
    g.depth = if caps.software { 1 } else { g.depth };
    let rows = g.rows_of_subgroup(caps);
    if int8 {
        g.subgroups = 32 / rows;
    }
    let fits = g.subgroups * caps.subgroup <= caps.invocations;
    if !fits || int8 && 32 % rows != 0 || parts.pair.is_some() && parts.add.is_some() {
        return Err(Reject::Shape("MUL_MAT", format!("{m} rows in {g:?}, of the kind that is asked for")));
    }
    Ok((g, int8))
}

/// The geometry that was fastest in `examples/matvec-bench.rs` on an H200 (driver 580.159). Microseconds of a product of
/// Q4_K with 28672 x 4096 weights | 4096 x 14336 | 6144 x 4096, as rows x columns of a subgroup:
///   1 column    1x1 22.0 | 13.6 |  7.7   2x1 20.6 | 14.2 |  7.9   4x1 20.6 | 19.5 |  8.8
///   4 columns   1x4 34.4 | 19.6 | 12.4   2x4 28.0 | 18.3 | 11.5   4x4 28.9 | 19.5 | 10.2
///   8 columns   2x4 46.6 | 28.8 | 14.3   4x4 48.1 | 31.4 | 14.2   2x8 42.9 | 32.9 | 18.4   4x8 45.3 | 34.7 | 13.4
///   12 columns  2x4 67.1 | 40.4 | 18.1   4x4 68.2 | 35.1 | 18.3   2x6 62.1 | 34.1 | 17.4   4x6 58.4 | 38.8 | 16.2
///   16 columns  2x4 89.4 | 51.1 | 22.9   4x4 88.9 | 45.4 | 22.8   2x8 79.9 | 55.6 | 23.9   4x8 79.1 | 59.5 | 21.3
/// Probably because eight long columns are more than the first cache holds, and because 6144 rows, by twos, are more
/// subgroups than run at once, by fours not. A Q6_K head of 128256 x 4096, whose weights take more registers: 8 columns
/// 2x8 247, 4x8 299. SWIGLU of two products of 14336 x 4096, int8 included: 1 column 4x1 21.2, 2x1 22.7; the chain 26.1.
fn geometry(parts: &MatvecParts, columns: u32, caps: &Caps) -> Geometry {
    let [k, m] = [parts.w.ne[0], parts.w.ne[1]];
    let (long, many) = (k > 8192, m > 8192);
    let by_fours = m > 4096 && !many;
    let (subgroups, rows, columns) = match columns {
        // As many rows as share an activation and fit into 32; a software device compiles larger pieces for seconds.
        1 if caps.software => (1, (32 / caps.subgroup).clamp(1, 4), 1),
        _ if caps.software => (1, if parts.pair.is_some() { 1 } else { 2 }, 4),
        1 if parts.int8 => (8, 4, 1),
        1 => (4, if parts.pair.is_some() || many { 2 } else { 1 }, 1),
        4 if by_fours && parts.pair.is_none() => (4, 4, 4),
        2..=4 => (4, 2, 4),
        _ if parts.pair.is_some() => (4, 2, 8),
        _ if matches!(parts.w.ty, Type::Q6_K | Type::Q3_K | Type::Q2_K) => (4, 2, 8),
        7..=8 if long => (4, 2, 4),
        7..=8 if !by_fours => (4, 2, 8),
        _ if long => (4, 4, 4),
        _ => (4, 4, 8),
    };
    Geometry { subgroups: subgroups.min(caps.invocations / caps.subgroup), rows, columns, depth: 1 }
}

#[cfg(test)]
#[path = "matvec_tests.rs"]
mod tests;
