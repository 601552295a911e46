//! ARGSORT and TOP_K; `shaders/sort.comp` tells how.

use super::{Dispatch, Lowering, Params, Push, Reject, Span, expect_types, source};
use crate::graph::{Node, Type};

/// The most keys that a workgroup sorts in shared memory: 16 KiB of them.
const BLOCK: u64 = 2048;

/// The most bytes of keys in scratch memory.
const MOST_KEYS: u64 = 256 << 20;

/// Lowers an ARGSORT or a TOP_K.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    expect_types(node, Type::I32, &[Type::F32])?;
    let (a, dst, top) = (source(node, 0)?, node.dst, node.op == "TOP_K");
    if a.ne[1..] != dst.ne[1..] || dst.ne[0] > a.ne[0] || (!top && dst.ne[0] != a.ne[0]) {
        return Err(Reject::Shape(node.op, format!("{:?} to {:?}", a.ne, dst.ne)));
    }
    if !top && !matches!(node.params[0], 0 | 1) {
        return Err(Reject::Shape(node.op, format!("order {}", node.params[0])));
    }
    let (length, wanted, rows) = (a.ne[0] as u64, dst.ne[0] as u64, dst.rows() as u64);
    // The first keys of each block are enough for TOP_K, as long as keeping them at least halves a row.
    let kept = Some(wanted.next_power_of_two()).filter(|k| top && *k <= BLOCK / 2);
    let keys = match kept {
        _ if length <= BLOCK => 0,
        Some(kept) => rows * length.div_ceil(BLOCK) * kept,
        None => rows.saturating_mul(length.next_power_of_two()),
    };
    if keys.saturating_mul(8) > MOST_KEYS || rows > u64::from(u32::MAX) {
        return Err(Reject::Shape(node.op, format!("{keys} keys of 8 bytes; the limit is {MOST_KEYS} bytes")));
    }
    let tensors = Params::new().tensor(cx.tensor(&a)?).tensor(cx.tensor(&dst)?);
    let descending = top || node.params[0] == 1;
    let (source, result) = (cx.span(&a)?, cx.span(&dst)?);
    let mut pass = Pass { tensors, rows, descending, from: None, to: None, length, blocks: 1, keep: wanted };
    if let Some(kept) = kept {
        while pass.length > BLOCK {
            let blocks = pass.length.div_ceil(BLOCK);
            let span = cx.scratch(rows * blocks * kept * 8);
            pass = Pass { to: Some(span), blocks, keep: kept, ..pass };
            pass.blocks(pass.from.unwrap_or(source), span, cx);
            pass = Pass { from: Some(span), to: None, length: blocks * kept, blocks: 1, keep: wanted, ..pass };
        }
    }
    if pass.length <= BLOCK {
        pass.blocks(pass.from.unwrap_or(source), result, cx);
        return Ok(());
    }
    let padded = length.next_power_of_two();
    let span = cx.scratch(rows * padded * 8);
    pass = Pass { to: Some(span), blocks: padded / BLOCK, keep: BLOCK, ..pass };
    let params = pass.blocks(source, span, cx);
    let mut stage = 2 * BLOCK;
    while stage <= padded {
        let mut distance = stage / 2;
        while distance >= BLOCK {
            let push = Push::new().u64(params).u32(stage as u32).u32(distance as u32);
            let groups = Dispatch::over(rows * padded / 2, GROUP);
            pass.dispatch("sort_step", GROUP, push, groups, (span, span), cx);
            distance /= 2;
        }
        let push = Push::new().u64(params).u32(stage as u32).u32(0);
        let to = if stage == padded { result } else { span };
        pass.dispatch(
            "sort_finish",
            sort_group(BLOCK, cx),
            push,
            Dispatch::groups_of(rows * pass.blocks),
            (span, to),
            cx,
        );
        stage *= 2;
    }
    Ok(())
}

/// Invocations of a workgroup that compares keys in memory.
const GROUP: u32 = 256;

/// Invocations of a workgroup that sorts a block: one for each pair, as far as the device goes.
fn sort_group(block: u64, cx: &Lowering) -> u32 {
    (block as u32 / 2).min(1024).min(cx.caps.invocations).max(cx.caps.subgroup)
}

