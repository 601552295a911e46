//! FLASH_ATTN_EXT: softmax(Q K^T) V without the matrix of scores in memory.
//!
//! Up to [`FEW`] queries, and whatever the matrices do not take: the KV length is cut into pieces by its length and the
//! number of KV heads alone. Each piece leaves its maximum, sum and sum over V per row; a second dispatch joins the pieces
//! in order. So the result of a query has the same bits whatever other queries are computed with it, and hidden positions
//! at the end of the KV length change no bit either.
//!
//! More queries, on a device with f16 matrices: each row goes through the whole KV length in one workgroup. Its bits do not
//! depend on the other queries either, but they are not those of the first way, which keeps f32 throughout.

use super::quantize::{FORM, Q8};
use super::{Dispatch, Lowering, Push, Reject, Span, TensorParams, source, type_list};
use crate::engine::vulkan::caps::{Caps, MatrixShape};
use crate::graph::{Node, Tensor, Type};

const OP: &str = "FLASH_ATTN_EXT";

/// Invocations of a workgroup of the pieces and of the matrices.
const WORKGROUP: u32 = 128;
/// Positions that the shader of the pieces scores together; `TILE` there.
const TILE: u64 = 64;
/// The most rows (queries x heads that share a KV head) of a piece's workgroup: more would not fit into registers.
const MAX_ROWS: u64 = 8;
/// The most pieces that the joining shader takes; `MAX_PIECES` there.
const MAX_PIECES: u64 = 256;
/// The most queries of a speculative step, which must have the bits of single ones.
const FEW: u64 = 16;
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
    dk: u64,
    dv: u64,
    heads: u64,
    kv_heads: u64,
    n: u64,
    n_kv: u64,
    sequences: u64,
    k_type: u32,
    v_type: u32,
    scale: f32,
    softcap: f32,
    max_bias: f32,
}

/// Lowers a node of this family.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    lower_with(node, cx, false)
}

/// Lowers a node, and if `int8` leaves the result also as int8 blocks for a product that follows, where the shape allows:
/// noted as derived data of the result seen as one row per query.
///
/// # Errors
/// As [`lower`].
pub fn lower_with(node: &Node, cx: &mut Lowering, int8: bool) -> Result<(), Reject> {
    let a = read(node, cx)?;
    let keys = if a.n > FEW { keys_of_matrices(&a, cx.caps) } else { None };
    let (step, pieces) = match keys {
        Some(keys) => (keys, 0),
        None => (piece(a.n_kv, a.kv_heads), a.n_kv.div_ceil(piece(a.n_kv, a.kv_heads))),
    };
    let columns = (int8 && keys.is_none() && a.dv.is_multiple_of(32)).then(|| {
        let mut row = node.dst;
        row.ne = [(a.dv * a.heads) as i64, (a.n * a.sequences) as i64, 1, 1];
        row.nb = Tensor::new(Type::F32, row.ne).nb;
        (row, cx.scratch(Q8::bytes(&row)))
    });
    // Cut long prompts: by sequence if one query of all of them is too much already, then by query.
    let work_of =
        |queries: u64, sequences: u64| 2.0 * (queries * sequences * a.heads * a.n_kv) as f64 * (a.dk + a.dv) as f64;
    let scratch_of = |queries: u64, sequences: u64| queries * sequences * a.heads * pieces * record(a.dv);
    let most = |sequences: u64| {
        let by_work = (MAX_WORK / work_of(1, sequences)) as u64;
        by_work.min(MAX_SCRATCH / scratch_of(1, sequences).max(1)).min(a.n)
    };
    let sequences = if most(a.sequences) > 0 { a.sequences } else { 1 };
    // Whole workgroups where there are many.
    let queries = most(sequences).max(1);
    let queries = if queries < a.n && queries > 64 { queries / 64 * 64 } else { queries };
    for sequence in (0..a.sequences).step_by(sequences as usize) {
        for first in (0..a.n).step_by(queries as usize) {
            let n = queries.min(a.n - first);
            let mut cut = Cut { first, n, sequence, sequences, step, pieces, parts: Span { start: 0, len: 0 } };
            let work = work_of(n, sequences);
            if keys.is_some() {
                cx.push(matrices_of(&a, &cut, cx.caps.subgroup, work));
                continue;
            }
            cut.parts = cx.scratch(scratch_of(n, sequences));
            cx.push(pieces_of(&a, &cut, cx.caps.subgroup, work));
            cx.push(join_of(&a, &cut, cx.caps.subgroup, columns.map(|c| c.1)));
        }
    }
    if let Some((row, span)) = columns {
        cx.note_derived(&row, FORM, span)?;
    }
    Ok(())
}

