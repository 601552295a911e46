use super::super::super::testing::{Room, nmse, noise};
use super::node::OP;
use super::*;
use crate::engine::vulkan::caps::Caps;
use crate::graph::reference::attention::{Scores, Sizes, attention};
use crate::graph::reference::quant::value;

/// One attention over tensors that lie as in llama.cpp: the heads of a position next to each other, permuted.
#[derive(Clone, Copy)]
struct Case {
    s: Sizes,
    k: Type,
    v: Type,
    /// 0: no mask. Else it hides some positions, and all behind a query's own.
    mask_rows: usize,
    sinks: bool,
    max_bias: f32,
    softcap: f32,
}

const PLAIN: Case = Case {
    s: Sizes { dk: 64, dv: 64, heads: 4, kv_heads: 2, n: 3, n_kv: 150, batch: 1 },
    k: Type::F16,
    v: Type::F16,
    mask_rows: 3,
    sinks: false,
    max_bias: 0.0,
    softcap: 0.0,
};

/// Memory of `[ne0, heads, positions, batch]`, seen as `[ne0, positions, heads, batch]`.
fn permuted(ty: Type, ne0: usize, positions: usize, heads: usize, batch: usize) -> Tensor {
    let mut t = Tensor::new(ty, [ne0 as i64, heads as i64, positions as i64, batch as i64]);
    t.ne.swap(1, 2);
    t.nb.swap(1, 2);
    t
}

/// Bytes of a type whose values are about -1 .. 1: random, but for the scales.
fn bytes_of(ty: Type, elements: usize, seed: u64) -> Vec<u8> {
    let values = noise(seed, elements);
    match ty {
        Type::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Type::BF16 => values.iter().flat_map(|x| ((x.to_bits() >> 16) as u16).to_le_bytes()).collect(),
        // Halves 1/32 .. 2, of either sign.
        Type::F16 => values
            .iter()
            .flat_map(|x| {
                let bits = (x.abs() * 6144.0) as u16 + 0x2800;
                (bits | if *x < 0.0 { 0x8000 } else { 0 }).to_le_bytes()
            })
            .collect(),
        _ => {
            let mut bytes: Vec<u8> =
                noise(seed, elements / 32 * ty.bytes() as usize).iter().map(|x| (x * 128.0) as i32 as u8).collect();
            // 2^-8 for bytes, 2^-4 for nibbles, and as much for the minimum.
            let scale: u16 = if matches!(ty, Type::Q8_0 | Type::IQ4_NL) { 0x1c00 } else { 0x2c00 };
            for block in bytes.chunks_exact_mut(ty.bytes() as usize) {
                block[..2].copy_from_slice(&scale.to_le_bytes());
                if matches!(ty, Type::Q4_1 | Type::Q5_1) {
                    block[2..4].copy_from_slice(&(scale | 0x8000).to_le_bytes());
                }
            }
            bytes
        }
    }
}

/// The values of a permuted tensor in the order of its dimensions.
fn logical(t: &Tensor, bytes: &[u8]) -> Vec<f32> {
    let mut out = Vec::new();
    for i3 in 0..t.ne[3] as u64 {
        for i2 in 0..t.ne[2] as u64 {
            for i1 in 0..t.ne[1] as u64 {
                let row = &bytes[(i1 * t.nb[1] + i2 * t.nb[2] + i3 * t.nb[3]) as usize..];
                out.extend((0..t.ne[0] as usize).map(|i| value(t.ty, row, i)));
            }
        }
    }
    out
}

fn mask_value(i: usize, j: usize, n: usize, n_kv: usize) -> u16 {
    // -inf, 0, or -1, -2, .. -4 as halves.
    let hidden = j > n_kv - n + i || (j * 7 + i * 3).is_multiple_of(11);
    if hidden { 0xfc00 } else { [0, 0, 0xbc00, 0xc000, 0xc200, 0xc400][(i + j) % 6] }
}