/// One sorting of all blocks of all rows.
#[derive(Clone)]
struct Pass {
    /// The values and the places.
    tensors: Params,
    rows: u64,
    descending: bool,
    /// Keys of an earlier pass; `None`: the values.
    from: Option<Span>,
    /// Where the keys go; `None`: their places are the result.
    to: Option<Span>,
    /// Keys of a row.
    length: u64,
    /// Blocks of a row.
    blocks: u64,
    /// Keys of a block that are written.
    keep: u64,
}

impl Pass {
    /// Keys of a block: all that there are when these are few.
    fn block(&self) -> u64 {
        if self.blocks > 1 { BLOCK } else { self.length.next_power_of_two().max(2) }
    }

    /// Sorts each block; gives the address of the parameters.
    fn blocks(&self, read: Span, write: Span, cx: &mut Lowering) -> u64 {
        let address = |span: Option<Span>| span.map_or(0, |s| s.start);
        let mut params = self.tensors.clone().u64(address(self.from)).u64(address(self.to));
        // Blocks to be merged are sorted in alternating directions; all of a block is kept only then.
        let alternate = self.blocks > 1 && self.keep == BLOCK;
        for x in [self.length, self.blocks, self.rows, self.keep, alternate.into(), self.descending.into()] {
            params = params.u32(x as u32);
        }
        let params = cx.params(&params);
        let groups = Dispatch::groups_of(self.rows * self.blocks);
        let push = Push::new().u64(params).u32(0).u32(0);
        self.dispatch("sort_block", sort_group(self.block(), cx), push, groups, (read, write), cx);
        params
    }

    fn dispatch(
        &self,
        shader: &'static str,
        size: u32,
        push: Push,
        groups: [u32; 3],
        (read, write): (Span, Span),
        cx: &mut Lowering,
    ) {
        cx.push(Dispatch {
            shader,
            spec: vec![size, self.block() as u32],
            push,
            groups,
            reads: vec![read],
            writes: vec![write],
            work: 50.0 * (self.rows * self.blocks * self.block()) as f64,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Room, noise};
    use super::*;
    use crate::graph::Tensor;
    use crate::graph::reference::reduce as scalar;

    /// Numbers of which some are equal, and both zeros.
    fn values(n: i64) -> Vec<f32> {
        let round = |(i, v): (usize, &f32)| if i % 3 == 0 { (v * 4.0).round() / 4.0 } else { *v };
        noise(n as u64, n as usize).iter().enumerate().map(round).collect()
    }

    fn bytes(places: impl Iterator<Item = i32>) -> Vec<u8> {
        places.flat_map(i32::to_le_bytes).collect()
    }

    #[test]
    fn rows_of_every_length_are_sorted() {
        let Some(mut room) = Room::new() else { return };
        for ne in [[1, 3, 1, 1], [2, 5, 3, 2], [60, 4, 1, 1], [2048, 2, 1, 1], [2049, 2, 1, 1], [16_384, 1, 1, 1]] {
            let values = values(ne.iter().product());
            let a = room.f32(ne, &values);
            for order in [0, 1] {
                let dst = room.empty(Type::I32, ne);
                let mut node = Node::new("ARGSORT", dst, &[a]);
                node.params[0] = order;
                room.run(&[node]);
                let want = values.chunks(ne[0] as usize).flat_map(|row| scalar::argsort(row, order == 1));
                assert_eq!(room.bytes(&dst), bytes(want), "{ne:?} {order}");
            }
        }
    }

    #[test]
    fn the_largest_are_found() {
        let Some(mut room) = Room::new() else { return };
        let cases = [(4, 4, 3), (60, 7, 2), (2049, 1, 2), (33_024, 40, 2), (9000, 1024, 1), (5000, 1025, 2)];
        for (ne0, k, rows) in cases {
            let values = values(ne0 * rows * 2);
            let a = room.f32([2 * ne0, rows, 1, 1], &values);
            // The second half of longer rows.
            let half = Tensor { ne: [ne0, rows, 1, 1], data: a.data + 4 * ne0 as u64, ..a };
            let dst = room.empty(Type::I32, [k, rows, 1, 1]);
            room.run(&[Node::new("TOP_K", dst, &[half])]);
            let want = values
                .chunks(2 * ne0 as usize)
                .flat_map(|row| scalar::argsort(&row[ne0 as usize..], true).into_iter().take(k as usize));
            assert_eq!(room.bytes(&dst), bytes(want), "{k} of {ne0}");
        }
    }
}
