use super::super::super::testing::{Room, noise};
use super::*;
use crate::graph::reference::copies::{bf16_bits, golden, half_bits, quantize};
use crate::graph::reference::quant;

const WEIGHTS: &[Type] = &[
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
    Type::IQ1_S,
    Type::IQ1_M,
    Type::IQ2_XXS,
    Type::IQ2_XS,
    Type::IQ2_S,
    Type::IQ3_XXS,
    Type::IQ3_S,
    Type::TQ1_0,
    Type::TQ2_0,
    Type::Q1_0,
    Type::Q2_0,
    Type::NVFP4,
];
const STORED: &[Type] =
    &[Type::F32, Type::F16, Type::BF16, Type::Q4_0, Type::Q4_1, Type::Q5_0, Type::Q5_1, Type::Q8_0, Type::IQ4_NL];

/// The bytes of a row of numbers stored as a type.
fn stored(ty: Type, x: &[f32]) -> Vec<u8> {
    match ty {
        Type::F32 => x.iter().flat_map(|v| v.to_le_bytes()).collect(),
        Type::F16 => x.iter().flat_map(|v| half_bits(*v).to_le_bytes()).collect(),
        Type::BF16 => x.iter().flat_map(|v| bf16_bits(*v).to_le_bytes()).collect(),
        _ => x.chunks_exact(32).flat_map(|x| quantize(ty, x).unwrap()).collect(),
    }
}

/// Bytes that are ordinary numbers in every type: no 16 bits of them are an infinite half.
fn bytes(seed: u64, n: usize) -> Vec<u8> {
    noise(seed, n).iter().map(|v| (v * 128.0) as i8 as u8 & 0xbb).collect()
}

fn permuted(t: Tensor, axes: [usize; 4]) -> Tensor {
    Tensor { ne: axes.map(|i| t.ne[i]), nb: axes.map(|i| t.nb[i]), ..t }
}

/// The bytes of element `i`, in the order of the dimensions, of a tensor whose memory holds `bytes`.
fn element<'a>(t: &Tensor, bytes: &'a [u8], mut i: u64) -> &'a [u8] {
    let mut at = 0;
    for d in 0..4 {
        let n = if d == 0 { t.ne[0] as u64 / t.ty.block() } else { t.ne[d] as u64 };
        at += i % n * t.nb[d];
        i /= n;
    }
    &bytes[at as usize..][..t.ty.bytes() as usize]
}

#[test]
fn rows_of_every_weight_type_by_number() {
    let Some(mut room) = Room::new() else { return };
    let ids = [4, 0, 2, 1, 3, 3, 0, 0, 1, 4, 2, 1];
    let mut nodes = Vec::new();
    for (seed, ty) in WEIGHTS.iter().enumerate() {
        let n = if ty.quantized() { 256 } else { 7 };
        // Matrices 2 x 1, three rows each; the ids are a view with a stride, the source too.
        let data = bytes(seed as u64, Tensor::new(*ty, [n, 6, 2, 1]).span() as usize);
        let mut src = room.place(Tensor::new(*ty, [n, 6, 2, 1]), &data);
        src.ne[1] = 5;
        let mut by = room.i32([6, 2, 1, 1], &ids);
        by.ne[0] = 3;
        nodes.push((Node::new("GET_ROWS", room.empty(Type::F32, [n, 3, 2, 1]), &[src, by]), data));
    }
    room.run(&nodes.iter().map(|n| n.0).collect::<Vec<_>>());
    for (node, data) in &nodes {
        let (src, got) = (node.src[0].unwrap(), room.values(&node.dst));
        for (i, got) in got.iter().enumerate() {
            let n = src.ne[0] as usize;
            let (k, j, batch) = (i % n, i / n % 3, i / n / 3);
            let row = ids[batch * 6 + j] as usize * src.nb[1] as usize + batch * src.nb[2] as usize;
            // Every value is an exact product, or one rounded once.
            assert_eq!(quant::value(src.ty, &data[row..], k), *got, "{} [{i}]", src.ty.name());
        }
    }
}

