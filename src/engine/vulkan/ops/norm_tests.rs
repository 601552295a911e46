//! Tests of the normalisations.

use super::super::super::memory::{Memory, Role};
use super::super::super::recording::Recording;
use super::super::super::testing::{Room, nmse, noise};
use super::super::Span;
use super::super::quantize::quantized;
use super::*;
use crate::graph::reference::norm as scalar;

// A result has a handful of roundings of 2^-24 each: an NMSE of at most (8 * 2^-24)^2 = 2.3e-13.
const NMSE: f64 = 2.5e-13;

/// The reference of one row with its epsilon.
type Row = fn(&[f32], f32) -> Vec<f32>;

fn node(op: &'static str, dst: Tensor, source: Tensor, eps: f32) -> Node {
    let mut node = Node::new(op, dst, &[source]);
    node.params[0] = eps.to_bits() as i32;
    node
}

#[test]
fn rows_of_every_length_are_normalised() {
    let Some(mut room) = Room::new() else { return };
    // Below a piece, odd, whole pieces, and too long for registers (more than 16 for each of 1024 invocations).
    for ne0 in [1, 33, 64, 132, 1025, 17_000] {
        let values: Vec<f32> = noise(ne0, (ne0 * 3) as usize).iter().map(|v| v * 3.0 + 0.5).collect();
        let ne = [ne0 as i64, 3, 1, 1];
        let a = room.f32(ne, &values);
        let ops: [(_, Row); 3] = [("RMS_NORM", scalar::rms_norm), ("NORM", scalar::norm), ("L2_NORM", scalar::l2_norm)];
        for (op, reference) in ops {
            let dst = room.empty(Type::F32, ne);
            room.run(&[node(op, dst, a, 1e-3)]);
            let want: Vec<f32> = values.chunks(ne0 as usize).flat_map(|row| reference(row, 1e-3)).collect();
            let error = nmse(&want, &room.values(&dst));
            assert!(error <= NMSE, "{op} {ne0}: {error:e}");
        }
    }
}

#[test]
fn a_row_has_the_same_bits_wherever_it_lies() {
    let Some(mut room) = Room::new() else { return };
    let values = noise(2, 64 * 24);
    let whole = room.f32([64, 4, 3, 2], &values);
    let view = Tensor { ne: [60, 2, 2, 2], ..whole };
    let dst = room.empty(Type::F32, view.ne);
    // The same rows at addresses that are no multiples of 16: read one by one, not by fours.
    let shifted = room.place(Tensor { nb: [4, 4 * 61, 4 * 61 * 4, 4 * 61 * 12], ..whole }, &[0; 4 * 61 * 24]);
    let shifted = Tensor { ne: view.ne, ..shifted };
    let other = room.empty(Type::F32, view.ne);
    let mut copy = Node::new("SCALE", shifted, &[view]);
    copy.params[0] = 1.0_f32.to_bits() as i32;
    room.run(&[node("RMS_NORM", dst, view, 1e-6), copy, node("RMS_NORM", other, shifted, 1e-6)]);
    let want: Vec<f32> = [0, 1, 4, 5, 12, 13, 16, 17]
        .iter()
        .flat_map(|row| scalar::rms_norm(&values[row * 64..row * 64 + 60], 1e-6))
        .collect();
    assert!(nmse(&want, &room.values(&dst)) <= NMSE);
    assert_eq!(room.values(&dst), room.values(&other));
}

#[test]
fn columns_may_lie_apart() {
    let Some(mut room) = Room::new() else { return };
    let values = noise(3, 5 * 33);
    let a = room.f32([5, 33, 1, 1], &values);
    let turned = Tensor { ne: [33, 5, 1, 1], nb: [20, 4, 660, 660], ..a };
    let dst = room.empty(Type::F32, turned.ne);
    room.run(&[node("NORM", dst, turned, 0.0)]);
    let want: Vec<f32> =
        (0..5).flat_map(|c| scalar::norm(&(0..33).map(|r| values[r * 5 + c]).collect::<Vec<_>>(), 0.0)).collect();
    assert!(nmse(&want, &room.values(&dst)) <= NMSE);
}

