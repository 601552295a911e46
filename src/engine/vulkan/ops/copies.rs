//! Copies of bits: CPY, DUP, CONT and REPEAT. Where the type changes, `rows` copies.

use super::loops::{GROUP, over, plain, push};
use super::{Dispatch, Lowering, Reject, images, places, rows, source, type_list};
use crate::graph::{Node, Tensor, Type};

/// Lowers a node of this family.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    match node.op {
        "GET_ROWS" => rows::get_rows(node, cx),
        "SET_ROWS" => rows::set_rows(node, cx),
        "CPY" | "DUP" | "CONT" => copy(node, cx),
        "UPSCALE" | "IM2COL" => images::lower(node, cx),
        _ => places::lower(node, cx),
    }
}

/// Element n of the source becomes element n of the result, whatever the shapes and types.
fn copy(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    let src = source(node, 0)?;
    let dst = node.dst;
    if src.elements() != dst.elements() {
        let (from, to) = (src.elements(), dst.elements());
        return Err(Reject::Shape(node.op, format!("{from} elements into {to}")));
    }
    let numbers = |ty: Type| plain(ty).is_some() || ty == Type::I32;
    if src.ty == dst.ty {
        raw(node, cx, &dst, &src)
    } else if numbers(src.ty) {
        rows::put(node, cx, &src, None)
    } else if src.ty.quantized() {
        rows::get(node, cx, &src, None)
    } else {
        Err(Reject::Types(node.op, type_list(node)))
    }
}

/// A tensor whose "elements" along the first dimension are units of `unit` bytes. Only the address, the shape and the strides
/// count from here on.
fn in_units(t: &Tensor, unit: u64) -> Tensor {
    let bytes = t.ne[0] as u64 / t.ty.block() * t.ty.bytes();
    let mut out = Tensor { ty: Type::I8, ..*t };
    out.ne[0] = (bytes / unit) as i64;
    out.nb[0] = unit;
    out
}

/// Copies the bits of elements of one type, in the largest units that sizes, strides and addresses allow.
///
/// # Errors
/// Blocks of a quantised type, or numbers of 8 bytes, that do not lie side by side in a row.
pub fn raw(node: &Node, cx: &mut Lowering, dst: &Tensor, src: &Tensor) -> Result<(), Reject> {
    let (reads, writes) = (vec![cx.span(src)?], vec![cx.span(dst)?]);
    let size = src.ty.bytes();
    let side_by_side = |t: &Tensor| t.row_contiguous() || t.ne[0] == t.ty.block() as i64;
    let (unit, dst, src) = if side_by_side(dst) && side_by_side(src) {
        let addresses = cx.address(dst)? | cx.address(src)?;
        let even = |t: &Tensor, unit: u64| {
            let bytes = t.ne[0] as u64 / t.ty.block() * size;
            bytes.is_multiple_of(unit) && (1..4).all(|i| t.ne[i] == 1 || t.nb[i].is_multiple_of(unit))
        };
        let fits = |unit: &u64| addresses.is_multiple_of(*unit) && even(dst, *unit) && even(src, *unit);
        let unit = [16, 4, 2].into_iter().find(fits).unwrap_or(1);
        (unit, in_units(dst, unit), in_units(src, unit))
    } else if matches!(size, 1 | 2 | 4) {
        (size, *dst, *src)
    } else {
        let strides = format!("{} elements with strides of {} and {} bytes", src.ty.name(), src.nb[0], dst.nb[0]);
        return Err(Reject::Shape(node.op, strides));
    };
    let same = dst.ne == src.ne;
    let (push, dims) = if same {
        let l = over(node.op, cx, &dst, &[src])?;
        (l.push(), l.dims)
    } else {
        (push(&[cx.tensor(&dst)?, cx.tensor(&src)?]), 4)
    };
    let groups = Dispatch::over(dst.elements() as u64, GROUP);
    let spec = vec![GROUP, unit as u32, dims, u32::from(same)];
    cx.push(Dispatch { shader: "copy", spec, push, groups, reads, writes, work: dst.elements() as f64 });
    Ok(())
}

/// Fills the result with `src` again and again.
///
/// # Errors
/// Elements that are not 1, 2 or 4 bytes, or a result that is not whole times the source.
pub fn repeat(node: &Node, cx: &mut Lowering, src: &Tensor) -> Result<(), Reject> {
    let dst = &node.dst;
    if src.ty != dst.ty || !matches!((dst.ty.bytes(), dst.ty.block()), (1 | 2 | 4, 1)) {
        return Err(Reject::Types(node.op, type_list(node)));
    }
    let l = over(node.op, cx, dst, &[*src])?;
    cx.push(Dispatch {
        shader: "copy",
        spec: vec![GROUP, dst.ty.bytes() as u32, l.dims, if l.repeats { 2 } else { 1 }],
        push: l.push(),
        groups: Dispatch::over(dst.elements() as u64, GROUP),
        reads: vec![cx.span(src)?],
        writes: vec![cx.span(dst)?],
        work: dst.elements() as f64,
    });
    Ok(())
}

#[cfg(test)]
#[path = "copies_tests.rs"]
mod tests;