#[test]
fn stored_blocks_are_those_of_ggml() {
    let Some(mut room) = Room::new() else { return };
    let (numbers, types) = golden().unwrap();
    let ne = [32, numbers.len() as i64 / 32, 1, 1];
    let src = room.f32(ne, &numbers);
    let nodes: Vec<_> = types.iter().map(|(ty, _)| Node::new("CPY", room.empty(*ty, ne), &[src])).collect();
    room.run(&nodes);
    for (node, (ty, want)) in nodes.iter().zip(&types) {
        let got = room.bytes(&node.dst);
        let size = ty.bytes() as usize;
        for (i, (want, got)) in want.chunks_exact(size).zip(got.chunks_exact(size)).enumerate() {
            let zeros = *ty == Type::IQ4_NL && numbers[32 * i..][..32].iter().all(|v| *v == 0.0);
            assert_eq!(want[..if zeros { 2 } else { size }], got[..if zeros { 2 } else { size }], "{} {i}", ty.name());
        }
    }
}

#[test]
fn rows_are_stored_by_number() {
    let Some(mut room) = Room::new() else { return };
    let ids: [i64; 8] = [3, 0, 4, 9, 1, 2, 0, 9];
    let words: Vec<u8> = ids.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut wide = room.place(Tensor::new(Type::I64, [4, 2, 1, 1]), &words);
    let mut narrow = room.i32([4, 2, 1, 1], &ids.map(|v| v as i32));
    (wide.ne[0], narrow.ne[0]) = (3, 3);
    let x = noise(7, 64 * 3 * 4);
    let src = room.f32([64, 3, 4, 1], &x);
    let mut nodes = Vec::new();
    for (ty, by) in STORED.iter().flat_map(|ty| [(*ty, wide), (*ty, narrow)]) {
        // Rows not named keep the 0xff that the memory has.
        nodes.push(Node::new("SET_ROWS", room.empty(ty, [64, 5, 4, 1]), &[src, by]));
    }
    room.run(&nodes);
    for node in &nodes {
        let (got, t) = (room.bytes(&node.dst), node.dst);
        let mut want = vec![0xff; got.len()];
        for (i, x) in x.chunks_exact(64).enumerate() {
            let row = ids[i / 3 % 2 * 4 + i % 3] as usize * t.nb[1] as usize + i / 3 * t.nb[2] as usize;
            want[row..][..t.nb[1] as usize].copy_from_slice(&stored(t.ty, x));
        }
        assert_eq!(want, got, "{}", t.ty.name());
    }
}

#[test]
fn copies_of_one_type_keep_every_bit() {
    let Some(mut room) = Room::new() else { return };
    let mut nodes = Vec::new();
    for (seed, ty) in Type::all().enumerate() {
        let n = 2 * ty.block() as i64;
        let data = bytes(seed as u64, Tensor::new(ty, [n, 2, 3, 4]).span() as usize);
        let src = room.place(Tensor::new(ty, [n, 2, 3, 4]), &data);
        let swapped = permuted(src, [0, 2, 1, 3]);
        nodes.push((Node::new("CPY", room.empty(ty, src.ne), &[src]), data.clone()));
        nodes.push((Node::new("CONT", room.empty(ty, swapped.ne), &[swapped]), data.clone()));
        nodes.push((Node::new("CPY", room.empty(ty, [n, 6, 1, 4]), &[swapped]), data.clone()));
        if matches!(ty.bytes(), 1 | 2 | 4) {
            let turned = permuted(src, [1, 0, 2, 3]);
            nodes.push((Node::new("DUP", room.empty(ty, turned.ne), &[turned]), data.clone()));
            nodes.push((Node::new("CPY", permuted(room.empty(ty, turned.ne), [3, 1, 0, 2]), &[turned]), data));
        }
    }
    room.run(&nodes.iter().map(|n| n.0).collect::<Vec<_>>());
    for (node, data) in &nodes {
        let (src, got) = (node.src[0].unwrap(), room.bytes(&node.dst));
        for i in 0..src.elements() as u64 / src.ty.block() {
            assert_eq!(element(&src, data, i), element(&node.dst, &got, i), "{} {} {i}", node.op, src.ty.name());
        }
    }
}

