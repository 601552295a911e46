//! Rows by number, and copies from one type to another: values of weights (`get.comp`) and numbers stored as a type
//! (`put.comp`).

use super::loops::{GROUP, plain, push};
use super::{Dispatch, Lowering, Reject, TensorParams, source, type_list};
use crate::graph::{Node, Tensor, Type};

/// The shader that reads a type's values, or words of 4 bytes as they are.
fn getter(ty: Type) -> Option<&'static str> {
    Some(match ty {
        Type::F32 | Type::I32 => "get_word",
        Type::F16 => "get_f16",
        Type::BF16 => "get_bf16",
        Type::Q4_0 => "get_q4_0",
        Type::Q4_1 => "get_q4_1",
        Type::Q5_0 => "get_q5_0",
        Type::Q5_1 => "get_q5_1",
        Type::Q8_0 => "get_q8_0",
        Type::Q2_K => "get_q2_K",
        Type::Q3_K => "get_q3_K",
        Type::Q4_K => "get_q4_K",
        Type::Q5_K => "get_q5_K",
        Type::Q6_K => "get_q6_K",
        Type::IQ4_NL => "get_iq4_nl",
        Type::IQ4_XS => "get_iq4_xs",
        Type::MXFP4 => "get_mxfp4",
        Type::IQ1_S => "get_iq1_s",
        Type::IQ1_M => "get_iq1_m",
        Type::IQ2_XXS => "get_iq2_xxs",
        Type::IQ2_XS => "get_iq2_xs",
        Type::IQ2_S => "get_iq2_s",
        Type::IQ3_XXS => "get_iq3_xxs",
        Type::IQ3_S => "get_iq3_s",
        Type::TQ1_0 => "get_tq1_0",
        Type::TQ2_0 => "get_tq2_0",
        Type::Q1_0 => "get_q1_0",
        Type::Q2_0 => "get_q2_0",
        Type::NVFP4 => "get_nvfp4",
        _ => return None,
    })
}

/// The shader that stores numbers as a type.
fn putter(ty: Type) -> Option<&'static str> {
    Some(match ty {
        Type::F32 => "put_f32",
        Type::F16 => "put_f16",
        Type::BF16 => "put_bf16",
        Type::I32 => "put_i32",
        Type::Q4_0 => "put_q4_0",
        Type::Q4_1 => "put_q4_1",
        Type::Q5_0 => "put_q5_0",
        Type::Q5_1 => "put_q5_1",
        Type::Q8_0 => "put_q8_0",
        Type::IQ4_NL => "put_iq4_nl",
        _ => return None,
    })
}

/// GET_ROWS: row `ids[j, k, l]` of matrix (k, l) becomes row (j, k, l) of the result.
pub fn get_rows(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    let (src, ids) = (source(node, 0)?, source(node, 1)?);
    if ids.ty != Type::I32 {
        return Err(Reject::Types(node.op, type_list(node)));
    }
    if node.dst.ne != [src.ne[0], ids.ne[0], ids.ne[1], ids.ne[2]] || src.ne[2..] != ids.ne[1..3] {
        return Err(Reject::Shape(node.op, format!("rows {:?} of {:?} into {:?}", ids.ne, src.ne, node.dst.ne)));
    }
    get(node, cx, &src, Some(&ids))
}

/// SET_ROWS: row (j, k, l) of the source becomes row `ids[j, k, l]` of matrix (k, l) of the result; `ids` may repeat.
pub fn set_rows(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    let (src, ids, dst) = (source(node, 0)?, source(node, 1)?, node.dst);
    let repeats = |i: usize| ids.ne[i] > 0 && src.ne[i + 1] % ids.ne[i] == 0;
    if src.ne[0] != dst.ne[0] || src.ne[2..] != dst.ne[2..] || ids.ne[0] != src.ne[1] || !repeats(1) || !repeats(2) {
        return Err(Reject::Shape(node.op, format!("{:?} as rows {:?} of {:?}", src.ne, ids.ne, dst.ne)));
    }
    if src.elements() == 0 {
        return Ok(());
    }
    put(node, cx, &src, Some(&ids))
}

