//! SOFT_MAX with scale, mask, ALiBi slopes and sinks.

use super::norm::{group_size, held, wide};
use super::{Dispatch, Lowering, Push, Reject, expect_types, source};
use crate::graph::{Node, Type};

/// Lowers a node of this family.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    expect_types(node, Type::F32, &[Type::F32])?;
    let (x, dst) = (source(node, 0)?, node.dst);
    let (mask, sinks) = (node.src[1], node.src[2]);
    if x.ne != dst.ne || !x.row_contiguous() || !dst.row_contiguous() || dst.rows() > i64::from(u32::MAX) {
        return Err(Reject::Shape(node.op, format!("{:?} to {:?}, strides {:?}", x.ne, dst.ne, x.nb)));
    }
    if let Some(m) = mask {
        let broadcast = (2..4).all(|i| m.ne[i] > 0 && dst.ne[i] % m.ne[i] == 0);
        let plain = matches!(m.ty, Type::F32 | Type::F16) && m.row_contiguous();
        if !plain || m.ne[0] != dst.ne[0] || m.ne[1] < dst.ne[1] || !broadcast {
            return Err(Reject::Shape(node.op, format!("{:?} with a {} mask {:?}", dst.ne, m.ty.name(), m.ne)));
        }
    }
    if let Some(s) = sinks.filter(|s| s.ty != Type::F32 || s.ne[0] < dst.ne[2] || !s.row_contiguous()) {
        return Err(Reject::Shape(node.op, format!("{} heads with {} sinks", dst.ne[2], s.ne[0])));
    }
    let size = group_size(dst.ne[0], cx);
    let mut push = Push::new();
    for t in [Some(x), Some(dst), mask, sinks] {
        push = push.u64(t.map_or(Ok(0), |t| cx.address(&t))?);
    }
    let (from, to) = (cx.tensor(&x)?, cx.tensor(&dst)?);
    let masked = mask.map(|m| cx.tensor(&m)).transpose()?;
    let (mask_nb, mask_ne) = masked.map_or(([0; 4], [1; 4]), |m| (m.nb, m.ne));
    for x in to.ne[..3].iter().chain([&(dst.rows() as u32)]).chain(&from.nb[1..]).chain(&to.nb[1..]) {
        push = push.u32(*x);
    }
    for x in mask_nb[1..].iter().chain(&mask_ne[2..]) {
        push = push.u32(*x);
    }
    // The slope of head h is 2^(-max_bias * (h + 1) / n), n the largest power of two in the number of heads; the heads
    // past n lie between these.
    let heads = 1_u32 << (dst.ne[2] as u32).ilog2();
    let alibi = if mask.is_some() { -node.param_f32(1).max(0.0) / heads as f32 } else { 0.0 };
    let mut reads = vec![cx.span(&x)?];
    for t in [mask, sinks].iter().flatten() {
        reads.push(cx.span(t)?);
    }
    let writes = vec![cx.span(&dst)?];
    let kind = mask.map_or(0, |m| if m.ty == Type::F32 { 1 } else { 2 });
    cx.push(Dispatch {
        shader: "softmax",
        spec: vec![size, u32::from(wide(&x) && wide(&dst)), kind, u32::from(sinks.is_some()), held(dst.ne[0], size)],
        push: push.f32(node.param_f32(0)).f32(alibi).u32(heads),
        groups: Dispatch::groups_of(dst.rows() as u64),
        reads,
        writes,
        work: 8.0 * dst.elements() as f64,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Room, nmse, noise};
    use super::*;
    use crate::graph::Tensor;
    use crate::graph::reference::softmax as scalar;

    /// 0, -infinity now and then, and values between: exact in f16, whose bits are given.
    fn mask(n: usize) -> (Vec<f32>, Vec<u8>) {
        let entries = [(0.0, 0_u16), (-1.5, 0xbe00), (f32::NEG_INFINITY, 0xfc00), (2.0, 0x4000), (0.0, 0)];
        let all = || (0..n).map(|i| entries[i % 5]);
        (all().map(|e| e.0).collect(), all().flat_map(|e| e.1.to_le_bytes()).collect())
    }

    #[test]
    fn rows_with_masks_slopes_and_sinks() {
        let Some(mut room) = Room::new() else { return };
        // Six heads: four have the slopes of a power of two, two those between. The mask repeats over heads and batches.
        for (ne0, ne1) in [(15, 3), (64, 2), (1030, 1), (17_000, 1)] {
            let ne = [ne0, ne1, 6, 2];
            let values: Vec<f32> = noise(ne0 as u64, (ne0 * ne1 * 12) as usize).iter().map(|v| v * 20.0).collect();
            let (mask, halves) = mask((ne0 * (ne1 + 1) * 3) as usize);
            let sinks = noise(9, 6);
            let a = room.f32(ne, &values);
            let m32 = room.f32([ne0, ne1 + 1, 3, 1], &mask);
            let m16 = room.place(Tensor::new(Type::F16, m32.ne), &halves);
            let s = room.f32([6, 1, 1, 1], &sinks);
            for (m, with_sinks) in [(None, false), (None, true), (Some(m32), true), (Some(m16), false)] {
                let dst = room.empty(Type::F32, ne);
                let mut node = Node::new("SOFT_MAX", dst, &[a]);
                (node.src[1], node.src[2]) = (m, with_sinks.then_some(s));
                node.params[0] = 0.3_f32.to_bits() as i32;
                node.params[1] = if m.is_some() { 8.0_f32.to_bits() as i32 } else { 0 };
                room.run(&[node]);
                let row = |r: i64| {
                    let (i1, head) = (r % ne1, r / ne1 % 6);
                    let first = ((head % 3) * (ne1 + 1) + i1) * ne0;
                    let bias = m.map(|_| &mask[first as usize..(first + ne0) as usize]);
                    let slope = if m.is_some() { scalar::slope(head as u32, 6, 8.0) } else { 1.0 };
                    let x = &values[(r * ne0) as usize..((r + 1) * ne0) as usize];
                    scalar::soft_max(x, 0.3, bias, slope, with_sinks.then(|| sinks[head as usize]))
                };
                let want: Vec<f32> = (0..ne1 * 12).flat_map(row).collect();
                // exp may be wrong by 3 + 2|x| units of 2^-24, here up to |x| = 13 where it matters, and the argument
                // by as much again: at most (60 * 2^-24)^2 = 1.3e-11.
                let error = nmse(&want, &room.values(&dst));
                assert!(error < 1.3e-11, "{ne0} {kind:?}: {error:e}", kind = m.map(|m| m.ty));
            }
        }
    }

    #[test]
    fn the_result_may_replace_the_source() {
        let Some(mut room) = Room::new() else { return };
        for ne0 in [100, 17_000] {
            let values = noise(5, 2 * ne0 as usize);
            let a = room.f32([ne0, 2, 1, 1], &values);
            let mut node = Node::new("SOFT_MAX", a, &[a]);
            node.params[0] = 1.0_f32.to_bits() as i32;
            room.run(&[node]);
            let want: Vec<f32> =
                values.chunks(ne0 as usize).flat_map(|x| scalar::soft_max(x, 1.0, None, 1.0, None)).collect();
            assert!(nmse(&want, &room.values(&a)) < 1.3e-11);
        }
    }
}
