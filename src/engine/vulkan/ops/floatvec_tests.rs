use super::super::super::testing::{Room, nmse, noise};
use super::*;
use crate::engine::vulkan::caps::Caps;
use crate::graph::reference::product::{mul_mat, mul_mat_id};
use crate::graph::reference::quant::sample;

/// Sums of at most a few thousand products, each rounded to 24 bits: relative errors of some 2^-22 at most, so their squares
/// stay far below this.
const TOLERANCE: f64 = 1e-12;

const WEIGHTS: [Type; 16] = [
    Type::F32,
    Type::F16,
    Type::BF16,
    Type::Q4_0,
    Type::Q4_1,
    Type::Q5_0,
    Type::Q5_1,
    Type::Q8_0,
    Type::Q2_K,
    Type::Q3_K,
    Type::Q4_K,
    Type::Q5_K,
    Type::Q6_K,
    Type::IQ4_NL,
    Type::IQ4_XS,
    Type::MXFP4,
];

/// A tensor whose dimension i is dimension `order[i]` of a contiguous one that has `ne[i]` there.
fn permuted(ty: Type, ne: [i64; 4], order: [usize; 4]) -> Tensor {
    let mut inner = [0; 4];
    for i in 0..4 {
        inner[order[i]] = ne[i];
    }
    let memory = Tensor::new(ty, inner);
    Tensor { ne, nb: std::array::from_fn(|i| memory.nb[order[i]]), ..memory }
}

fn filled(room: &mut Room, tensor: Tensor, seed: u64) -> (Tensor, Vec<u8>) {
    let elements = tensor.span() / tensor.ty.bytes() * tensor.ty.block();
    let bytes = sample(tensor.ty, seed, elements as usize);
    (room.place(tensor, &bytes), bytes)
}

/// Computes a * b on the device, and compares it with the reference.
fn check(room: &mut Room, a: Tensor, b: Tensor) -> Vec<f32> {
    let ((a, a_bytes), (b, b_bytes)) = (filled(room, a, 1), filled(room, b, 2));
    let dst = room.empty(Type::F32, [a.ne[1], b.ne[1], b.ne[2], b.ne[3]]);
    room.run(&[Node::new("MUL_MAT", dst, &[a, b])]);
    let (want, got) = (mul_mat((&a, &a_bytes), (&b, &b_bytes)), room.values(&dst));
    let error = nmse(&want, &got);
    assert!(error < TOLERANCE, "{} {:?} {:?} x {:?}: {error:e}", a.ty.name(), a.ne, a.nb, b.ne);
    got
}

#[test]
fn identity_gives_the_golden_values() {
    let Some(mut room) = Room::new() else { return };
    let golden = include_str!("../../../../tests/golden/quants.txt");
    for line in golden.lines().filter(|l| !l.starts_with('#')) {
        let [name, row, values] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let Some(_) = shader(Type::from_name(name)) else { continue };
        let hex = |text: &str, at: usize, digits: usize| u32::from_str_radix(&text[at..at + digits], 16).unwrap();
        let row: Vec<u8> = (0..row.len()).step_by(2).map(|i| hex(row, i, 2) as u8).collect();
        let want: Vec<f32> = (0..values.len()).step_by(8).map(|i| f32::from_bits(hex(values, i, 8))).collect();
        let k = want.len();
        let a = room.place(Tensor::new(Type::from_name(name), [k as i64, 1, 1, 1]), &row);
        let identity: Vec<f32> = (0..k * k).map(|i| if i % k == i / k { 1.0 } else { 0.0 }).collect();
        let b = room.f32([k as i64, k as i64, 1, 1], &identity);
        let dst = room.empty(Type::F32, [1, k as i64, 1, 1]);
        let node = Node::new("MUL_MAT", dst, &[a, b]);
        room.run(&[node]);
        // Each sum has one term, so nothing is rounded.
        assert_eq!(room.values(&dst), want, "{name}");
    }
}

#[test]
fn every_type_at_few_and_many_columns() {
    let Some(mut room) = Room::new() else { return };
    for ty in WEIGHTS {
        let k = if ty.block() == 256 { 512 } else { 288 };
        for n in [3, 9] {
            check(&mut room, Tensor::new(ty, [k, 6, 1, 1]), Tensor::new(Type::F32, [k, n, 1, 1]));
        }
    }
    check(&mut room, Tensor::new(Type::Q4_0, [64, 123, 1, 1]), Tensor::new(Type::F32, [64, 35, 1, 1]));
    check(&mut room, Tensor::new(Type::Q4_0, [288, 6, 1, 1]), Tensor::new(Type::F32, [288, 1, 1, 1]));
}

#[test]
fn odd_rows_of_plain_numbers() {
    let Some(mut room) = Room::new() else { return };
    for (ty, of_b) in [
        (Type::F32, Type::F32),
        (Type::F16, Type::F32),
        (Type::F16, Type::F16),
        (Type::BF16, Type::BF16),
        (Type::F32, Type::BF16),
    ] {
        for (k, n) in [(1, 3), (3, 5), (67, 3), (193, 4)] {
            check(&mut room, Tensor::new(ty, [k, 7, 1, 1]), Tensor::new(of_b, [k, n, 1, 1]));
        }
    }
    check(&mut room, Tensor::new(Type::F16, [193, 7, 1, 1]), Tensor::new(Type::F32, [193, 1, 1, 1]));
}