#[test]
fn groups_of_channels_are_rows() {
    let Some(mut room) = Room::new() else { return };
    let values = noise(4, 9 * 9 * 8 * 2);
    let a = room.f32([9, 9, 8, 2], &values);
    let dst = room.empty(Type::F32, a.ne);
    let mut node = Node::new("GROUP_NORM", dst, &[a]);
    node.params[0] = 4;
    node.params[1] = 1e-6_f32.to_bits() as i32;
    room.run(&[node]);
    let want: Vec<f32> = values.chunks(162).flat_map(|group| scalar::norm(group, 1e-6)).collect();
    assert!(nmse(&want, &room.values(&dst)) <= NMSE);
    node.params[0] = 3;
    assert!(super::super::supports(&node, room.caps()).is_err());
}

/// Runs what `lower` lowers; gives back the bytes of the spans that it names.
fn run_lowered(lower: impl Fn(&mut Lowering) -> Vec<Span>) -> Vec<Vec<u8>> {
    let gpu = Room::new().unwrap().gpu();
    let mut question = Lowering::new(&gpu.device.caps, &gpu.buffers, 0, 0);
    lower(&mut question);
    let scratch = Memory::new(&gpu.device, Role::Tensors, question.scratch_peak).unwrap();
    let mut cx = Lowering::new(&gpu.device.caps, &gpu.buffers, 0, scratch.gpu);
    let spans = lower(&mut cx);
    let (base, scratch) = (scratch.gpu, std::sync::Arc::new(scratch));
    gpu.buffers.add(scratch.clone());
    let recording = Recording::new(&gpu.device, &gpu.pipelines, &cx.dispatches, None, Vec::new(), 1e12).unwrap();
    gpu.run(&recording).unwrap();
    let read = |span: Span| {
        let mut bytes = vec![0; span.len as usize];
        gpu.read(scratch.host() as u64 + span.start - base, &mut bytes).unwrap();
        bytes
    };
    let bytes = spans.into_iter().map(read).collect();
    gpu.buffers.remove(scratch.host() as u64);
    bytes
}

#[test]
fn fused_and_separate_nodes_have_the_same_bits() {
    let Some(mut room) = Room::new() else { return };
    // Multiples of 64: the columns of the int8 form then follow each other without a hole.
    for ne0 in [192, 1088, 33_024] {
        let ne = [ne0, 2, 1, 1];
        let data: Vec<Vec<f32>> = (0..4).map(|seed| noise(seed, 2 * ne0 as usize)).collect();
        let [a, b, add] = [0, 1, 2].map(|i| room.f32(ne, &data[i]));
        let weight = room.f32([ne0, 1, 1, 1], &data[3][..ne0 as usize]);
        let plain = room.empty(Type::F32, ne);
        let sums: Vec<f32> = data[0].iter().zip(&data[1]).map(|(a, b)| a + b).collect();
        let sum = room.f32(ne, &sums);
        room.run(&[node("RMS_NORM", plain, sum, 1e-5)]);
        let want: Vec<f32> =
            room.values(&plain).iter().enumerate().map(|(i, x)| x * data[3][i % ne0 as usize] + data[2][i]).collect();
        // Over its own sources: the sum replaces `b`, and the result the last summand.
        let parts = NormParts {
            input: a,
            residual: Some((b, b)),
            eps: 1e-5,
            weight: Some(weight),
            add: Some(add),
            dst: add,
            int8: true,
        };
        let forms = run_lowered(|cx| {
            lower_fused(&parts, cx).unwrap();
            let left = cx.derived(&add, FORM).unwrap();
            // Its rows are other tensors, whose int8 form is not known yet.
            let rows = [0, 1].map(|i| Tensor { ne: [ne0, 1, 1, 1], data: add.data + i * 4 * ne0 as u64, ..add });
            let mut spans = vec![Span { len: Q8::bytes(&add), ..left }];
            spans.extend(rows.map(|row| quantized(&row, cx).unwrap().span));
            spans
        });
        assert_eq!(room.values(&b), sums);
        assert_eq!(room.values(&add), want, "{ne0}");
        assert_eq!(forms[0], [forms[1].clone(), forms[2].clone()].concat(), "{ne0}");
    }
}
