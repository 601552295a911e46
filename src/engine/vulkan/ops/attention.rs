//! FLASH_ATTN_EXT: softmax(Q K^T) V without the matrix of scores in memory.
//!
//! The KV length is cut into pieces by its length and the number of KV heads alone. Each piece leaves its maximum, sum and
//! sum over V per row; a second dispatch joins the pieces in order. So the result of a query has the same bits whatever
//! other queries are computed with it, and hidden positions at the end of the KV length change no bit either.

use super::{Dispatch, Lowering, Push, Reject, Span, TensorParams, source, type_list};
use crate::graph::{Node, Tensor, Type};

const OP: &str = "FLASH_ATTN_EXT";

/// Invocations of a workgroup of the pieces; the shader shares out its work for any multiple of 64 that 256 divides.
const WORKGROUP: u32 = 128;
/// Positions that the shader scores together; `TILE` there.
const TILE: u64 = 64;
/// The most rows (queries x heads that share a KV head) of a workgroup: more would not fit into registers.
const MAX_ROWS: u64 = 8;
/// The most pieces that the joining shader takes; `MAX_PIECES` there.
const MAX_PIECES: u64 = 256;
/// Scratch memory of one cut: half of the ring, so that the next cut does not wait for this one.
const MAX_SCRATCH: u64 = 32 << 20;
/// Operations of one dispatch, so that a slow GPU answers within a fraction of a second.
const MAX_WORK: f64 = 2e10;

/// Everything about a node that its dispatches need.
struct Attention {
    q: TensorParams,
    k: TensorParams,
    v: TensorParams,
    mask: Option<TensorParams>,
    sinks: Option<TensorParams>,
    dst: TensorParams,
    reads: Vec<Span>,
    writes: Vec<Span>,
    dk: u64,
    dv: u64,
    heads: u64,
    kv_heads: u64,
    n: u64,
    n_kv: u64,
    sequences: u64,
    spec: [u32; 3],
    scale: f32,
    softcap: f32,
    max_bias: f32,
}

/// Lowers a node of this family.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    let a = read(node, cx)?;
    let piece = piece(a.n_kv, a.kv_heads);
    let pieces = a.n_kv.div_ceil(piece);
    // Cut long prompts: by sequence if one query of all of them is too much already, then by query.
    let work_of =
        |queries: u64, sequences: u64| 2.0 * (queries * sequences * a.heads * a.n_kv) as f64 * (a.dk + a.dv) as f64;
    let scratch_of = |queries: u64, sequences: u64| queries * sequences * a.heads * pieces * record(a.dv);
    let fits = |q: u64, s: u64| work_of(q, s) <= MAX_WORK && scratch_of(q, s) <= MAX_SCRATCH;
    let sequences = if fits(1, a.sequences) { a.sequences } else { 1 };
    let mut queries = a.n;
    while queries > 1 && !fits(queries, sequences) {
        queries = queries.div_ceil(2);
    }
    for s in (0..a.sequences).step_by(sequences as usize) {
        for q in (0..a.n).step_by(queries as usize) {
            let n = queries.min(a.n - q);
            let parts = cx.scratch(scratch_of(n, sequences));
            let cut = Cut { first: q, n, sequence: s, sequences, piece, pieces, parts };
            cx.push(pieces_of(&a, &cut, cx.caps.subgroup, work_of(n, sequences)));
            cx.push(join_of(&a, &cut, cx.caps.subgroup));
        }
    }
    Ok(())
}

/// The part of a node that one pair of dispatches computes.
struct Cut {
    first: u64,
    n: u64,
    sequence: u64,
    sequences: u64,
    piece: u64,
    pieces: u64,
    parts: Span,
}

/// Positions of a piece: few enough pieces that joining them is cheap, and enough that they fill the device when the
/// model has few KV heads. Powers of two, so that the cut, and with it the bits, seldom change while a context grows.
fn piece(n_kv: u64, kv_heads: u64) -> u64 {
    let most = (MAX_PIECES / kv_heads.next_power_of_two()).clamp(16, 128);
    (n_kv.div_ceil(most)).next_power_of_two().max(TILE)
}

/// Bytes of a row's result of one piece: maximum, sum, two unused numbers, sum over V.
fn record(dv: u64) -> u64 {
    16 + 4 * dv
}