/// Computes a case for its first `n` queries; returns what the device and the reference say.
fn compute(room: &mut Room, case: &Case, n: usize) -> (Vec<f32>, Vec<f32>) {
    let s = Sizes { n, ..case.s };
    let all = case.s.n;
    let (qt, kt, vt) = (
        permuted(Type::F32, s.dk, all, s.heads, s.batch),
        permuted(case.k, s.dk, s.n_kv, s.kv_heads, s.batch),
        permuted(case.v, s.dv, s.n_kv, s.kv_heads, s.batch),
    );
    let bytes = [(qt, 1), (kt, 2), (vt, 3)].map(|(t, seed)| bytes_of(t.ty, t.elements() as usize, seed));
    let mut q = room.place(qt, &bytes[0]);
    q.ne[1] = n as i64;
    let (k, v) = (room.place(kt, &bytes[1]), room.place(vt, &bytes[2]));
    let mut node = Node::new(
        "FLASH_ATTN_EXT",
        room.empty(Type::F32, [s.dv as i64, s.heads as i64, n as i64, s.batch as i64]),
        &[q, k, v],
    );
    let mut mask = None;
    if case.mask_rows > 0 {
        let cell = |i: usize, j: usize| mask_value(i, j, all, s.n_kv);
        let rows: Vec<u16> = (0..case.mask_rows).flat_map(|i| (0..s.n_kv).map(move |j| cell(i, j))).collect();
        let bytes: Vec<u8> = rows.iter().flat_map(|x| x.to_le_bytes()).collect();
        let t = Tensor::new(Type::F16, [s.n_kv as i64, case.mask_rows as i64, 1, 1]);
        node.src[3] = Some(room.place(t, &bytes));
        let values = logical(&t, &bytes);
        mask = Some((0..s.batch).flat_map(|_| values[..n * s.n_kv].to_vec()).collect::<Vec<f32>>());
    }
    let sinks: Option<Vec<f32>> = case.sinks.then(|| noise(4, s.heads).iter().map(|x| x * 5.0).collect());
    node.src[4] = sinks.as_ref().map(|s| room.f32([s.len() as i64, 1, 1, 1], s));
    let scale = 1.0 / (s.dk as f32).sqrt();
    for (i, x) in [scale, case.max_bias, case.softcap].into_iter().enumerate() {
        node.params[i] = x.to_bits() as i32;
    }
    room.run(&[node]);
    let scores = Scores {
        scale,
        max_bias: case.max_bias,
        softcap: case.softcap,
        mask: mask.as_deref(),
        sinks: sinks.as_deref(),
    };
    let want = attention(&s, &logical(&q, &bytes[0]), &logical(&k, &bytes[1]), &logical(&v, &bytes[2]), &scores);
    (room.values(&node.dst), want)
}

/// f32 sums of at most 600 products and an exp of about 4 ulp: relative errors near 1e-6, squared 1e-12.
const TOLERANCE: f64 = 1e-10;

fn check(cases: &[Case]) {
    check_in(Room::as_hardware(), cases);
}

fn check_in(room: Option<Room>, cases: &[Case]) {
    let Some(mut room) = room else { return };
    for (i, case) in cases.iter().enumerate() {
        let (got, want) = compute(&mut room, case, case.s.n);
        let error = nmse(&want, &got);
        assert!(error <= TOLERANCE, "case {i}: {error:e}: {:?} {:?}", &want[..4], &got[..4]);
    }
}

// A software device compiles each pipeline for half a second or more, the longer the more rows; so the tests are many,
// with few rows where rows do not matter.

#[test]
fn heads_of_64_that_share_keys() {
    check(&[Case { s: Sizes { heads: 8, kv_heads: 1, n: 1, n_kv: 256, ..PLAIN.s }, ..PLAIN }]);
}

#[test]
fn heads_of_80_in_two_sequences_without_a_mask() {
    let s = Sizes { dk: 80, dv: 80, heads: 3, kv_heads: 3, n: 1, n_kv: 17, batch: 2 };
    check(&[Case { s, mask_rows: 0, ..PLAIN }]);
}

#[test]
fn heads_of_128_and_a_padded_mask() {
    check(&[Case { s: Sizes { dk: 128, dv: 128, n: 16, n_kv: 65, ..PLAIN.s }, mask_rows: 32, ..PLAIN }]);
}

#[test]
fn heads_of_40_and_72_and_many_queries() {
    let s = Sizes { dk: 40, dv: 72, heads: 1, kv_heads: 1, n: 33, n_kv: 113, ..PLAIN.s };
    check(&[Case { s, mask_rows: 64, ..PLAIN }]);
}

#[test]
fn heads_of_576_and_512() {
    check(&[Case { s: Sizes { dk: 576, dv: 512, heads: 2, kv_heads: 1, n: 1, n_kv: 70, ..PLAIN.s }, ..PLAIN }]);
}

#[test]
fn a_length_of_many_pieces() {
    check(&[Case { s: Sizes { heads: 2, n: 1, n_kv: 2100, ..PLAIN.s }, ..PLAIN }]);
}

#[test]
fn sinks_and_slopes() {
    check(&[Case { s: Sizes { heads: 6, kv_heads: 3, n: 1, ..PLAIN.s }, sinks: true, max_bias: 8.0, ..PLAIN }]);
}

