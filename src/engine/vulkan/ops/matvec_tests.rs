use super::super::super::testing::{Room, noise};
use super::*;
use crate::graph::reference::{q8, quant};

const TYPES: [Type; 13] = [
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

/// Blocks of arbitrary bits whose scales are ordinary numbers.
pub(in super::super) fn weights(ty: Type, elements: usize, seed: u64) -> Vec<u8> {
    let (block, scales): (usize, &[usize]) = match ty {
        Type::Q4_1 | Type::Q5_1 | Type::Q4_K | Type::Q5_K => (ty.bytes() as usize, &[0, 2]),
        Type::Q2_K => (84, &[80, 82]),
        Type::Q3_K => (110, &[108]),
        Type::Q6_K => (210, &[208]),
        _ => (ty.bytes() as usize, &[0]),
    };
    let n = elements / ty.block() as usize * block;
    let mut bytes: Vec<u8> = noise(seed, n).iter().map(|x| (x.to_bits() >> 3) as u8).collect();
    for one in bytes.chunks_exact_mut(block) {
        for at in scales {
            if ty == Type::MXFP4 {
                one[0] = 120 + one[0] % 8;
            } else {
                // Between 2^-7 and 2^-3, either sign.
                one[at + 1] = one[at + 1] & 0x8f | 0x20;
            }
        }
    }
    bytes
}

/// The product of row `row` of the weights with the int8 form of `x`, and the sum of the terms' sizes.
fn product(ty: Type, row: &[u8], x: &[f32]) -> (f64, f64) {
    let activations = q8::dequantize(&q8::quantize(x));
    let terms = activations.iter().enumerate().map(|(k, a)| f64::from(quant::value(ty, row, k)) * a);
    terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()))
}

/// Checks one result; the terms are exact but for a few roundings each, and so is their sum.
fn check(what: &str, got: f32, (want, size): (f64, f64)) {
    assert!((f64::from(got) - want).abs() <= size * 1e-6, "{what}: {got} instead of {want}, terms {size}");
}

/// Runs products of these parts.
fn run(room: &Room, parts: &[MatvecParts]) {
    let recording = room.gpu().record_with(None, |cx| parts.iter().try_for_each(|p| lower_parts(p, cx))).unwrap();
    room.gpu().run(&recording).unwrap();
}

/// A length of rows that is no multiple of anything more than it must be.
fn length(ty: Type) -> usize {
    if ty.block() == 256 { 768 } else { 608 }
}

#[test]
fn every_type_is_near_the_product_in_double_precision() {
    for mut room in Room::both() {
        for ty in TYPES {
            near(&mut room, ty);
        }
    }
}

fn near(room: &mut Room, ty: Type) {
    let (m, n) = (5, 3);
    let k = length(ty);
    let bytes = weights(ty, k * m, 1);
    let w = room.place(Tensor::new(ty, [k as i64, m as i64, 1, 1]), &bytes);
    let values = noise(2, k * n);
    let x = room.f32([k as i64, n as i64, 1, 1], &values);
    let dst = room.empty(Type::F32, [m as i64, n as i64, 1, 1]);
    room.run(&[Node::new("MUL_MAT", dst, &[w, x])]);
    let row = bytes.len() / m;
    for (i, got) in room.values(&dst).into_iter().enumerate() {
        let (r, j) = (i % m, i / m);
        let want = product(ty, &bytes[r * row..][..row], &values[j * k..][..k]);
        check(&format!("{} row {r} column {j}", ty.name()), got, want);
    }
}

/// The bits of the first `n` of 16 columns, computed together.
fn bits(room: &mut Room, w: Tensor, values: &[f32], n: usize, geometry: Option<Geometry>) -> Vec<u32> {
    let (k, m) = (w.ne[0], w.ne[1]);
    let x = room.f32([k, n as i64, 1, 1], &values[..k as usize * n]);
    let dst = room.empty(Type::F32, [m, n as i64, 1, 1]);
    run(room, &[MatvecParts { geometry, ..MatvecParts::new(w, x, dst) }]);
    room.values(&dst).into_iter().map(f32::to_bits).collect()
}

fn same_bits(types: &[Type], cases: &[(usize, Option<Geometry>)]) {
    for mut room in Room::both() {
        types.iter().for_each(|ty| same_bits_of(&mut room, ty, cases));
    }
}

fn same_bits_of(room: &mut Room, ty: &Type, cases: &[(usize, Option<Geometry>)]) {
    let m = 5;
    let k = length(*ty);
    let w = room.place(Tensor::new(*ty, [k as i64, m, 1, 1]), &weights(*ty, k * m as usize, 3));
    let values = noise(4, k * 16);
    let all = bits(room, w, &values, 16, Some(Geometry { subgroups: 1, rows: 1, columns: 1, depth: 1 }));
    for (n, geometry) in cases {
        let some = bits(room, w, &values, *n, *geometry);
        assert_eq!(some, all[..some.len()], "{} in {n} columns, {geometry:?}", ty.name());
    }
}