#[test]
fn copies_change_types() {
    let Some(mut room) = Room::new() else { return };
    let x: Vec<f32> = noise(9, 64 * 6).iter().map(|v| v * 150.0).collect();
    let src = room.f32([64, 2, 3, 1], &x);
    let swapped = permuted(src, [0, 2, 1, 3]);
    let rows: Vec<f32> = (0..6).flat_map(|i| x[64 * (i / 3 + i % 3 * 2)..][..64].to_vec()).collect();
    let mut there = Vec::new();
    for ty in &STORED[1..] {
        there.push(Node::new("CPY", room.empty(*ty, [64, 3, 2, 1]), &[swapped]));
    }
    let back: Vec<_> = there.iter().map(|n| Node::new("CPY", room.empty(Type::F32, [64, 6, 1, 1]), &[n.dst])).collect();
    let turned = permuted(src, [1, 0, 2, 3]);
    let whole = Node::new("CPY", room.empty(Type::I32, turned.ne), &[turned]);
    let float = Node::new("CPY", room.empty(Type::F32, turned.ne), &[whole.dst]);
    room.run(&[there.clone(), back.clone(), vec![whole, float]].concat());
    for (there, back) in there.iter().zip(&back) {
        let want = stored(there.dst.ty, &rows);
        assert_eq!(want, room.bytes(&there.dst), "{}", there.dst.ty.name());
        let values: Vec<f32> = (0..6)
            .flat_map(|i| (0..64).map(move |k| (i, k)))
            .map(|(i, k)| quant::value(there.dst.ty, &want[i * there.dst.nb[1] as usize..], k))
            .collect();
        assert_eq!(values, room.values(&back.dst), "{}", there.dst.ty.name());
    }
    let want: Vec<f32> = (0..384).map(|i| x[i / 128 * 128 + i / 2 % 64 + i % 2 * 64].trunc()).collect();
    assert_eq!(want, room.values(&float.dst));
}

#[test]
fn what_is_not_done_is_refused() {
    let caps = crate::engine::vulkan::caps::Caps::for_tests();
    let lower = |node: &Node| super::super::supports(node, &caps).unwrap_err().to_string();
    let f = Tensor::new(Type::F32, [64, 2, 1, 1]);
    let q = Tensor::new(Type::Q4_0, [64, 2, 1, 1]);
    let ids = Tensor::new(Type::I32, [2, 1, 1, 1]);
    let cpy = |dst: Tensor, src: Tensor| lower(&Node::new("CPY", dst, &[src]));
    assert_eq!(
        cpy(Tensor::new(Type::Q4_K, [256, 1, 1, 1]), Tensor::new(Type::F32, [256, 1, 1, 1])),
        "CPY: no shader for the types f32 -> q4_K"
    );
    assert_eq!(cpy(Tensor::new(Type::Q8_0, f.ne), q), "CPY: no shader for the types q4_0 -> q8_0");
    assert_eq!(cpy(q, permuted(f, [1, 0, 2, 3])), "CPY: rows of 2 into rows of 64 in q4_0, step 18");
    assert_eq!(cpy(f, ids), "CPY: 2 elements into 128");
    assert_eq!(cpy(permuted(q, [1, 0, 2, 3]), q), "CPY: q4_0 elements with strides of 18 and 36 bytes");
    let rows = Node::new("GET_ROWS", Tensor::new(Type::F32, [64, 3, 1, 1]), &[f, ids]);
    assert_eq!(lower(&rows), "GET_ROWS: rows [2, 1, 1, 1] of [64, 2, 1, 1] into [64, 3, 1, 1]");
    assert_eq!(
        lower(&Node::new("SET_ROWS", q, &[f, f])),
        "SET_ROWS: [64, 2, 1, 1] as rows [64, 2, 1, 1] of [64, 2, 1, 1]"
    );
}
