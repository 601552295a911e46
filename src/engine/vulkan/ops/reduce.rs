//! Reductions along rows: SUM_ROWS, SUM, MEAN, CUMSUM, ARGMAX. Sorting is in [`super::sort`].

use super::norm::group_size;
use super::{Dispatch, Lowering, Params, Push, Reject, Span, TensorParams, expect_types, sort, source};
use crate::graph::{Node, Tensor, Type};

/// Lowers a node of this family.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    let a = source(node, 0)?;
    let dst = node.dst;
    let row_results = |ty, ne| match dst.ty == ty && dst.ne == ne {
        true => Ok(()),
        false => Err(Reject::Shape(node.op, format!("{:?} to {:?}", a.ne, dst.ne))),
    };
    let sums = [1, a.ne[1], a.ne[2], a.ne[3]];
    match node.op {
        "ARGSORT" | "TOP_K" => return sort::lower(node, cx),
        "ARGMAX" => {
            expect_types(node, Type::I32, &[Type::F32])?;
            row_results(Type::I32, [a.rows(), 1, 1, 1])?;
        }
        _ => expect_types(node, Type::F32, &[Type::F32])?,
    }
    if a.ne[0] == 0 || a.rows() > i64::from(u32::MAX) {
        return Err(Reject::Shape(node.op, format!("rows of {} elements, {} of them", a.ne[0], a.rows())));
    }
    let (from, to) = (cx.tensor(&a)?, cx.tensor(&dst)?);
    let (reads, writes) = (cx.span(&a)?, cx.span(&dst)?);
    match node.op {
        "ARGMAX" => rows("argmax", (from, reads), (to, writes), 1.0, cx),
        "SUM_ROWS" | "MEAN" => {
            row_results(Type::F32, sums)?;
            let divisor = if node.op == "MEAN" { a.ne[0] as f32 } else { 1.0 };
            rows("sum_rows", (from, reads), (to, writes), divisor, cx);
        }
        "CUMSUM" => {
            row_results(Type::F32, a.ne)?;
            if !dst.row_contiguous() {
                return Err(Reject::Shape(node.op, format!("a result with strides {:?}", dst.nb)));
            }
            rows("cumsum", (from, reads), (to, writes), 1.0, cx);
        }
        "SUM" => {
            row_results(Type::F32, [1; 4])?;
            if a.rows() > i64::from(u32::MAX / 8) {
                return Err(Reject::Shape(node.op, format!("{} rows", a.rows())));
            }
            // The sums of the rows, each with what its rounding lost, then the sum of all of these as one row.
            let span = cx.scratch(8 * a.rows() as u64);
            let partial = Tensor::new(Type::F32, sums);
            let mut partial = TensorParams { address: span.start, ..cx.tensor(&Tensor { data: a.data, ..partial })? };
            partial.nb = partial.nb.map(|nb| 2 * nb);
            sums_of("sum_rows", (from, reads), (partial, span), 1.0, true, cx);
            let row = TensorParams { ne: [2 * a.rows() as u32, 1, 1, 1], nb: [4, 0, 0, 0], ..partial };
            rows("sum_rows", (row, span), (to, writes), 1.0, cx);
        }
        _ => return Err(Reject::Op(node.op.to_owned())),
    }
    Ok(())
}

/// One workgroup for each row of the first tensor.
fn rows(shader: &'static str, a: (TensorParams, Span), dst: (TensorParams, Span), divisor: f32, cx: &mut Lowering) {
    sums_of(shader, a, dst, divisor, false, cx);
}