const fn shape(subgroups: u32, rows: u32, columns: u32, depth: u32) -> Option<Geometry> {
    Some(Geometry { subgroups, rows, columns, depth })
}

#[test]
fn a_column_has_the_same_bits_at_every_width() {
    let widths: Vec<_> = (1..=16).map(|n| (n, shape(1, 1, 16, 1))).collect();
    same_bits(&[Type::Q4_K], &widths);
}

#[test]
fn a_column_has_the_same_bits_in_every_type() {
    same_bits(&TYPES, &[(2, shape(1, 2, 2, 1)), (16, None)]);
}

#[test]
fn a_column_has_the_same_bits_in_every_geometry() {
    let cases = [(1, shape(4, 1, 1, 4)), (3, shape(2, 3, 3, 1)), (2, shape(1, 4, 2, 2)), (9, shape(3, 2, 5, 1))];
    same_bits(&[Type::Q4_0, Type::Q6_K], &cases);
}

#[test]
fn more_columns_than_the_widest_are_done_in_pieces() {
    let Some(mut room) = Room::as_hardware() else { return };
    let (k, m, n) = (64, 3, 37);
    let bytes = weights(Type::Q8_0, k * m, 5);
    let w = room.place(Tensor::new(Type::Q8_0, [k as i64, m as i64, 1, 1]), &bytes);
    let values = noise(6, k * n);
    let x = room.f32([k as i64, n as i64, 1, 1], &values);
    let dst = room.empty(Type::F32, [m as i64, n as i64, 1, 1]);
    run(&room, &[MatvecParts::new(w, x, dst)]);
    for (i, got) in room.values(&dst).into_iter().enumerate() {
        let want = product(Type::Q8_0, &bytes[i % m * 68..][..68], &values[i / m * k..][..k]);
        check(&format!("{i}"), got, want);
    }
}

#[test]
fn matrices_are_shared_and_rows_may_lie_apart() {
    let Some(mut room) = Room::as_hardware() else { return };
    let (k, m) = (64, 3);
    // Two matrices of weights for four of activations; rows of both have a gap, and columns alternate with others.
    let mut w = Tensor::new(Type::Q4_0, [k, m, 2, 1]);
    let row = w.nb[1];
    w.nb = [18, row + 18, (row + 18) * 4, (row + 18) * 8];
    let bytes = weights(Type::Q4_0, 64 * 3 / 2 * 8, 7);
    let w = room.place(w, &bytes);
    let mut x = Tensor::new(Type::F32, [k, 2, 4, 1]);
    x.nb = [4, 4 * 260, 4 * 65, 4 * 520];
    let values = noise(8, 520);
    let x = room.place(x, &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>());
    let add_values = noise(9, 3 * 4);
    let add = room.f32([m, 1, 4, 1], &add_values);
    let dst = room.empty(Type::F32, [m, 2, 4, 1]);
    run(&room, &[MatvecParts { add: Some(add), ..MatvecParts::new(w, x, dst) }]);
    for (i, got) in room.values(&dst).into_iter().enumerate() {
        let (r, j, z) = (i % 3, i / 3 % 2, i / 6);
        let at = (z / 2 * 4 + r) * (row as usize + 18);
        let (want, size) = product(Type::Q4_0, &bytes[at..][..row as usize], &values[j * 260 + z * 65..][..64]);
        let more = f64::from(add_values[z * 3 + r]);
        check(&format!("{i}"), got, (want + more, size + more.abs()));
    }
}

#[test]
fn experts_are_chosen_for_each_column() {
    let Some(mut room) = Room::as_hardware() else { return };
    let (k, m, experts, used, tokens) = (256_usize, 6_usize, 4_usize, 2_usize, 3_usize);
    let bytes = weights(Type::Q4_K, k * m * experts, 10);
    let w = room.place(Tensor::new(Type::Q4_K, [k as i64, m as i64, experts as i64, 1]), &bytes);
    // The last expert does not exist.
    let chosen = [3, 0, 1, 1, 2, 9];
    let ids = room.i32([used as i64, tokens as i64, 1, 1], &chosen);
    for columns in [1, used] {
        let values = noise(11, k * columns * tokens);
        let x = room.f32([k as i64, columns as i64, tokens as i64, 1], &values);
        let dst = room.empty(Type::F32, [m as i64, used as i64, tokens as i64, 1]);
        room.run(&[Node::new("MUL_MAT_ID", dst, &[w, x, ids])]);
        for (i, got) in room.values(&dst).into_iter().enumerate() {
            let (r, slot, token) = (i % m, i / m % used, i / m / used);
            if chosen[token * used + slot] as usize >= experts {
                assert!(got.is_nan(), "{got}");
                continue;
            }
            let row = &bytes[(chosen[token * used + slot] as usize * m + r) * 144..][..144];
            let column = token * columns + slot.min(columns - 1);
            check(&format!("{columns} {i}"), got, product(Type::Q4_K, row, &values[column * k..][..k]));
        }
    }
}

