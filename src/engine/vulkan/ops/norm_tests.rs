//! Tests of the normalisations.

use super::super::super::testing::{Room, nmse, noise};
use super::*;
use crate::graph::reference::norm as scalar;

// A result has a handful of roundings of 2^-24 each: an NMSE of at most (8 * 2^-24)^2 = 2.3e-13.
const NMSE: f64 = 2.5e-13;

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
        let ops: [(&str, fn(&[f32], f32) -> Vec<f32>); 3] =
            [("RMS_NORM", scalar::rms_norm), ("NORM", scalar::norm), ("L2_NORM", scalar::l2_norm)];
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
