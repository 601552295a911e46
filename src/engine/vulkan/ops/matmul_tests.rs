//! Products of many columns against sums of f64 over the values of the blocks.

use crate::engine::vulkan::testing::{Room, nmse, noise};
use crate::graph::reference::quant::value;
use crate::graph::{Node, Tensor, Type};

/// Weights of any type: random bytes, with scales between 2^-7 and 2^-6 (and minima of their size).
fn weights(ty: Type, rows: u64, k: u64, seed: u64) -> Vec<u8> {
    let (block, count) = (ty.bytes() as usize, (rows * k / ty.block()) as usize);
    let mut bytes: Vec<u8> = noise(seed, block * count).iter().map(|x| (x * 128.0) as i8 as u8).collect();
    let halves: &[usize] = match ty {
        Type::Q4_1 | Type::Q5_1 | Type::Q4_K | Type::Q5_K => &[0, 2],
        Type::Q2_K => &[80, 82],
        Type::Q3_K => &[108],
        Type::Q6_K => &[208],
        Type::MXFP4 => &[],
        _ => &[0],
    };
    for b in bytes.chunks_exact_mut(block) {
        for at in halves {
            // Sign, exponent and the highest bits of the mantissa of an f16.
            b[at + 1] = 0x20 | b[at + 1] & 0x83;
        }
        if ty == Type::MXFP4 {
            b[0] = 120 + b[0] % 2;
        }
    }
    bytes
}

/// The result of every column, in the order of the result's dimensions.
fn product(a: &Tensor, weights: &[u8], b: &Tensor, inputs: &[f32]) -> Vec<f32> {
    let (k, m) = (a.ne[0] as usize, a.ne[1] as usize);
    let rows = a.rows() as usize;
    let row_bytes = weights.len() / rows;
    let values: Vec<Vec<f32>> =
        (0..rows).map(|r| (0..k).map(|i| value(a.ty, &weights[r * row_bytes..], i)).collect()).collect();
    let mut out = Vec::new();
    for column in 0..b.rows() as usize {
        let (i2, i3) = (column / b.ne[1] as usize % b.ne[2] as usize, column / (b.ne[1] * b.ne[2]) as usize);
        let (a2, a3) = (i2 / (b.ne[2] / a.ne[2]) as usize, i3 / (b.ne[3] / a.ne[3]) as usize);
        for row in 0..m {
            let w = &values[(a3 * a.ne[2] as usize + a2) * m + row];
            let x = &inputs[column * k..][..k];
            out.push(w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum::<f64>() as f32);
        }
    }
    out
}

/// Runs a product and returns its error.
fn error(room: &mut Room, ty: Type, ne_a: [i64; 4], ne_b: [i64; 4]) -> f64 {
    let bytes = weights(ty, (ne_a[1] * ne_a[2] * ne_a[3]) as u64, ne_a[0] as u64, 3);
    let inputs = noise(4, ne_b.iter().product::<i64>() as usize);
    let a = room.place(Tensor::new(ty, ne_a), &bytes);
    let b = room.f32(ne_b, &inputs);
    let dst = room.empty(Type::F32, [ne_a[1], ne_b[1], ne_b[2], ne_b[3]]);
    let node = Node::new("MUL_MAT", dst, &[a, b]);
    super::lower(&node, &mut super::Lowering::question(room.caps())).unwrap();
    room.run(&[node]);
    nmse(&product(&a, &bytes, &b, &inputs), &room.values(&dst))
}

#[test]
fn products_of_int8_activations_are_right_up_to_the_rounding_of_the_activations() {
    Room::both().for_each(int8_products);
}

fn int8_products(mut room: Room) {
    // A step of 1/127 of the largest in a block rounds uniform numbers with an error of (1/127)^2 / 12 against 1/3.
    // The types with a fifth bit use all that those without one do.
    for ty in [Type::Q5_0, Type::Q5_1, Type::Q8_0] {
        let e = error(&mut room, ty, [96, 37, 1, 1], [96, 35, 1, 1]);
        assert!(e < 3e-5, "{}: {e}", ty.name());
    }
    for ty in [Type::Q5_K, Type::Q6_K] {
        let e = error(&mut room, ty, [512, 37, 1, 1], [512, 35, 1, 1]);
        assert!(e < 3e-5, "{}: {e}", ty.name());
    }
}