#[test]
fn gate_up_and_their_function_in_one_have_the_bits_of_the_chain() {
    Room::both().for_each(gate_up);
}

fn gate_up(mut room: Room) {
    let (k, m) = (256, 64);
    for (ty, glu, sub, n) in [(Type::Q4_K, Glu::Swiglu, "SWIGLU", 1), (Type::Q4_0, Glu::Geglu, "GEGLU", 5)] {
        let mut place = |seed| {
            let shape = Tensor::new(ty, [k, m, 1, 1]);
            room.place(shape, &weights(ty, (k * m) as usize, seed))
        };
        let [gate, up] = [12, 13].map(&mut place);
        let down = room.place(Tensor::new(Type::Q8_0, [m, 3, 1, 1]), &weights(Type::Q8_0, 3 * m as usize, 14));
        let x = room.f32([k, n, 1, 1], &noise(15, (k * n) as usize));
        let [a, b, hidden, fused] = [(); 4].map(|()| room.empty(Type::F32, [m, n, 1, 1]));
        let [want, got] = [(); 2].map(|()| room.empty(Type::F32, [3, n, 1, 1]));
        let function = Node { sub, ..Node::new("GLU", hidden, &[a, b]) };
        let product = |dst, w, x| Node::new("MUL_MAT", dst, &[w, x]);
        room.run(&[product(a, gate, x), product(b, up, x), function, product(want, down, hidden)]);
        let first = MatvecParts {
            pair: Some((up, glu)),
            int8: true,
            geometry: shape(4, 2, 3, 1),
            ..MatvecParts::new(gate, x, fused)
        };
        let recording = room.gpu().record_with(None, |cx| {
            lower_parts(&first, cx)?;
            let before = cx.dispatches.len();
            lower_parts(&MatvecParts::new(down, fused, got), cx)?;
            assert_eq!(cx.dispatches.len(), before + 1, "the int8 form is there already");
            Ok::<_, Reject>(())
        });
        room.gpu().run(&recording.unwrap()).unwrap();
        let bits = |t: &Tensor| room.values(t).into_iter().map(f32::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(&fused), bits(&hidden), "{sub}");
        assert_eq!(bits(&got), bits(&want), "{sub}, the product after it");
    }
}

#[test]
fn what_the_shader_does_not_take_is_refused() {
    let caps = Caps::for_tests();
    let ask =
        |w: Tensor, x: Tensor, dst: Tensor| lower_parts(&MatvecParts::new(w, x, dst), &mut Lowering::question(&caps));
    let (w, x) = (Tensor::new(Type::Q4_0, [64, 5, 1, 1]), Tensor::new(Type::F32, [64, 2, 1, 1]));
    let dst = Tensor::new(Type::F32, [5, 2, 1, 1]);
    assert_eq!(ask(w, x, dst), Ok(()));
    assert!(ask(Tensor::new(Type::F16, [64, 5, 1, 1]), x, dst).is_err(), "float weights");
    assert!(ask(w, Tensor::new(Type::F16, [64, 2, 1, 1]), dst).is_err(), "half activations");
    assert!(ask(w, x, Tensor::new(Type::F32, [2, 5, 1, 1])).is_err(), "another shape");
    let refused = |parts: MatvecParts| lower_parts(&parts, &mut Lowering::question(&caps)).is_err();
    let other = Tensor::new(Type::Q4_1, w.ne);
    assert!(refused(MatvecParts { pair: Some((other, Glu::Swiglu)), ..MatvecParts::new(w, x, dst) }), "two types");
    let mut odd = w;
    odd.nb[1] += 1;
    assert!(ask(odd, x, dst).is_err(), "rows at odd addresses");
    let mut node = Node::new("MUL_MAT", dst, &[w, x]);
    node.params[0] = PRECISE;
    assert!(lower(&node, &mut Lowering::question(&caps)).is_err(), "float activations asked for");
    let without = Caps { dot: false, ..caps.clone() };
    assert!(lower_parts(&MatvecParts::new(w, x, dst), &mut Lowering::question(&without)).is_err(), "no integer dot");
}