fn pieces_of(a: &Attention, cut: &Cut, subgroup: u32, work: f64) -> Dispatch {
    let sharing = a.heads / a.kv_heads;
    let rows = sharing * cut.n;
    // Equal shares: 12 rows are 6 and 6, not 8 and 4.
    let groups = rows.div_ceil(if a.dk > 640 { MAX_ROWS / 2 } else { MAX_ROWS });
    let each = rows.div_ceil(groups);
    let [k_type, v_type, flags] = a.spec;
    // Looking for hidden tiles pays off where they are many: in prompts, and in pieces of several tiles.
    let skip = if a.mask.is_some() && (cut.n > 16 || cut.piece >= 4 * TILE) { 8 } else { 0 };
    let at = |t: &TensorParams| t.address + cut.sequence * u64::from(t.nb[3]);
    let mut mask = (0, [0; 3], [1, 1]);
    if let Some(m) = &a.mask {
        let sequence = cut.sequence % u64::from(m.ne[3]);
        mask.0 = m.address + cut.first * u64::from(m.nb[1]) + sequence * u64::from(m.nb[3]);
        mask.1 = [m.nb[1], m.nb[2], m.nb[3]];
        mask.2 = [m.ne[2], m.ne[3]];
    }
    let mut push = Push::new().u64(at(&a.q) + cut.first * u64::from(a.q.nb[1])).u64(at(&a.k)).u64(at(&a.v));
    push = push.u64(mask.0).u64(cut.parts.start);
    for nb in [&a.q.nb[1..], &a.k.nb[1..], &a.v.nb[1..], &mask.1].concat() {
        push = push.u32(nb);
    }
    let log_heads = 1 << a.heads.ilog2();
    push = push.u32(cut.n as u32).u32(a.n_kv as u32).u32(cut.piece as u32);
    push = push.u32(mask.2[0] | mask.2[1] << 16).u32(a.kv_heads as u32 | log_heads << 16);
    let scale = if a.softcap == 0.0 { a.scale } else { a.scale / a.softcap };
    Dispatch {
        shader: "attention_piece",
        spec: vec![
            WORKGROUP,
            subgroup,
            a.dk as u32,
            a.dv as u32,
            each as u32,
            sharing as u32,
            k_type,
            v_type,
            flags | skip,
        ],
        push: push.f32(scale).f32(a.softcap).f32(a.max_bias),
        groups: [rows.div_ceil(each) as u32, cut.pieces as u32, (a.kv_heads * cut.sequences) as u32],
        reads: a.reads.clone(),
        writes: vec![cut.parts],
        work,
    }
}

fn join_of(a: &Attention, cut: &Cut, subgroup: u32) -> Dispatch {
    let rows = cut.sequences * cut.n * a.heads;
    let dst = a.dst.address + (cut.sequence * a.n + cut.first) * a.heads * a.dv * 4;
    let push = Push::new().u64(cut.parts.start).u64(dst).u64(a.sinks.map_or(0, |s| s.address));
    let push = push.u32(cut.pieces as u32).u32(a.heads as u32).u32(rows as u32);
    let mut reads = vec![cut.parts];
    if a.sinks.is_some() {
        reads.extend(a.reads.last());
    }
    Dispatch {
        shader: "attention_join",
        spec: vec![(a.dv as u32 / 4).next_multiple_of(subgroup).min(128), subgroup, a.dv as u32, MAX_PIECES as u32],
        push: push.u32((cut.n * a.heads) as u32).u32((a.n * a.heads) as u32),
        groups: Dispatch::groups_of(rows),
        reads,
        writes: a.writes.clone(),
        work: (2 * rows * cut.pieces * a.dv) as f64,
    }
}

/// The number of a type in `shaders/lib/attention.glsl`.
fn code(t: &Tensor, address: u64) -> Option<u32> {
    let code = match t.ty {
        Type::F32 => 0,
        Type::F16 => 1,
        Type::BF16 => 2,
        Type::Q8_0 => 3,
        Type::Q4_0 => 4,
        Type::Q4_1 => 5,
        Type::Q5_0 => 6,
        Type::Q5_1 => 7,
        Type::IQ4_NL => 8,
        _ => return None,
    };
    let aligned = (1..4).all(|i| t.ne[i] <= 1 || t.nb[i].is_multiple_of(16)) && address.is_multiple_of(16);
    Some(code + if aligned && !t.ty.quantized() { 16 } else { 0 })
}

