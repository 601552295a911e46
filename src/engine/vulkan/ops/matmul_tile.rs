//! Products of many columns on devices without cooperative matrices.

use super::matmul::Product;
use super::quantize::quantized;
use super::{Dispatch, Lowering, Push, Reject};
use crate::engine::vulkan::caps::Caps;
use crate::graph::Type;

/// Columns of a workgroup: as many sums as an invocation can keep at hand. On a software device 32 are a third faster than
/// 16, though they do not fit into its registers.
pub fn columns(subgroup: u32) -> u32 {
    // A compiler for CPUs takes seconds for the sums of 32 columns, which is too long for a test of each type.
    if cfg!(test) { subgroup } else { subgroup.max(32) }
}

/// Invocations of a workgroup.
pub fn size(subgroup: u32) -> u32 {
    subgroup * 4
}

/// Rows of weights of an invocation; `ROWS` of the shader. On a software device more share the load of an activation.
pub fn rows(ty: Type, caps: &Caps) -> u32 {
    if caps.software && caps.dot && dot_shader(ty).is_some() { 4 } else { 1 }
}

/// Whether the shaders are written for subgroups of this size.
pub fn usable(subgroup: u32) -> bool {
    subgroup.is_multiple_of(8) && columns(subgroup).is_multiple_of(subgroup)
}

/// The shader over int8 activations; the first choice where the device has integer dot products.
pub fn dot_shader(ty: Type) -> Option<&'static str> {
    Some(match ty {
        Type::Q4_0 => "matmul_dot_q4_0",
        Type::Q4_1 => "matmul_dot_q4_1",
        Type::Q5_0 => "matmul_dot_q5_0",
        Type::Q5_1 => "matmul_dot_q5_1",
        Type::Q8_0 => "matmul_dot_q8_0",
        Type::Q4_K => "matmul_dot_q4_K",
        Type::Q5_K => "matmul_dot_q5_K",
        Type::Q6_K => "matmul_dot_q6_K",
        _ => return None,
    })
}

/// The shader over f32 activations.
pub fn float_shader(ty: Type) -> Option<&'static str> {
    Some(match ty {
        Type::F16 => "matmul_float_f16",
        Type::Q4_0 => "matmul_float_q4_0",
        Type::Q4_1 => "matmul_float_q4_1",
        Type::Q5_0 => "matmul_float_q5_0",
        Type::Q5_1 => "matmul_float_q5_1",
        Type::Q8_0 => "matmul_float_q8_0",
        Type::Q2_K => "matmul_float_q2_K",
        Type::Q3_K => "matmul_float_q3_K",
        Type::Q4_K => "matmul_float_q4_K",
        Type::Q5_K => "matmul_float_q5_K",
        Type::Q6_K => "matmul_float_q6_K",
        Type::IQ4_NL => "matmul_float_iq4_nl",
        Type::IQ4_XS => "matmul_float_iq4_xs",
        Type::MXFP4 => "matmul_float_mxfp4",
        _ => return None,
    })
}

/// Lowers a product.
///
/// # Errors
/// No shader for the type of the weights, activations with gaps, or more workgroups than a dispatch has.
pub fn lower(product: &Product, cx: &mut Lowering) -> Result<(), Reject> {
    let subgroup = cx.caps.subgroup;
    let columns = columns(subgroup);
    if !usable(subgroup) || product.b.nb[0] != 4 {
        return Err(Reject::Shape("MUL_MAT", format!("strides {:?}, subgroups of {subgroup}", product.b.nb)));
    }
    let size = size(subgroup);
    let groups = [product.n.div_ceil(columns), product.m.div_ceil(size * rows(product.a.ty, cx.caps)), product.batches];
    if groups.iter().any(|g| *g > 65535) {
        return Err(Reject::Shape("MUL_MAT", format!("{groups:?} tiles")));
    }
    let (a, b, dst) = (cx.tensor(&product.a)?, cx.tensor(&product.b)?, cx.tensor(&product.dst)?);
    let (shader, inputs, address, strides) = match dot_shader(product.a.ty) {
        Some(shader) if cx.caps.dot => {
            let q8 = quantized(&product.b, cx)?;
            let column = q8.column as u32;
            let matrix = column * product.n;
            (shader, q8.span, q8.span.start, [column, matrix, matrix * b.ne[2]])
        }
        _ => {
            let shader = float_shader(product.a.ty)
                .ok_or_else(|| Reject::Types("MUL_MAT", format!("{} x f32", product.a.ty.name())))?;
            (shader, cx.span(&product.b)?, b.address, [b.nb[1], b.nb[2], b.nb[3]])
        }
    };
    let numbers = [product.m, product.n, product.k, a.nb[1], a.nb[2], a.nb[3]];
    let results = [dst.nb[1], dst.nb[2], dst.nb[3], dst.ne[2], product.share[0], product.share[1]];
    let push = Push::new().u64(a.address).u64(address).u64(dst.address);
    let reads = vec![cx.span(&product.a)?, inputs];
    let writes = vec![cx.span(&product.dst)?];
    cx.push(Dispatch {
        shader,
        spec: vec![size, subgroup, columns],
        push: numbers.into_iter().chain(strides).chain(results).fold(push, Push::u32),
        groups,
        reads,
        writes,
        work: product.work(),
    });
    Ok(())
}
