//! Matrix products in float arithmetic: any weights, any strides, any width, each result summed in one fixed order.

use super::{Dispatch, Lowering, Push, Reject, source, type_list};
use crate::graph::{Node, Tensor, Type};

/// Subgroups of a workgroup; they do not work together.
const SUBGROUPS: u32 = 4;

/// Lowers a MUL_MAT or MUL_MAT_ID.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    let (a, b, dst) = (source(node, 0)?, source(node, 1)?, node.dst);
    let shader = shader(a.ty).ok_or_else(|| Reject::Types(node.op, type_list(node)))?;
    let b_type = match b.ty {
        Type::F32 => 0,
        Type::F16 => 1,
        Type::BF16 => 2,
        _ => return Err(Reject::Types(node.op, type_list(node))),
    };
    if dst.ty != Type::F32 {
        return Err(Reject::Types(node.op, type_list(node)));
    }
    let shape = if node.op == "MUL_MAT_ID" { Shape::by_ids(node, &a, &b)? } else { Shape::plain(node, &a, &b)? };
    let inner = a.ne[0];
    if inner != b.ne[0] || dst.nb[0] != 4 || (a.ty.quantized() && !a.row_contiguous()) {
        let sentence = format!("rows of {inner} and {} elements, strides {:?} and {:?}", b.ne[0], a.nb, dst.nb);
        return Err(Reject::Shape(node.op, sentence));
    }
    // What loads of words of blocks, and addresses in 32 bits within a row, rely on.
    let align = 1_u64 << a.ty.bytes().trailing_zeros().min(4);
    let row_bytes = ((inner as u64).max(4) * a.nb[0].max(b.nb[0])).max(4 * dst.ne[0] as u64);
    if (1..4).any(|i| a.ne[i] > 1 && a.nb[i] % align != 0) || row_bytes >= 1 << 32 {
        return Err(Reject::Shape(node.op, format!("rows of {inner} elements with strides {:?} and {:?}", a.nb, b.nb)));
    }

    let (rows, cols) = block(shape.columns, dst.ne[0] as u64);
    let parts = shape.columns.div_ceil(cols) * (dst.ne[0] as u64).div_ceil(rows);
    let units = parts * shape.count2 * shape.count3;
    let small = |x: u64| {
        u32::try_from(x).map_err(|_| Reject::Shape(node.op, format!("{x} in {:?}; the limit is 2^32", dst.ne)))
    };
    let (a_at, b_at) = (cx.address(&a)?, cx.address(&b)?);
    let mut push = Push::new().u64(a_at).u64(b_at).u64(cx.address(&dst)?);
    push = push.u64(shape.ids.map_or(Ok(0), |ids| cx.address(&ids))?);
    let numbers = [
        inner as u64,
        dst.ne[0] as u64,
        shape.columns,
        shape.width,
        shape.count2,
        units,
        shape.repeat3,
        a.ne[2] as u64,
    ];
    let strides = shape.a_nb.iter().chain(&shape.b_nb).chain(&shape.dst_nb).chain(&shape.ids_nb);
    for x in numbers.iter().chain(strides) {
        push = push.u32(small(*x)?);
    }
    let spec = vec![
        SUBGROUPS * cx.caps.subgroup,
        rows as u32,
        cols as u32,
        u32::from(vectors(&a, a_at)),
        u32::from(vectors(&b, b_at)),
        b_type,
        // Compilers for CPUs take seconds for what hides no latency there.
        if cx.caps.software { 1 } else { 4 / rows as u32 },
        u32::from(inner % 4 != 0),
    ];
    let mut reads = vec![cx.span(&a)?, cx.span(&b)?];
    if let Some(ids) = shape.ids {
        reads.push(cx.span(&ids)?);
    }
    let dispatch = Dispatch {
        shader,
        spec,
        push,
        groups: Dispatch::groups_of(units.div_ceil(u64::from(SUBGROUPS))),
        reads,
        writes: vec![cx.span(&dst)?],
        work: 2.0 * inner as f64 * dst.elements() as f64,
    };
    cx.push(dispatch);
    Ok(())
}

/// The shader for these weights.
fn shader(weights: Type) -> Option<&'static str> {
    Some(match weights {
        Type::F32 => "floatvec_f32",
        Type::F16 => "floatvec_f16",
        Type::BF16 => "floatvec_bf16",
        Type::Q4_0 => "floatvec_q4_0",
        Type::Q4_1 => "floatvec_q4_1",
        Type::Q5_0 => "floatvec_q5_0",
        Type::Q5_1 => "floatvec_q5_1",
        Type::Q8_0 => "floatvec_q8_0",
        Type::Q2_K => "floatvec_q2_K",
        Type::Q3_K => "floatvec_q3_K",
        Type::Q4_K => "floatvec_q4_K",
        Type::Q5_K => "floatvec_q5_K",
        Type::Q6_K => "floatvec_q6_K",
        Type::IQ4_NL => "floatvec_iq4_nl",
        Type::IQ4_XS => "floatvec_iq4_xs",
        Type::MXFP4 => "floatvec_mxfp4",
        _ => return None,
    })
}