/// Reads and checks the node.
fn read(node: &Node, cx: &Lowering) -> Result<Attention, Reject> {
    let (q, k, v) = (source(node, 0)?, source(node, 1)?, source(node, 2)?);
    let (mask, sinks, dst) = (node.src[3], node.src[4], node.dst);
    let types = || Reject::Types(OP, type_list(node));
    let plain = q.ty == Type::F32
        && dst.ty == Type::F32
        && mask.is_none_or(|m| m.ty == Type::F16)
        && sinks.is_none_or(|s| s.ty == Type::F32);
    if !plain {
        return Err(types());
    }
    let shape = |what: String| Err(Reject::Shape(OP, what));
    let [dk, n, heads, sequences] = q.ne;
    let (dv, n_kv, kv_heads) = (v.ne[0], k.ne[1], k.ne[2]);
    if dk % 8 != 0 || dv % 8 != 0 || dk > 1024 || dv > 1024 {
        return shape(format!("heads of {dk} and {dv}; they must be multiples of 8 up to 1024"));
    }
    if n_kv == 0 || heads > 65535 || kv_heads * sequences > 65535 || k.ne[3] > 65535 {
        return shape(format!("{n_kv} keys, {heads} heads, {kv_heads} KV heads, {sequences} sequences"));
    }
    let fits = k.ne == [dk, n_kv, kv_heads, sequences]
        && v.ne == [dv, n_kv, kv_heads, sequences]
        && heads % kv_heads == 0
        && dst.ne == [dv, heads, n, sequences];
    if !fits {
        return shape(format!("Q {:?}, K {:?}, V {:?} and the result {:?} do not fit", q.ne, k.ne, v.ne, dst.ne));
    }
    let rows = [Some(q), Some(k), Some(v), mask, sinks].iter().flatten().all(Tensor::row_contiguous);
    if !rows || !dst.contiguous() {
        return shape("a row of a source, or the result, has holes".to_owned());
    }
    if let Some(m) = mask {
        let fits = m.ne[0] >= n_kv && m.ne[1] >= n && heads % m.ne[2] == 0 && sequences % m.ne[3] == 0;
        if !fits || m.ne[2] > 65535 || m.ne[3] > 65535 {
            return shape(format!("a mask {:?} for {n_kv} keys, {n} queries, {heads} heads", m.ne));
        }
    }
    if sinks.is_some_and(|s| s.ne[0] < heads) {
        return shape(format!("{:?} sinks for {heads} heads", sinks.map(|s| s.ne)));
    }
    let mut reads = Vec::new();
    for t in [Some(q), Some(k), Some(v), mask, sinks].iter().flatten() {
        reads.push(cx.span(t)?);
    }
    let (max_bias, softcap) = (node.param_f32(1), node.param_f32(2));
    let flag = |on: bool, bit: u32| if on { bit } else { 0 };
    let spec = [
        code(&k, cx.address(&k)?).ok_or_else(types)?,
        code(&v, cx.address(&v)?).ok_or_else(types)?,
        flag(mask.is_some(), 1) | flag(softcap != 0.0, 2) | flag(max_bias > 0.0, 4),
    ];
    Ok(Attention {
        q: cx.tensor(&q)?,
        k: cx.tensor(&k)?,
        v: cx.tensor(&v)?,
        mask: mask.map(|m| cx.tensor(&m)).transpose()?,
        sinks: sinks.map(|s| cx.tensor(&s)).transpose()?,
        dst: cx.tensor(&dst)?,
        reads,
        writes: vec![cx.span(&dst)?],
        dk: dk as u64,
        dv: dv as u64,
        heads: heads as u64,
        kv_heads: kv_heads as u64,
        n: n as u64,
        n_kv: n_kv as u64,
        sequences: sequences as u64,
        spec,
        scale: node.param_f32(0),
        softcap,
        max_bias,
    })
}

#[cfg(test)]
#[path = "attention_tests.rs"]
mod tests;
