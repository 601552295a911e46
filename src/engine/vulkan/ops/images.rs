//! Operations on images: UPSCALE and IM2COL.

use super::loops::{GROUP, plain, push};
use super::{Dispatch, Lowering, Reject, expect_types, source, type_list};
use crate::graph::{Node, Tensor, Type};

/// ggml's flags of UPSCALE, above the mode in the lowest byte.
const ALIGN_CORNERS: i32 = 1 << 8;
const ANTIALIAS: i32 = 1 << 9;

/// Lowers a node of this family.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    if node.op == "UPSCALE" { upscale(node, cx) } else { im2col(node, cx) }
}

/// Modes: 0 nearest, 1 bilinear, 2 bicubic.
fn upscale(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    expect_types(node, Type::F32, &[Type::F32])?;
    let (src, dst) = (source(node, 0)?, node.dst);
    let flags = node.params[0] & !255;
    let mode = match (node.params[0] & 255, flags & ANTIALIAS != 0) {
        (mode @ 0..=2, false) => mode as u32,
        (1, true) => 3,
        _ => u32::MAX,
    };
    if mode == u32::MAX || flags & !(ALIGN_CORNERS | ANTIALIAS) != 0 || src.elements() == 0 {
        return Err(Reject::Shape(node.op, format!("mode {:#x} of {:?}", node.params[0], src.ne)));
    }
    // In f32 as ggml has it: which place is the nearest depends on the rounding.
    let mut scale: [f32; 4] = std::array::from_fn(|i| dst.ne[i] as f32 / src.ne[i] as f32);
    let aligned = flags & ALIGN_CORNERS != 0;
    for (i, scale) in scale.iter_mut().enumerate().take(2) {
        if aligned && dst.ne[i] > 1 && src.ne[i] > 1 {
            *scale = (dst.ne[i] - 1) as f32 / (src.ne[i] - 1) as f32;
        }
    }
    let tensors = [cx.tensor(&dst)?, cx.tensor(&src)?];
    let push = scale.iter().fold(push(&tensors), |push, s| push.f32(*s)).f32(if aligned { 0.0 } else { 0.5 });
    let items = dst.elements() as u64;
    cx.push(Dispatch {
        shader: "upscale",
        spec: vec![GROUP, mode],
        push,
        groups: Dispatch::over(items, GROUP),
        reads: vec![cx.span(&src)?],
        writes: vec![cx.span(&dst)?],
        work: items as f64 * 16.0,
    });
    Ok(())
}

/// Source 0 is the kernel, of which only the shape counts. Parameters: strides, paddings and dilations in x and y, then
/// whether the image has two dimensions; one of one dimension has its channels where others have y.
fn im2col(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    let (kernel, mut image, mut dst) = (source(node, 0)?, source(node, 1)?, node.dst);
    let types = plain(dst.ty).zip(plain(image.ty)).ok_or_else(|| Reject::Types(node.op, type_list(node)))?;
    let flat = node.params[6] == 0;
    let spread =
        |t: Tensor| Tensor { ne: [t.ne[0], 1, t.ne[1], t.ne[2]], nb: [t.nb[0], t.nb[1], t.nb[1], t.nb[2]], ..t };
    let size = if flat { [kernel.ne[0], 1] } else { [kernel.ne[0], kernel.ne[1]] };
    if flat {
        (image, dst) = (spread(image), Tensor { ne: [dst.ne[0], dst.ne[1], 1, dst.ne[2]], ..dst });
        dst.nb = [node.dst.nb[0], node.dst.nb[1], node.dst.nb[2], node.dst.nb[2]];
    }
    let numbers = node.params[..6].iter().all(|p| (0..1 << 24).contains(p)) && node.params[0] > 0;
    let outer = if flat { node.dst.ne[3] == 1 && node.src[1].is_some_and(|t| t.ne[3] == 1) } else { true };
    if dst.ne[0] != size[0] * size[1] * image.ne[2] || dst.ne[3] != image.ne[3] || !numbers || !outer {
        return Err(Reject::Shape(node.op, format!("{:?} over {:?} into {:?}", kernel.ne, image.ne, node.dst.ne)));
    }
    let tensors = [cx.tensor(&dst)?, cx.tensor(&image)?];
    let [s0, s1, p0, p1, d0, d1] = std::array::from_fn(|i| node.params[i] as u32);
    let second = |x: u32| if flat { 0 } else { x };
    let numbers = [size[0] as u32, size[1] as u32, s0, second(s1), p0, second(p1), d0, second(d1)];
    let items = dst.elements() as u64;
    cx.push(Dispatch {
        shader: "im2col",
        spec: vec![GROUP, types.0, types.1],
        push: numbers.iter().fold(push(&tensors), |push, x| push.u32(*x)),
        groups: Dispatch::over(items, GROUP),
        reads: vec![cx.span(&image)?],
        writes: vec![cx.span(&dst)?],
        work: items as f64,
    });
    Ok(())
}

#[cfg(test)]
#[path = "images_tests.rs"]
mod tests;