/// The values of `src` as the result: rows by number, or all elements in order.
///
/// # Errors
/// No shader for the types, or quantised rows that do not lie block by block.
pub fn get(node: &Node, cx: &mut Lowering, src: &Tensor, ids: Option<&Tensor>) -> Result<(), Reject> {
    let dst = &node.dst;
    let types = || Reject::Types(node.op, type_list(node));
    let shader = getter(src.ty).ok_or_else(types)?;
    let result = if src.ty == Type::I32 { Type::I32 } else { Type::F32 };
    if dst.ty != result {
        return Err(types());
    }
    // The word variant steps by the stride; the others count elements from the start of the row.
    if shader != "get_word" && !src.row_contiguous() {
        let (ty, step) = (src.ty.name(), src.nb[0]);
        return Err(Reject::Shape(node.op, format!("rows of {ty} in steps of {step} bytes")));
    }
    let wide = src.ne[0] % 4 == 0 && dst.ne[0] % 4 == 0;
    let mut tensors = [cx.tensor(dst)?, cx.tensor(src)?, TensorParams { address: 0, ne: [0; 4], nb: [0; 4] }];
    let mut reads = vec![cx.span(src)?];
    if let Some(ids) = ids {
        tensors[2] = cx.tensor(ids)?;
        reads.push(cx.span(ids)?);
    }
    let push = push(&tensors).u64(cx.grid(src.ty));
    let width = if wide { 4 } else { 1 };
    let items = dst.elements() as u64 / u64::from(width);
    cx.push(Dispatch {
        shader,
        spec: vec![GROUP, width, u32::from(ids.is_some())],
        push,
        groups: Dispatch::over(items, GROUP),
        reads,
        writes: vec![cx.span(dst)?],
        work: dst.elements() as f64,
    });
    Ok(())
}

/// The numbers `src` stored as the result's type: as rows by number, or all elements in order.
///
/// # Errors
/// No shader for the types, or rows that are no whole blocks side by side.
pub fn put(node: &Node, cx: &mut Lowering, src: &Tensor, ids: Option<&Tensor>) -> Result<(), Reject> {
    let dst = &node.dst;
    let types = || Reject::Types(node.op, type_list(node));
    let shader = putter(dst.ty).ok_or_else(types)?;
    let from = match src.ty {
        // Integers beyond 2^24 have no f32, on the way to other types either.
        Type::I32 if dst.ty == Type::F32 => 3,
        ty => plain(ty).ok_or_else(types)?,
    };
    if dst.ty == Type::I32 && src.ty != Type::F32 {
        return Err(types());
    }
    let id = match ids.map(|t| t.ty) {
        None => 0,
        Some(Type::I32) => 4,
        Some(Type::I64) => 8,
        Some(_) => return Err(types()),
    };
    let block = dst.ty.block();
    let whole = |t: &Tensor| (t.ne[0] as u64).is_multiple_of(block);
    if !whole(src) || !whole(dst) || (block > 1 && !dst.row_contiguous()) {
        let (ty, from, to) = (dst.ty.name(), src.ne[0], dst.ne[0]);
        return Err(Reject::Shape(node.op, format!("rows of {from} into rows of {to} in {ty}, step {}", dst.nb[0])));
    }
    let mut tensors = vec![cx.tensor(dst)?, cx.tensor(src)?];
    let mut reads = vec![cx.span(src)?];
    if let Some(ids) = ids {
        tensors.push(cx.tensor(ids)?);
        reads.push(cx.span(ids)?);
    }
    let items = src.elements() as u64 / block;
    cx.push(Dispatch {
        shader,
        spec: vec![GROUP, from, id],
        push: push(&tensors),
        groups: Dispatch::over(items, GROUP),
        reads,
        writes: vec![cx.span(dst)?],
        work: src.elements() as f64,
    });
    Ok(())
}
