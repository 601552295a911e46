//! Tests of the rotary embedding.

use super::super::super::testing::{Room, nmse, noise};
use super::*;
use crate::graph::Tensor;
use crate::graph::reference::rope as scalar;

/// `op_params` with `fine`: YaRN's numbers of llama.cpp's tests, which differ from 0 and 1.
fn params(dims: i32, mode: i32, first: i32, sections: [i32; 4], fine: bool) -> [i32; 16] {
    let [scale, ext, attention] = if fine { [1.4245_f32, 0.7465, 1.4245] } else { [1.0, 0.0, 1.0] };
    let mut params = [0; 16];
    (params[1], params[2], params[4], params[15]) = (dims, mode, if fine { 4096 } else { 0 }, first);
    for (i, x) in [10000.0, scale, ext, attention, 32.0, 1.0].into_iter().enumerate() {
        params[5 + i] = x.to_bits() as i32;
    }
    params[11..15].copy_from_slice(&sections);
    params
}

fn positions(room: &mut Room, mode: i32, values: &[i32]) -> (Tensor, Vec<[i32; 4]>) {
    let tokens = values.len();
    let all: Vec<i32> = (0..4).flat_map(|k| values.iter().map(move |v| v / (k + 1))).collect();
    let used = if mode & MROPE == 0 { tokens } else { 4 * tokens };
    let tensor = room.i32([used as i64, 1, 1, 1], &all[..used]);
    (tensor, (0..tokens).map(|t| [0, 1, 2, 3].map(|k| all[k * tokens + t])).collect())
}

#[test]
fn every_mode_turns_as_the_reference() {
    let Some(mut room) = Room::new() else { return };
    let cases = [
        (0, 40, 0, [0; 4]),
        (0, 16, 8, [0; 4]),
        (2, 40, 0, [0; 4]),
        (2, 16, 24, [0; 4]),
        (8, 36, 0, [6, 6, 6, 0]),
        (8, 36, 4, [4, 5, 4, 3]),
        (24, 20, 0, [10, 10, 0, 0]),
        (24, 20, 0, [6, 5, 5, 4]),
        (40, 36, 0, [7, 6, 5, 0]),
    ];
    for (seed, (mode, dims, first, sections)) in cases.into_iter().enumerate() {
        let values = noise(seed as u64, 80 * 12 * 3);
        let factors: Vec<f32> = noise(99, 20).iter().map(|v| v * 0.5 + 1.25).collect();
        // Half of each row of a larger tensor.
        let whole = room.f32([80, 4, 3, 3], &values);
        let a = Tensor { ne: [40, 3, 3, 2], ..whole };
        let (p, tokens) = positions(&mut room, mode, &[0, 17, 131_071]);
        let f = room.f32([20, 1, 1, 1], &factors);
        for (fine, back) in [(false, false), (true, false), (true, true)] {
            let dst = room.empty(Type::F32, a.ne);
            let mut node = Node::new(if back { "ROPE_BACK" } else { "ROPE" }, dst, &[a, p]);
            node.src[2] = fine.then_some(f);
            node.params = params(dims, mode, first, sections, fine);
            room.run(&[node]);
            let row = |i3: usize, i2: usize, i1: usize| {
                let at = ((i3 * 3 + i2) * 4 + i1) * 80;
                let factors = fine.then_some(&factors[..]);
                scalar::rope(&values[at..at + 40], &node.params, tokens[i2], factors, back)
            };
            let want: Vec<f32> = (0..18).flat_map(|r| row(r / 9, r / 3 % 3, r % 3)).collect();
            // Without factors the angle has the reference's bits, and cosine and sine are right to 2e-7. A division by a
            // factor may round otherwise: 2.5 * 2^-24 of an angle of up to 131071 * 1.4 are 0.03.
            let limit = if fine { 1e-4 } else { 1e-13 };
            let error = nmse(&want, &room.values(&dst));
            assert!(error < limit, "mode {mode} {sections:?} fine {fine} back {back}: {error:e}");
        }
    }
}

#[test]
fn halves_turn_in_place() {
    let Some(mut room) = Room::new() else { return };
    // Multiples of 1/64 are exact in f16.
    let values: Vec<f32> = noise(3, 64 * 2 * 5).iter().map(|v| (v * 64.0).round() / 64.0).collect();
    let single = room.f32([64, 2, 5, 1], &values);
    let bytes: Vec<u8> = values.iter().flat_map(|v| half_bits(*v).to_le_bytes()).collect();
    let half = room.place(Tensor::new(Type::F16, single.ne), &bytes);
    let (p, tokens) = positions(&mut room, 2, &[5, 4, 3, 2, 1000]);
    let node = |t: Tensor| {
        let mut node = Node::new("ROPE", t, &[t, p]);
        node.params = params(32, 2, 0, [0; 4], false);
        node
    };
    room.run(&[node(single), node(half)]);
    let want: Vec<f32> = (0..10)
        .flat_map(|r| scalar::rope(&values[r * 64..r * 64 + 64], &node(single).params, tokens[r / 2], None, false))
        .collect();
    assert!(nmse(&want, &room.values(&single)) < 1e-13);
    let got: Vec<f32> =
        room.bytes(&half).chunks_exact(2).map(|c| half_value(u16::from_le_bytes([c[0], c[1]]))).collect();
    // Half a unit of 11 bits each: at most 2^-22, on average a third of that.
    assert!(nmse(&want, &got) < 2.4e-7);
}

/// A normal f16 with exactly this value, or 0.
fn half_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    if x == 0.0 { 0 } else { ((bits >> 16) & 0x8000) as u16 | (((bits >> 13) & 0x3_ffff) as i32 - (112 << 10)) as u16 }
}

fn half_value(x: u16) -> f32 {
    let (exponent, mantissa) = (i32::from(x >> 10 & 31), f32::from(x & 1023));
    let size = if exponent == 0 { mantissa * 2f32.powi(-24) } else { (1024.0 + mantissa) * 2f32.powi(exponent - 25) };
    if x & 0x8000 != 0 { -size } else { size }
}

#[test]
fn what_the_shader_does_not_do_is_refused() {
    let caps = super::super::super::caps::Caps::for_tests();
    let t = Tensor::new(Type::F32, [64, 2, 5, 1]);
    let refused = |params, positions| {
        let mut node = Node::new("ROPE", t, &[t, Tensor::new(Type::I32, [positions, 1, 1, 1])]);
        node.params = params;
        super::super::supports(&node, &caps).is_err()
    };
    assert!(!refused(params(64, 0, 0, [0; 4], false), 5));
    assert!(refused(params(64, 0, 0, [0; 4], false), 4));
    assert!(refused(params(64, 0, 2, [0; 4], false), 5));
    assert!(refused(params(64, 4, 0, [0; 4], false), 5));
    assert!(refused(params(64, 24, 0, [16, 16, 0, 0], false), 20));
    assert!(refused(params(32, 24, 0, [16, 0, 16, 0], false), 20));
    assert!(refused(params(64, 8, 0, [0; 4], false), 20));
}