#[test]
fn softcap() {
    check(&[Case { softcap: 2.0, s: Sizes { heads: 2, n: 1, ..PLAIN.s }, ..PLAIN }]);
}

#[test]
fn rows_of_a_software_device() {
    let s = PLAIN.s;
    let few =
        Case { s: Sizes { dk: 40, dv: 72, heads: 1, kv_heads: 1, n: 33, n_kv: 113, ..s }, mask_rows: 64, ..PLAIN };
    let open =
        Case { s: Sizes { dk: 80, dv: 80, heads: 3, kv_heads: 3, n: 1, n_kv: 17, batch: 2 }, mask_rows: 0, ..PLAIN };
    let slopes = Case { s: Sizes { heads: 6, kv_heads: 3, n: 1, ..s }, sinks: true, max_bias: 8.0, ..PLAIN };
    let long = Case { s: Sizes { dk: 96, dv: 128, n: 16, n_kv: 64, ..s }, mask_rows: 32, softcap: 2.0, ..PLAIN };
    let blocks = Case { k: Type::Q8_0, v: Type::F32, ..PLAIN };
    check_in(Room::new(), &[few, open, slopes, long, blocks]);
}

/// One head and one query: what matters is the type.
fn cache(k: Type, v: Type) {
    check(&[Case { k, v, s: Sizes { heads: 1, kv_heads: 1, n: 1, n_kv: 90, ..PLAIN.s }, mask_rows: 1, ..PLAIN }]);
}

#[test]
fn caches_of_plain_numbers() {
    cache(Type::F32, Type::BF16);
    cache(Type::BF16, Type::F32);
}

#[test]
fn caches_of_q8_0_and_q4_0() {
    cache(Type::Q8_0, Type::Q4_0);
    cache(Type::Q4_0, Type::Q8_0);
}

#[test]
fn caches_of_q4_1_and_q5_1() {
    cache(Type::Q4_1, Type::Q5_1);
    cache(Type::Q5_1, Type::Q4_1);
}

#[test]
fn caches_of_q5_0_and_iq4_nl() {
    cache(Type::Q5_0, Type::IQ4_NL);
    cache(Type::IQ4_NL, Type::Q5_0);
}

#[test]
fn the_bits_of_a_query_do_not_depend_on_the_others() {
    Room::both().for_each(bits_of_queries);
}

fn bits_of_queries(mut room: Room) {
    // Several pieces, and one; up to 8 rows in a workgroup; of 33 queries with the look for hidden positions.
    for (n_kv, counts) in [(700, [1, 16]), (150, [1, 32])] {
        let s = Sizes { heads: 2, kv_heads: 1, n: 33, n_kv, ..PLAIN.s };
        let case = Case { s, mask_rows: 64, sinks: true, ..PLAIN };
        let (all, _) = compute(&mut room, &case, 33);
        for n in counts {
            let (some, _) = compute(&mut room, &case, n);
            let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&some), bits(&all[..some.len()]), "{n} queries, {n_kv} positions");
        }
    }
}

#[test]
fn a_recording_counts_its_pieces_anew_each_time() {
    let Some(mut room) = Room::as_hardware() else { return };
    let q = room.f32([64, 1, 4, 1], &noise(1, 256));
    let [k, v] = [2, 3].map(|seed| room.f32([64, 700, 2, 1], &noise(seed, 64 * 700 * 2)));
    let dst = room.empty(Type::F32, [64, 4, 1, 1]);
    let recording = room.gpu().record(&[Node::new(OP, dst, &[q, k, v])]).unwrap();
    let run = || {
        room.gpu().write(dst.data, &[0xff; 1024]).unwrap();
        room.gpu().run(&recording).unwrap();
        room.values(&dst)
    };
    let once = run();
    assert!(once.iter().all(|x| x.abs() < 1.0));
    assert_eq!(once, run());
}

#[test]
fn the_result_is_left_as_int8_blocks_too() {
    let caps = Caps { software: false, ..Caps::for_tests() };
    let (q, k) = (Tensor::new(Type::F32, [64, 3, 4, 1]), Tensor::new(Type::F16, [64, 70, 2, 1]));
    let dst = Tensor::new(Type::F32, [64, 4, 3, 1]);
    let mut cx = Lowering::question(&caps);
    lower_with(&Node::new(OP, dst, &[q, k, k]), &mut cx, true).unwrap();
    let rows = Tensor::new(Type::F32, [256, 3, 1, 1]);
    let span = cx.derived(&rows, FORM).unwrap();
    let last = cx.dispatches.last().unwrap();
    assert!(last.writes.contains(&span) && span.len >= Q8::bytes(&rows) && last.spec[8] & 64 != 0);
    lower_with(&Node::new(OP, dst, &[q, k, k]), &mut cx, false).unwrap();
    assert_eq!(cx.dispatches.last().unwrap().spec[8] & 64, 0);
}

