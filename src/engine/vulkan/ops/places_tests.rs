use super::super::super::testing::{Room, noise};
use super::*;
use crate::graph::Type;

/// The four coordinates of each element of a shape, in order.
fn indices(ne: [i64; 4]) -> impl Iterator<Item = [i64; 4]> {
    (0..ne.iter().product())
        .map(move |i| [i % ne[0], i / ne[0] % ne[1], i / (ne[0] * ne[1]) % ne[2], i / (ne[0] * ne[1] * ne[2])])
}

fn at(x: &[f32], ne: [i64; 4], i: [i64; 4]) -> f32 {
    x[(((i[3] * ne[2] + i[2]) * ne[1] + i[1]) * ne[0] + i[0]) as usize]
}

const NE: [i64; 4] = [5, 4, 3, 2];

/// Runs a node over a tensor of shape [`NE`] and compares with `want`, asked for each place of the result.
fn check(op: &'static str, params: &[i32], to: [i64; 4], want: impl Fn(&[f32], [i64; 4]) -> f32) {
    let Some(mut room) = Room::new() else { return };
    let x = noise(1, 120);
    let a = room.f32(NE, &x);
    let mut node = Node::new(op, room.empty(Type::F32, to), &[a]);
    node.params[..params.len()].copy_from_slice(params);
    room.run(&[node]);
    let want: Vec<f32> = indices(to).map(|i| want(&x, i)).collect();
    assert_eq!(want, room.values(&node.dst), "{op} {params:?}");
}

#[test]
fn repeats() {
    check("REPEAT", &[], [10, 4, 9, 2], |x, i| at(x, NE, std::array::from_fn(|d| i[d] % NE[d])));
}

#[test]
fn pads_and_rolls() {
    let p = [1, 2, 0, 3, 2, 0, 1, 1];
    let to = [8, 7, 5, 4];
    let from = |i: [i64; 4]| std::array::from_fn(|d| i[d] - i64::from(p[2 * d]));
    check("PAD", &p, to, |x, i| {
        let i: [i64; 4] = from(i);
        if (0..4).all(|d| (0..NE[d]).contains(&i[d])) { at(x, NE, i) } else { 0.0 }
    });
    let torus = [&p[..], &[1]].concat();
    check("PAD", &torus, to, |x, i| at(x, NE, std::array::from_fn(|d| from(i)[d].rem_euclid(NE[d]))));
    let s = [3, -2, 1, -1];
    check("ROLL", &s, NE, |x, i| at(x, NE, std::array::from_fn(|d| (i[d] - i64::from(s[d])).rem_euclid(NE[d]))));
}

#[test]
fn numbers_without_a_source() {
    let params = [0.5_f32, 9.0, 0.25].map(|v| v.to_bits() as i32);
    check("FILL", &params[..1], NE, |_, _| 0.5);
    check("ARANGE", &params, [34, 1, 1, 1], |_, i| 0.5 + 0.25 * i[0] as f32);
}

#[test]
fn triangles_and_diagonals() {
    let keep: [fn(i64, i64) -> bool; 4] = [|c, r| c >= r, |c, r| c > r, |c, r| c <= r, |c, r| c < r];
    for (kind, keep) in keep.into_iter().enumerate() {
        check("TRI", &[kind as i32], NE, |x, i| if keep(i[0], i[1]) { at(x, NE, i) } else { 0.0 });
    }
    let Some(mut room) = Room::new() else { return };
    let x = noise(2, 30);
    let a = room.f32([5, 1, 3, 2], &x);
    let node = Node::new("DIAG", room.empty(Type::F32, [5, 5, 3, 2]), &[a]);
    room.run(&[node]);
    let value = |i: [i64; 4]| if i[0] == i[1] { at(&x, a.ne, [i[0], 0, i[2], i[3]]) } else { 0.0 };
    assert_eq!(indices(node.dst.ne).map(value).collect::<Vec<_>>(), room.values(&node.dst));
}