#[test]
fn permuted_repeated_and_strided() {
    let Some(mut room) = Room::new() else { return };
    for ty in [Type::F32, Type::F16, Type::Q8_0, Type::Q4_0] {
        for order in [[0, 2, 1, 3], [0, 1, 3, 2], [0, 3, 2, 1]] {
            for n in [1, 4] {
                check(&mut room, permuted(ty, [64, 5, 2, 3], order), permuted(Type::F32, [64, n, 4, 6], order));
            }
        }
        let mut a = Tensor::new(ty, [96, 10, 2, 2]);
        (a.ne[0], a.ne[1]) = (64, 7);
        check(&mut room, a, Tensor::new(Type::F32, [64, 6, 4, 2]));
    }
    // Rows that are columns in memory, on both sides.
    check(
        &mut room,
        permuted(Type::F16, [37, 5, 2, 1], [1, 0, 2, 3]),
        permuted(Type::F32, [37, 3, 2, 1], [1, 0, 2, 3]),
    );
}

#[test]
fn a_column_has_the_same_bits_at_every_width() {
    let Some(mut room) = Room::new() else { return };
    for (ty, m) in [(Type::F16, 300), (Type::F32, 9), (Type::Q6_K, 40)] {
        let k = 512;
        let (a, _) = filled(&mut room, Tensor::new(ty, [k, m, 1, 1]), 3);
        let columns = noise(4, k as usize * 17);
        let mut alone = Vec::new();
        for n in [1, 2, 3, 4, 5, 8, 17] {
            let b = room.f32([k, n, 1, 1], &columns[..(k * n) as usize]);
            let dst = room.empty(Type::F32, [m, n, 1, 1]);
            room.run(&[Node::new("MUL_MAT", dst, &[a, b])]);
            let got = room.values(&dst);
            let common = alone.len().min(got.len());
            assert!(got[..common] == alone[..common], "{} at {n}", ty.name());
            alone = got;
        }
    }
}

#[test]
fn ids_choose_the_matrix() {
    let Some(mut room) = Room::new() else { return };
    for (ty, of_b) in [(Type::F32, 1), (Type::F16, 3), (Type::Q4_K, 3), (Type::MXFP4, 1)] {
        let (k, m, experts, used, tokens) = (256, 6, 5, 3, 4);
        let (a, a_bytes) = filled(&mut room, Tensor::new(ty, [k, m, experts, 1]), 5);
        let (b, b_bytes) = filled(&mut room, Tensor::new(Type::F32, [k, of_b, tokens, 1]), 6);
        // A view of the first columns of a wider table.
        let table: Vec<i32> = (0..(experts * tokens) as i32).map(|i| i * 7 % 5).collect();
        let mut ids = room.i32([experts, tokens, 1, 1], &table);
        ids.ne[0] = used;
        let dst = room.empty(Type::F32, [m, used, tokens, 1]);
        room.run(&[Node::new("MUL_MAT_ID", dst, &[a, b, ids])]);
        let expert = |u: i64, t: i64| table[(t * experts + u) as usize];
        let want = mul_mat_id((&a, &a_bytes), (&b, &b_bytes), used, expert);
        let error = nmse(&want, &room.values(&dst));
        assert!(error < TOLERANCE, "{}: {error:e}", ty.name());
    }
}

#[test]
fn an_expert_that_is_not_there_has_no_values() {
    let Some(mut room) = Room::new() else { return };
    let (a, _) = filled(&mut room, Tensor::new(Type::F32, [8, 2, 2, 1]), 7);
    let b = room.f32([8, 1, 3, 1], &noise(8, 24));
    let ids = room.i32([1, 3, 1, 1], &[1, -1, 2]);
    let dst = room.empty(Type::F32, [2, 1, 3, 1]);
    room.run(&[Node::new("MUL_MAT_ID", dst, &[a, b, ids])]);
    let got: Vec<bool> = room.values(&dst).iter().map(|v| v.is_nan()).collect();
    assert_eq!(got, [false, false, true, true, true, true]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let caps = Caps::for_tests();
    let refused = |a: Tensor, b: Tensor| {
        let dst = Tensor::new(Type::F32, [a.ne[1], b.ne[1], b.ne[2], b.ne[3]]);
        lower(&Node::new("MUL_MAT", dst, &[a, b]), &mut Lowering::question(&caps)).is_err()
    };
    let b = Tensor::new(Type::F32, [64, 1, 3, 1]);
    assert!(!refused(Tensor::new(Type::Q8_0, [64, 2, 3, 1]), b));
    assert!(refused(Tensor::new(Type::Q8_0, [64, 2, 2, 1]), b), "two matrices cannot serve three");
    assert!(refused(Tensor::new(Type::Q8_0, [32, 2, 3, 1]), b), "other length of row");
    assert!(refused(Tensor::new(Type::I32, [64, 2, 3, 1]), b), "no weights");
    assert!(refused(Tensor::new(Type::Q8_0, [64, 2, 3, 1]), Tensor::new(Type::I32, [64, 1, 3, 1])), "no activations");
    let mut odd = Tensor::new(Type::Q8_0, [64, 2, 3, 1]);
    odd.nb[1] += 1;
    assert!(refused(odd, b), "blocks at odd addresses");
}
