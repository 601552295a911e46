use super::super::super::testing::{Room, nmse, noise};
use super::*;
use crate::graph::reference::elementwise as reference;

/// What a node computed, and what it should have: relative to the larger of 1 and the value, each may differ by `tolerance`.
fn close(what: &str, want: &[f64], got: &[f32], tolerance: f64) {
    assert_eq!(want.len(), got.len());
    for (i, (w, g)) in want.iter().zip(got).enumerate() {
        let error = (w - f64::from(*g)).abs();
        assert!(error <= tolerance * w.abs().max(1.0), "{what} [{i}]: {g}, not {w}");
    }
}

fn params(values: &[f32], first: usize) -> [i32; 16] {
    let mut params = [0; 16];
    for (i, v) in values.iter().enumerate() {
        params[first + i] = v.to_bits() as i32;
    }
    params
}

#[test]
fn every_function_of_one_number() {
    let Some(mut room) = Room::new() else { return };
    // Small and large numbers, halves, and both zeros.
    let mut x: Vec<f32> = noise(1, 120).iter().enumerate().map(|(i, v)| v * [0.3, 4.0, 30.0][i % 3]).collect();
    x.extend([0.0, -0.0, 0.5, -0.5, 1.5, -2.5, 0.499_999_97, 100.0, -100.0, 20.5, 1e-6, -1e-6]);
    let p = [0.7, 1.3, 0.25, -1e-6];
    let mut nodes = Vec::new();
    for name in FUNCTIONS {
        let positive = matches!(*name, "LOG" | "SQRT");
        let x: Vec<f32> = x.iter().map(|v| if positive { v.abs() + 1e-3 } else { *v }).collect();
        let x: Vec<f32> = x.into_iter().filter(|v| !name.starts_with("EXP") || *v < 40.0).collect();
        let ne = [x.len() as i64, 1, 1, 1];
        let (a, dst) = (room.f32(ne, &x), room.empty(Type::F32, ne));
        let operation = FUNCTIONS[FIRST_OPERATION..].contains(name);
        let mut node = Node::new(if operation { name } else { "UNARY" }, dst, &[a]);
        node.sub = if operation { "" } else { name };
        node.params = params(&p, usize::from(!operation));
        nodes.push((node, name, x));
    }
    room.run(&nodes.iter().map(|n| n.0).collect::<Vec<_>>());
    for (node, name, x) in &nodes {
        let want: Vec<f64> =
            x.iter().map(|v| reference::unary(name, f64::from(*v), p.map(f64::from)).unwrap()).collect();
        // Vulkan allows exp (3 + 2 |x|) units in the last place, so 5e-6 for x = 40; the rest is within a few of 6e-8.
        close(name, &want, &room.values(&node.dst), 5e-6);
    }
}

#[test]
fn every_gated_function_in_both_forms() {
    let Some(mut room) = Room::new() else { return };
    let (n, rows) = (37, 3);
    let whole: Vec<f32> = noise(2, 2 * n * rows).iter().map(|v| v * 9.0).collect();
    let row = |i: usize, half: usize| &whole[2 * n * i + half * n..][..n];
    let halves = [0, 1].map(|half| (0..rows).flat_map(|i| row(i, half).to_vec()).collect::<Vec<f32>>());
    let split = [n as i64, rows as i64, 1, 1];
    let sources = [room.f32(split, &halves[0]), room.f32(split, &halves[1])];
    let both = room.f32([2 * n as i64, rows as i64, 1, 1], &whole);
    let mut nodes = Vec::new();
    for name in &PAIRS[FIRST_GLU..] {
        for form in ["split", "single", "swapped"] {
            let dst = room.empty(Type::F32, split);
            let mut node = Node::new("GLU", dst, if form == "split" { &sources } else { std::slice::from_ref(&both) });
            node.sub = name;
            node.params = params(&[1.702, 7.0], 2);
            node.params[1] = i32::from(form == "swapped");
            nodes.push((node, form));
        }
    }
    room.run(&nodes.iter().map(|n| n.0).collect::<Vec<_>>());
    for (node, form) in &nodes {
        let (x, g) = if *form == "swapped" { (&halves[1], &halves[0]) } else { (&halves[0], &halves[1]) };
        let pairs = x.iter().zip(g).map(|(x, g)| (f64::from(*x), f64::from(*g)));
        let want: Vec<f64> =
            pairs.map(|(x, g)| reference::pair(node.sub, x, g, f64::from(1.702_f32), 7.0).unwrap()).collect();
        // As above, with exp(16) at most, and a factor of 9.
        close(node.sub, &want, &room.values(&node.dst), 2e-5);
    }
}