/// Rows and columns that a subgroup computes. Few columns: weights are what is waited for, so each is loaded once and many
/// subgroups load. Many: a square block reads least, if there are rows enough to occupy the device.
fn block(columns: u64, rows: u64) -> (u64, u64) {
    match columns {
        1 => (1, 1),
        2 => (1, 2),
        5.. if rows * columns >= 4096 => (4, 4),
        _ => (1, 4),
    }
}

/// Whether four elements can be loaded at once everywhere: together in memory, at a multiple of their size.
fn vectors(t: &Tensor, address: u64) -> bool {
    let size = 4 * t.ty.bytes();
    !t.ty.quantized()
        && t.row_contiguous()
        && address.is_multiple_of(size)
        && (1..4).all(|i| t.ne[i] <= 1 || t.nb[i].is_multiple_of(size))
}

/// The product as the shader sees it: units (i2, i3), each of one matrix of a and all columns that meet it.
struct Shape {
    columns: u64,
    /// Columns of one matrix of b.
    width: u64,
    count2: u64,
    count3: u64,
    repeat3: u64,
    ids: Option<Tensor>,
    a_nb: [u64; 4],
    b_nb: [u64; 4],
    dst_nb: [u64; 3],
    ids_nb: [u64; 2],
}

impl Shape {
    /// A matrix of a meets several of b: their columns are taken together, so that weights are loaded once for all.
    fn plain(node: &Node, a: &Tensor, b: &Tensor) -> Result<Shape, Reject> {
        let dst = &node.dst;
        let several = |i: usize| a.ne[i] > 0 && b.ne[i] % a.ne[i] == 0;
        let fits = dst.ne == [a.ne[1], b.ne[1], b.ne[2], b.ne[3]] && several(2) && several(3);
        if !fits {
            return Err(Reject::Shape(node.op, format!("{:?} times {:?} to {:?}", a.ne, b.ne, dst.ne)));
        }
        let nb = strides(dst);
        Ok(Shape {
            columns: (b.ne[1] * (b.ne[2] / a.ne[2])) as u64,
            width: b.ne[1] as u64,
            count2: a.ne[2] as u64,
            count3: b.ne[3] as u64,
            repeat3: (b.ne[3] / a.ne[3]) as u64,
            ids: None,
            a_nb: strides(a),
            b_nb: strides(b),
            dst_nb: [nb[1], nb[2], nb[3]],
            ids_nb: [0, 0],
        })
    }

    /// Each (use, token) is a unit of one column, since neighbours may use other experts.
    fn by_ids(node: &Node, a: &Tensor, b: &Tensor) -> Result<Shape, Reject> {
        let (ids, dst) = (source(node, 2)?, &node.dst);
        let [used, tokens, ..] = ids.ne;
        let fits = ids.ty == Type::I32
            && ids.ne[2] * ids.ne[3] == 1
            && dst.ne == [a.ne[1], used, tokens, 1]
            && (b.ne[1] == 1 || b.ne[1] == used)
            && [b.ne[2], b.ne[3], a.ne[3]] == [tokens, 1, 1];
        if !fits {
            let sentence = format!("{:?} times {:?} by ids {:?} to {:?}", a.ne, b.ne, ids.ne, dst.ne);
            return Err(Reject::Shape(node.op, sentence));
        }
        let (bs, ds, is) = (strides(b), strides(dst), strides(&ids));
        Ok(Shape {
            columns: 1,
            width: 1,
            count2: used as u64,
            count3: tokens as u64,
            repeat3: 1,
            ids: Some(ids),
            a_nb: [a.nb[0], a.nb[1], a.nb[2], 0],
            b_nb: [b.nb[0], 0, bs[1], bs[2]],
            dst_nb: [0, ds[1], ds[2]],
            ids_nb: [is[0], is[1]],
        })
    }
}

/// Strides, of which those that are never used are 0.
fn strides(t: &Tensor) -> [u64; 4] {
    std::array::from_fn(|i| if i > 0 && t.ne[i] <= 1 { 0 } else { t.nb[i] })
}

#[cfg(test)]
#[path = "floatvec_tests.rs"]
mod tests;