#[test]
fn tensors_are_joined() {
    let Some(mut room) = Room::new() else { return };
    let mut nodes = Vec::new();
    for (ty, dim) in [Type::F32, Type::I8, Type::I64, Type::Q8_0].iter().flat_map(|ty| [0, 1, 2, 3].map(|d| (*ty, d))) {
        let block = ty.block() as i64;
        let ne: [i64; 4] = [3 * block, 2, 3, 2];
        let mut second = ne;
        second[dim] = if dim == 0 { 2 * block } else { 4 };
        let mut to = ne;
        to[dim] += second[dim];
        let sources = [ne, second].map(|ne| {
            let t = Tensor::new(ty, ne);
            let bytes: Vec<u8> = noise(3, t.span() as usize).iter().map(|v| (v * 100.0) as i8 as u8).collect();
            (room.place(t, &bytes), bytes)
        });
        let mut node = Node::new("CONCAT", room.empty(ty, to), &[sources[0].0, sources[1].0]);
        node.params[0] = dim as i32;
        nodes.push((node, dim, sources.map(|s| s.1)));
    }
    room.run(&nodes.iter().map(|n| n.0).collect::<Vec<_>>());
    for (node, dim, bytes) in &nodes {
        let got = room.bytes(&node.dst);
        let (ty, size) = (node.dst.ty, node.dst.ty.bytes() as usize);
        let blocks = |t: &Tensor| [t.ne[0] / ty.block() as i64, t.ne[1], t.ne[2], t.ne[3]];
        let first = blocks(&node.src[0].unwrap());
        for (n, mut i) in indices(blocks(&node.dst)).enumerate() {
            let part = usize::from(i[*dim] >= first[*dim]);
            i[*dim] -= if part == 1 { first[*dim] } else { 0 };
            let src = node.src[part].unwrap();
            let from: usize = (0..4).map(|d| i[d] as usize * src.nb[d] as usize).sum();
            assert_eq!(bytes[part][from..][..size], got[n * size..][..size], "{} {dim} {n}", ty.name());
        }
    }
}

#[test]
fn parts_are_set_and_added_to() {
    let Some(mut room) = Room::new() else { return };
    let (x, y) = (noise(4, 120), noise(5, 3 * 2 * 2));
    let b = room.f32([3, 2, 2, 1], &y);
    let mut nodes = Vec::new();
    for (op, inplace) in [("SET", 0), ("ACC", 0), ("SET", 1), ("ACC", 1)] {
        let a = room.f32(NE, &x);
        let mut node = Node::new(op, if inplace == 1 { a } else { room.empty(Type::F32, NE) }, &[a, b]);
        // Rows 1 and 2, columns 2 to 4, of the planes 3 and 4.
        node.params[..5].copy_from_slice(&[20, 80, 240, 240 + 20 + 8, inplace]);
        nodes.push(node);
    }
    room.run(&nodes);
    for node in &nodes {
        let mut want = x.clone();
        for (i, y) in indices(b.ne).zip(&y) {
            let v = &mut want[(67 + i[2] * 20 + i[1] * 5 + i[0]) as usize];
            *v = if node.op == "SET" { *y } else { *v + y };
        }
        assert_eq!(want, room.values(&node.dst), "{}", node.op);
    }
}

#[test]
fn what_is_not_done_is_refused() {
    let caps = crate::engine::vulkan::caps::Caps::for_tests();
    let lower = |node: &Node| super::super::supports(node, &caps).unwrap_err().to_string();
    let f = Tensor::new(Type::F32, [4, 2, 1, 1]);
    assert_eq!(
        lower(&Node::new("PAD", Tensor::new(Type::F32, [5, 2, 1, 1]), &[f])),
        "PAD: [[4, 2, 1, 1]] into [5, 2, 1, 1]"
    );
    let q = Tensor::new(Type::Q8_0, [32, 2, 1, 1]);
    assert_eq!(lower(&Node::new("REPEAT", q, &[q])), "REPEAT: no shader for the types q8_0 -> q8_0");
    let mut node = Node::new("UPSCALE", f, &[f]);
    node.params[0] = 1 << 10;
    assert_eq!(lower(&node), "UPSCALE: mode 0x400 of [4, 2, 1, 1]");
    let mut node = Node::new("ACC", f, &[f, f]);
    for (stride, offset) in [(16, 4), (4, 0)] {
        (node.params[0], node.params[3]) = (stride, offset);
        assert_eq!(lower(&node), "ACC: [[4, 2, 1, 1], [4, 2, 1, 1]] into [4, 2, 1, 1]");
    }
}