#[test]
fn a_row_of_which_all_is_hidden_is_zero() {
    Room::both().for_each(all_hidden);
}

fn all_hidden(mut room: Room) {
    let [q, k, v] = [1, 2, 3].map(|seed| room.f32([64, 70, 1, 1], &noise(seed, 64 * 70)));
    let mask = room.place(Tensor::new(Type::F16, [70, 70, 1, 1]), &[0, 0xfc].repeat(70 * 70));
    let dst = room.empty(Type::F32, [64, 1, 70, 1]);
    room.run(&[Node::new(OP, dst, &[q, k, v, mask])]);
    assert!(room.values(&dst).iter().all(|x| *x == 0.0));
}

#[test]
fn long_prompts_are_cut_and_every_query_is_computed_once() {
    let caps = Caps { software: false, ..Caps::for_tests() };
    let t = |ty, ne| Tensor::new(ty, ne);
    let (q, k) = (t(Type::F32, [128, 512, 32, 2]), t(Type::F16, [128, 16384, 8, 2]));
    let node = Node::new(OP, t(Type::F32, [128, 32, 512, 2]), &[q, k, k]);
    let mut cx = Lowering::question(&caps);
    lower(&node, &mut cx).unwrap();
    assert!(cx.dispatches.iter().all(|d| d.work <= MAX_WORK && d.writes[0].len <= node.dst.span().max(MAX_SCRATCH)));
    let rows: u64 = cx.dispatches.iter().map(|d| u64::from(d.groups[0] * d.groups[2] * d.spec[4])).sum();
    assert_eq!(rows, 512 * 32 * 2);
}

#[test]
fn matrices_take_prompts_of_halves_and_blocks_where_the_device_has_them() {
    let caps = Caps {
        subgroup: 32,
        matrix_f16: Some(MatrixShape { m: 16, n: 16, k: 16 }),
        software: false,
        ..Caps::for_tests()
    };
    let first = |caps: &Caps, n: i64, head: i64, ty: Type| {
        let (q, k) = (Tensor::new(Type::F32, [head, n, 32, 1]), Tensor::new(ty, [head, 512, 8, 1]));
        let mut cx = Lowering::question(caps);
        lower(&Node::new(OP, Tensor::new(Type::F32, [head, 32, n, 1]), &[q, k, k]), &mut cx).unwrap();
        cx.dispatches.swap_remove(0)
    };
    let tile = first(&caps, 100, 128, Type::F16);
    // 400 rows of a KV head in groups of 64; tiles of 32 positions.
    assert_eq!((tile.shader, tile.groups, tile.spec[4]), ("attention_tile", [7, 1, 8], 32));
    assert_eq!(first(&caps, 17, 256, Type::Q8_0).spec[4], 16, "more would not fit into shared memory");
    for (n, head, ty) in [(16, 128, Type::F16), (17, 512, Type::F16), (17, 128, Type::F32)] {
        assert_eq!(first(&caps, n, head, ty).shader, "attention_piece", "{n} {head} {ty:?}");
    }
    assert_eq!(first(&Caps { matrix_f16: None, ..caps }, 17, 128, Type::F16).shader, "attention_piece");
    assert_eq!(first(&Caps::for_tests(), 1, 128, Type::F16).shader, "attention_lane");
    assert_eq!(first(&Caps::for_tests(), 17, 512, Type::F16).shader, "attention_piece");
}

#[test]
fn what_the_shader_does_not_take_is_refused_with_its_numbers() {
    let caps = Caps { software: false, ..Caps::for_tests() };
    let node = |dk: i64, kt: Type| {
        let (q, k) = (Tensor::new(Type::F32, [dk, 1, 4, 1]), Tensor::new(kt, [dk, 64, 2, 1]));
        Node::new(OP, Tensor::new(Type::F32, [dk, 4, 1, 1]), &[q, k, k])
    };
    let said = |node: &Node| lower(node, &mut Lowering::question(&caps)).unwrap_err().to_string();
    assert!(said(&node(65, Type::F16)).contains("65"));
    assert!(said(&node(256, Type::Q4_K)).contains("q4_K"));
    lower(&node(128, Type::F16), &mut Lowering::question(&caps)).unwrap();
}