/// As [`rows`]; with `pair` each sum is followed by what its rounding lost.
fn sums_of(
    shader: &'static str,
    a: (TensorParams, Span),
    dst: (TensorParams, Span),
    divisor: f32,
    pair: bool,
    cx: &mut Lowering,
) {
    let params = cx.params(&Params::new().tensor(dst.0).tensor(a.0).f32(divisor).u32(u32::from(pair)));
    let [ne0, rows] = [u64::from(a.0.ne[0]), a.0.ne[1..].iter().map(|n| u64::from(*n)).product()];
    cx.push(Dispatch {
        shader,
        spec: vec![group_size(ne0 as i64, cx)],
        push: Push::new().u64(params),
        groups: Dispatch::groups_of(rows),
        reads: vec![a.1],
        writes: vec![dst.1],
        work: 2.0 * (ne0 * rows) as f64,
    });
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Room, nmse, noise};
    use super::*;
    use crate::graph::reference::reduce as scalar;

    // Sums of n numbers of one sign lose at most log2(n) + 4 roundings of 2^-24: (21 * 2^-24)^2.
    const NMSE: f64 = 1.6e-12;

    #[test]
    fn a_sum_that_is_smaller_than_its_roundings_is_right() {
        let Some(mut room) = Room::new() else { return };
        let mut values = noise(5, 33 * 256);
        // The numbers again with the other sign, in another order, and one that stays.
        let negative: Vec<f32> = values.iter().rev().map(|v| -v).collect();
        values.extend(negative);
        values[7] += 0.25;
        let want: f64 = values.iter().map(|v| f64::from(*v)).sum();
        let a = room.f32([66, 256, 1, 1], &values);
        let dst = room.empty(Type::F32, [1; 4]);
        room.run(&[Node::new("SUM", dst, &[a])]);
        let got = f64::from(room.values(&dst)[0]);
        assert!((got - want).abs() < 1e-7 * want.abs(), "{got} {want}");
    }

    #[test]
    fn sums_of_rows_wherever_they_lie() {
        let Some(mut room) = Room::new() else { return };
        for ne in [[7, 5, 6, 3], [33, 40, 1, 1], [5000, 2, 1, 1]] {
            let values: Vec<f32> = noise(1, ne.iter().product::<i64>() as usize).iter().map(|v| v + 1.5).collect();
            let a = room.f32(ne, &values);
            // Dimensions 0 and 1 exchanged: columns that lie apart.
            let turned = Tensor { ne: [ne[1], ne[0], ne[2], ne[3]], nb: [a.nb[1], a.nb[0], a.nb[2], a.nb[3]], ..a };
            for t in [a, turned] {
                let sums: Vec<f32> = scalar::rows(&values, &t).iter().map(|row| scalar::sum(row)).collect();
                let [rows, mean, all] = [0, 1, 2]
                    .map(|i| room.empty(Type::F32, if i < 2 { [1, t.ne[1], t.ne[2], t.ne[3]] } else { [1; 4] }));
                let node = |op, dst| Node::new(op, dst, &[t]);
                room.run(&[node("SUM_ROWS", rows), node("MEAN", mean), node("SUM", all)]);
                assert!(nmse(&sums, &room.values(&rows)) < NMSE);
                let means: Vec<f32> = sums.iter().map(|s| s / t.ne[0] as f32).collect();
                assert!(nmse(&means, &room.values(&mean)) < NMSE);
                assert!(nmse(&[scalar::sum(&sums)], &room.values(&all)) < NMSE);
            }
        }
    }

    #[test]
    fn running_sums() {
        let Some(mut room) = Room::new() else { return };
        for ne in [[3, 4, 2, 1], [127, 3, 1, 1], [10_001, 2, 1, 1]] {
            let values: Vec<f32> = noise(2, ne.iter().product::<i64>() as usize).iter().map(|v| v + 1.5).collect();
            let a = room.f32(ne, &values);
            let dst = room.empty(Type::F32, ne);
            room.run(&[Node::new("CUMSUM", dst, &[a])]);
            let want: Vec<f32> = values.chunks(ne[0] as usize).flat_map(scalar::cumsum).collect();
            assert!(nmse(&want, &room.values(&dst)) < NMSE, "{ne:?}");
        }
    }

    #[test]
    fn the_place_of_the_largest() {
        let Some(mut room) = Room::new() else { return };
        for ne0 in [1, 32, 100, 2000, 5438] {
            let mut values = noise(3, 7 * ne0);
            // A row of negative numbers, one of equal numbers (the last counts) and one of both zeros.
            values[..ne0].iter_mut().for_each(|v| *v = -1.5 - *v);
            values[ne0..2 * ne0].fill(0.25);
            values[2 * ne0..3 * ne0].iter_mut().enumerate().for_each(|(i, v)| *v = [0.0, -0.0][i % 2]);
            let a = room.f32([ne0 as i64, 7, 1, 1], &values);
            let dst = room.empty(Type::I32, [7, 1, 1, 1]);
            room.run(&[Node::new("ARGMAX", dst, &[a])]);
            let want: Vec<u8> = values.chunks(ne0).flat_map(|x| scalar::argmax(x).to_le_bytes()).collect();
            assert_eq!(room.bytes(&dst), want, "{ne0}");
        }
    }
}