/// The part of a node that one dispatch, or a pair, computes.
struct Cut {
    first: u64,
    n: u64,
    sequence: u64,
    sequences: u64,
    /// Positions of a piece, or of a tile of the matrices.
    step: u64,
    pieces: u64,
    parts: Span,
}

impl Cut {
    /// Where the rows of the result that it computes begin and end.
    fn result(&self, a: &Attention) -> Span {
        let row = a.heads * a.dv * 4;
        let start = a.dst.address + (self.sequence * a.n + self.first) * row;
        Span { start, len: ((self.sequences - 1) * a.n + self.n) * row }
    }
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

/// Positions of a tile of the matrices; `None` when they do not take this node.
fn keys_of_matrices(a: &Attention, caps: &Caps) -> Option<u64> {
    let square = Some(MatrixShape { m: 16, n: 16, k: 16 });
    // Halves hold what f16 and the quantised types hold; f32 and bf16 could overflow.
    let halves = |code: u32| code & 15 == 1 || code & 15 > 2;
    let fits = caps.matrix_f16 == square && halves(a.k_type) && halves(a.v_type) && a.dk <= 256 && a.dv <= 256;
    if !fits || !matches!(caps.subgroup, 32 | 64) {
        return None;
    }
    // Shared memory as the shader declares it.
    let shared = |keys: u64| {
        let (k, v) = (a.dk.next_multiple_of(16) + 8, a.dv.next_multiple_of(16) + 8);
        let rows = u64::from(WORKGROUP / caps.subgroup) * 16;
        2 * keys * (k + v) + rows * (2 * (keys + 8) + 4 * (keys + 4)) + 12
    };
    [32, 16].into_iter().find(|keys| shared(*keys) <= u64::from(caps.shared.min(32768)))
}

/// The numbers that the shaders of the pieces and of the matrices have in common: `Push` of `lib/attention_rows.glsl`.
fn push_of(a: &Attention, cut: &Cut, to: u64, step: u64) -> Push {
    let at = |t: &TensorParams| t.address + cut.sequence * u64::from(t.nb[3]);
    let mut push = Push::new().u64(at(&a.q) + cut.first * u64::from(a.q.nb[1])).u64(at(&a.k)).u64(at(&a.v));
    let none = TensorParams { address: 0, ne: [1; 4], nb: [0; 4] };
    let mask = a.mask.unwrap_or(none);
    let sequence = cut.sequence % u64::from(mask.ne[3]);
    push = push.u64(mask.address + cut.first * u64::from(mask.nb[1]) + sequence * u64::from(mask.nb[3])).u64(to);
    for nb in [a.q.nb, a.k.nb, a.v.nb, mask.nb].iter().flat_map(|nb| &nb[1..]) {
        push = push.u32(*nb);
    }
    let power = 1 << a.heads.ilog2();
    push = push.u32(cut.n as u32).u32(a.n_kv as u32);
    push = push.u32(mask.ne[2] | mask.ne[3] << 16).u32(a.kv_heads as u32 | power << 16);
    let scale = if a.softcap == 0.0 { a.scale } else { a.scale / a.softcap };
    push.f32(scale).f32(a.softcap).f32(a.max_bias).u32(step as u32).u64(a.sinks.map_or(0, |s| s.address))
}

/// Specialisation constants, as in `lib/attention_rows.glsl`.
fn spec_of(a: &Attention, subgroup: u32, size: u64, flags: u32) -> Vec<u32> {
    let flag = |on: bool, bit: u32| if on { bit } else { 0 };
    let flags =
        flags | flag(a.mask.is_some(), 1) | flag(a.softcap != 0.0, 2) | flag(a.mask.is_some() && a.max_bias > 0.0, 4);
    let sharing = (a.heads / a.kv_heads) as u32;
    vec![WORKGROUP, subgroup, a.dk as u32, a.dv as u32, size as u32, sharing, a.k_type, a.v_type, flags]
}

fn pieces_of(a: &Attention, cut: &Cut, subgroup: u32, work: f64) -> Dispatch {
    let rows = a.heads / a.kv_heads * cut.n;
    // Equal shares: 12 rows are 6 and 6, not 8 and 4.
    let groups = rows.div_ceil(if a.dk > 640 { MAX_ROWS / 2 } else { MAX_ROWS });
    let each = rows.div_ceil(groups);
    // Looking for hidden tiles pays off where they are many: in prompts, and in pieces of several tiles.
    let skip = if a.mask.is_some() && (cut.n > FEW || cut.step >= 4 * TILE) { 8 } else { 0 };
    Dispatch {
        shader: "attention_piece",
        spec: spec_of(a, subgroup, each, skip),
        push: push_of(a, cut, cut.parts.start, cut.step),
        groups: [rows.div_ceil(each) as u32, cut.pieces as u32, (a.kv_heads * cut.sequences) as u32],
        reads: a.reads.clone(),
        writes: vec![cut.parts],
        work,
    }
}

fn join_of(a: &Attention, cut: &Cut, subgroup: u32, columns: Option<Span>) -> Dispatch {
    let rows = cut.sequences * cut.n * a.heads;
    let (result, column) = (cut.result(a), Q8::column_bytes(a.heads * a.dv));
    let int8 = columns.map_or(0, |c| c.start + (cut.sequence * a.n + cut.first) * column);
    let push = Push::new().u64(cut.parts.start).u64(result.start).u64(a.sinks.map_or(0, |s| s.address)).u64(int8);
    let push = push.u32(cut.pieces as u32).u32(a.heads as u32).u32(rows as u32);
    let mut reads = vec![cut.parts];
    if a.sinks.is_some() {
        reads.extend(a.reads.last());
    }
    let size = (a.dv as u32 / 4).next_multiple_of(subgroup).min(WORKGROUP);
    Dispatch {
        shader: "attention_join",
        spec: vec![size, subgroup, a.dv as u32, MAX_PIECES as u32, u32::from(columns.is_some())],
        push: push.u32((cut.n * a.heads) as u32).u32((a.n * a.heads) as u32),
        groups: Dispatch::groups_of(rows),
        reads,
        writes: [Some(result), columns].into_iter().flatten().collect(),
        work: (2 * rows * cut.pieces * a.dv) as f64,
    }
}

fn matrices_of(a: &Attention, cut: &Cut, subgroup: u32, work: f64) -> Dispatch {
    let rows = a.heads / a.kv_heads * cut.n;
    let result = cut.result(a);
    let whole = a.n_kv.is_multiple_of(cut.step)
        && a.mask.is_some_and(|m| m.address.is_multiple_of(8) && m.nb[1..].iter().all(|nb| nb.is_multiple_of(8)));
    Dispatch {
        shader: "attention_tile",
        spec: spec_of(a, subgroup, cut.step, if whole { 16 } else { 0 }),
        push: push_of(a, cut, result.start, a.n * a.heads),
        groups: [rows.div_ceil(u64::from(WORKGROUP / subgroup) * 16) as u32, 1, (a.kv_heads * cut.sequences) as u32],
        reads: a.reads.clone(),
        writes: vec![result],
        work,
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
    let k_type = code(&k, cx.address(&k)?).ok_or_else(types)?;
    let v_type = code(&v, cx.address(&v)?).ok_or_else(types)?;
    Ok(Attention {
        q: cx.tensor(&q)?,
        k: cx.tensor(&k)?,
        v: cx.tensor(&v)?,
        mask: mask.map(|m| cx.tensor(&m)).transpose()?,
        sinks: sinks.map(|s| cx.tensor(&s)).transpose()?,
        dst: cx.tensor(&dst)?,
        reads,
        dk: dk as u64,
        dv: dv as u64,
        heads: heads as u64,
        kv_heads: kv_heads as u64,
        n: n as u64,
        n_kv: n_kv as u64,
        sequences: sequences as u64,
        k_type,
        v_type,
        scale: node.param_f32(0),
        softcap,
        max_bias,
    })
}

#[cfg(test)]
#[path = "attention_tests.rs"]
mod tests;