#[test]
fn products_of_other_types_are_right() {
    let Some(mut room) = Room::new() else { return };
    // On a device with matrices both factors are rounded to 11 bits, else nothing is rounded but the f32 sums.
    let e = error(&mut room, Type::Q3_K, [256, 37, 1, 1], [256, 35, 1, 1]);
    assert!(e < 1e-6, "q3_K: {e}");
    // A row of f16 needs no whole blocks.
    let e = error(&mut room, Type::F16, [67, 37, 1, 1], [67, 35, 1, 1]);
    assert!(e < 1e-6, "f16: {e}");
}

#[test]
fn matrices_of_weights_are_shared_by_batches() {
    let Some(mut room) = Room::new() else { return };
    let e = error(&mut room, Type::Q8_0, [64, 19, 2, 3], [64, 17, 4, 3]);
    assert!(e < 3e-5, "{e}");
    let e = error(&mut room, Type::F16, [64, 19, 2, 1], [64, 17, 6, 2]);
    assert!(e < 1e-6, "{e}");
}

#[test]
fn strided_weights_and_activations_are_read_where_they_lie() {
    let Some(mut room) = Room::new() else { return };
    // A view of a cache: rows of 40 f16 of 64, 3 heads, in rows of 3 heads; activations with the same permutation.
    let (k, m, n, heads) = (40, 21, 18, 3);
    let halves: Vec<u8> = weights(Type::F16, (m * heads) as u64, 64, 5);
    let inputs = noise(6, (k * n * heads) as usize);
    let mut a = room.place(Tensor::new(Type::F16, [64, heads, m, 1]), &halves);
    (a.ne, a.nb) = ([k, m, heads, 1], [2, 128 * heads as u64, 128, 128 * (heads * m) as u64]);
    let mut b = room.f32([k, heads, n, 1], &inputs);
    (b.ne, b.nb) = ([k, n, heads, 1], [4, 4 * (k * heads) as u64, 4 * k as u64, 4 * (k * heads * n) as u64]);
    let dst = room.empty(Type::F32, [m, n, heads, 1]);
    let node = Node::new("MUL_MAT", dst, &[a, b]);
    super::lower(&node, &mut super::Lowering::question(room.caps())).unwrap();
    room.run(&[node]);
    let mut want = Vec::new();
    for h in 0..heads {
        for j in 0..n {
            for i in 0..m {
                let row = &halves[((i * heads + h) * 128) as usize..];
                let x = &inputs[((j * heads + h) * k) as usize..];
                want.push((0..k as usize).map(|c| value(Type::F16, row, c) * x[c]).sum::<f32>());
            }
        }
    }
    let e = nmse(&want, &room.values(&dst));
    assert!(e < 1e-6, "{e}");
}

#[test]
fn what_is_not_taken_is_refused() {
    let caps = crate::engine::vulkan::caps::Caps::for_tests();
    let ask = |node: &Node| super::lower(node, &mut super::Lowering::question(&caps)).map_err(|e| e.to_string());
    let t = |ty, ne| Tensor::new(ty, ne);
    let node = |a: Tensor, n: i64| {
        let b = t(Type::F32, [a.ne[0], n, 1, 1]);
        Node::new("MUL_MAT", t(Type::F32, [a.ne[1], n, 1, 1]), &[a, b])
    };
    let q4 = t(Type::Q4_K, [256, 8, 1, 1]);
    assert_eq!(ask(&node(q4, 17)), Ok(()));
    assert!(ask(&node(q4, 16)).unwrap_err().contains("few columns"));
    assert!(ask(&node(t(Type::F32, [256, 8, 1, 1]), 17)).unwrap_err().contains("f32 x f32"));
    assert!(ask(&node(t(Type::BF16, [256, 8, 1, 1]), 17)).unwrap_err().contains("bf16"));
    let mut precise = node(q4, 17);
    precise.params[0] = super::PRECISE;
    assert!(ask(&precise).unwrap_err().contains("precision"));
    let mut turned = q4;
    turned.nb[0] = 288;
    assert!(ask(&node(turned, 17)).unwrap_err().contains("strides"));
}