#[test]
fn pairs_with_repeated_and_permuted_sources() {
    let Some(mut room) = Room::new() else { return };
    let ne = [6, 4, 3, 2];
    let shapes = [ne, [6, 1, 1, 1], [1, 4, 1, 2], [1; 4], [3, 2, 3, 1]];
    let x: Vec<f32> = noise(3, 144).iter().map(|v| v + 2.0).collect();
    let a = room.f32(ne, &x);
    let mut nodes = Vec::new();
    for (op, shape) in ["ADD", "SUB", "MUL", "DIV", "ADD"].iter().flat_map(|op| shapes.map(|s| (*op, s))) {
        let y: Vec<f32> = noise(4, shape.iter().product::<i64>() as usize).iter().map(|v| v + 2.0).collect();
        // Stored with its first two dimensions exchanged, so that the strides are not those of a plain tensor.
        let mut b = room.f32([shape[1], shape[0], shape[2], shape[3]], &y);
        (b.ne, b.nb) = (shape, [b.nb[1], b.nb[0], b.nb[2], b.nb[3]]);
        nodes.push((Node::new(op, room.empty(Type::F32, ne), &[a, b]), y));
    }
    room.run(&nodes.iter().map(|n| n.0).collect::<Vec<_>>());
    for (node, y) in &nodes {
        let b = node.src[1].unwrap();
        let mut want = Vec::new();
        for (i, x) in x.iter().enumerate() {
            let mut at = 0;
            let mut rest = i as i64;
            for (d, n) in ne.iter().enumerate() {
                at += (rest % n % b.ne[d]) as usize * b.nb[d] as usize / 4;
                rest /= n;
            }
            want.push(reference::pair(node.op, f64::from(*x), f64::from(y[at]), 0.0, 0.0).unwrap());
        }
        // A division may be off by 2.5 units in the last place.
        close(node.op, &want, &room.values(&node.dst), 3e-7);
    }
}

#[test]
fn half_numbers_are_rounded_to_nearest_even() {
    let Some(mut room) = Room::new() else { return };
    // 1 + 2^-11 and 1 + 3 * 2^-11 lie half way in f16, 1 + 2^-8 and 1 + 3 * 2^-8 in bf16; the last is a subnormal f16.
    let x = [
        1.0 + 2f32.powi(-11),
        1.0 + 3.0 * 2f32.powi(-11),
        1.0 + 2f32.powi(-8),
        1.0 + 3.0 * 2f32.powi(-8),
        2f32.powi(-24),
    ];
    let a = room.f32([5, 1, 1, 1], &x);
    let dst = [room.empty(Type::F16, [5, 1, 1, 1]), room.empty(Type::BF16, [5, 1, 1, 1])];
    let back = [room.empty(Type::F32, [5, 1, 1, 1]), room.empty(Type::F32, [5, 1, 1, 1])];
    let mut nodes = Vec::new();
    for (from, to) in [(a, dst[0]), (a, dst[1]), (dst[0], back[0]), (dst[1], back[1])] {
        let mut node = Node::new("SCALE", to, &[from]);
        node.params = params(&[1.0, 0.0], 0);
        nodes.push(node);
    }
    room.run(&nodes);
    let p = |n: i32| 1.0 + 2f32.powi(n);
    assert_eq!(room.values(&back[0]), [1.0, p(-9), p(-8), p(-7) + 2f32.powi(-8), 2f32.powi(-24)]);
    assert_eq!(room.values(&back[1]), [1.0, 1.0, 1.0, p(-6), 2f32.powi(-24)]);
}

#[test]
fn rows_named_by_ids_are_added() {
    let Some(mut room) = Room::new() else { return };
    let (x, y) = (noise(5, 5 * 3 * 2), noise(6, 5 * 4));
    let ids = [3, 0, 2, 9, 1, 1, 0, 9];
    let mut view = room.i32([4, 2, 1, 1], &ids);
    view.ne[0] = 3;
    let (a, b) = (room.f32([5, 3, 2, 1], &x), room.f32([5, 4, 1, 1], &y));
    let dst = room.empty(Type::F32, [5, 3, 2, 1]);
    room.run(&[Node::new("ADD_ID", dst, &[a, b, view])]);
    let want: Vec<f32> = (0..30).map(|i| x[i] + y[ids[i / 15 * 4 + i / 5 % 3] as usize * 5 + i % 5]).collect();
    assert_eq!(nmse(&want, &room.values(&dst)), 0.0);
}

#[test]
fn what_is_not_done_is_refused() {
    let caps = crate::engine::vulkan::caps::Caps::for_tests();
    let lower = |node: &Node| super::super::supports(node, &caps).unwrap_err().to_string();
    let f = Tensor::new(Type::F32, [4, 2, 1, 1]);
    let q = Tensor::new(Type::Q8_0, [32, 2, 1, 1]);
    assert_eq!(lower(&Node::new("SSM_SCAN", f, &[f])), "no shader for SSM_SCAN");
    assert_eq!(lower(&Node { sub: "NEW", ..Node::new("UNARY", f, &[f]) }), "no shader for UNARY NEW");
    assert_eq!(lower(&Node::new("ADD", q, &[q, q])), "ADD: no shader for the types q8_0 q8_0 -> q8_0");
    let three = Tensor::new(Type::F32, [3, 1, 1, 1]);
    assert_eq!(lower(&Node::new("MUL", f, &[f, three])), "MUL: [3, 1, 1, 1] cannot be repeated to [4, 2, 1, 1]");
    assert_eq!(lower(&Node::new("ADD1", f, &[f, three])), "ADD1: the second source has 3 elements, not 1");
    let odd = Node { sub: "SWIGLU", ..Node::new("GLU", f, &[f]) };
    assert_eq!(lower(&odd), "GLU: rows of 4 in steps of 4 bytes for 4");
}
