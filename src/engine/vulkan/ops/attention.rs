//! FLASH_ATTN_EXT: softmax(Q K^T) V without the matrix of scores in memory.
//!
//! Up to [`FEW`] queries, and whatever the matrices do not take: the KV length is cut into pieces by its length, the size of
//! the heads and their number alone. Each piece leaves its maximum, sum and sum over V per row; the last workgroup of a row
//! to finish joins the pieces in order. So the result of a query has the same bits whatever other queries are computed
//! with it.
//!
//! More queries, on a device with f16 matrices or on a software device: each row goes through the whole KV length in one
//! workgroup. Its bits do not depend on the other queries either, but they are not those of the first way.

use super::quantize::{FORM, Q8};
use super::{Dispatch, Lowering, Params, Push, Reject, Span, TensorParams};
use crate::engine::vulkan::caps::{Caps, MatrixShape};
use crate::graph::{Node, Tensor, Type};

#[path = "attention_read.rs"]
mod node;

use node::Attention;

/// Invocations of a workgroup of the matrices, and of one of several pieces.
const WORKGROUP: u32 = 128;
/// Invocations of a workgroup that has the whole KV length.
const LARGE: u64 = 256;
/// Elements of K and V of a head that one workgroup reads in about the time that pieces need to meet.
const WHOLE: u64 = 1 << 16;
/// The most rows (queries x heads that share a KV head) of a piece's workgroup: more would not fit into registers.
const MAX_ROWS: u64 = 8;
/// Rows share a workgroup, and so the reads of K and V, only beyond this many invocations: fewer leave a GPU idle.
const BUSY: u64 = 1 << 15;
/// The most pieces that are joined; `MAX_PIECES` of `lib/attention_join.glsl`.
const MAX_PIECES: u64 = 128;
/// The most queries of a speculative step, which must have the bits of single ones.
const FEW: u64 = 16;
/// Scratch memory of one cut: half of the ring, so that the next cut does not wait for this one.
const MAX_SCRATCH: u64 = 32 << 20;
/// Operations of one dispatch, so that a slow GPU answers within a fraction of a second.
const MAX_WORK: f64 = 2e10;

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
    let a = Attention::read(node, cx)?;
    let plan = Plan::of_whole(&a, cx.caps).unwrap_or_else(|| Plan::of(&a, cx.caps));
    // One piece leaves its result at once.
    let records = if plan.pieces > 1 { plan.pieces } else { 0 };
    // Cut long prompts: by sequence if one query of all of them is too much already, then by query.
    let work_of =
        |queries: u64, sequences: u64| 2.0 * (queries * sequences * a.heads * a.n_kv) as f64 * (a.dk + a.dv) as f64;
    let scratch_of = |queries: u64, sequences: u64| queries * sequences * a.heads * records * record(a.dv);
    let most = |sequences: u64| {
        let by_work = (MAX_WORK / work_of(1, sequences)) as u64;
        by_work.min(MAX_SCRATCH / scratch_of(1, sequences).max(1)).min(a.n)
    };
    let sequences = if most(a.sequences) > 0 { a.sequences } else { 1 };
    // Whole workgroups where there are many.
    let queries = most(sequences).max(1);
    let queries = if queries < a.n && queries > 64 { queries / 64 * 64 } else { queries };
    // The ring of scratch memory would come round during a long prompt.
    let whole = queries == a.n && sequences == a.sequences;
    let columns = (int8 && whole && plan.pieces > 0 && a.dv.is_multiple_of(32)).then(|| {
        let mut row = node.dst;
        row.ne = [(a.dv * a.heads) as i64, (a.n * a.sequences) as i64, 1, 1];
        row.nb = Tensor::new(Type::F32, row.ne).nb;
        (row, cx.scratch(Q8::bytes(&row)))
    });
    for sequence in (0..a.sequences).step_by(sequences as usize) {
        for first in (0..a.n).step_by(queries as usize) {
            let n = queries.min(a.n - first);
            let mut cut = Cut { first, n, sequence, sequences, plan, parts: None };
            let work = work_of(n, sequences);
            if plan.pieces == 0 {
                cx.push(whole_of(&a, &cut, cx.caps, work));
                continue;
            }
            cut.parts = (records > 0).then(|| cx.scratch(scratch_of(n, sequences)));
            let pieces = pieces_of(&a, &cut, columns.map(|c| c.1), work, cx);
            cx.push(pieces);
        }
    }
    if let Some((row, span)) = columns {
        cx.note_derived(&row, FORM, span)?;
    }
    Ok(())
}

/// How the KV length is divided. It must not depend on the number of queries.
#[derive(Clone, Copy)]
struct Plan {
    workgroup: u32,
    /// Positions of a piece, of a tile of the matrices, or of a step of a software device.
    step: u64,
    /// Pieces; none for the whole length at once.
    pieces: u64,
}

impl Plan {
    /// The whole length at once.
    fn of_whole(a: &Attention, caps: &Caps) -> Option<Plan> {
        if caps.software {
            // All elements of a step have code of their own, and the compiler takes a minute for heads of 256.
            let step = [(64, 4), (128, 2)].into_iter().find(|(d, _)| a.dk.max(a.dv) <= *d)?.1;
            return Some(Plan { workgroup: caps.subgroup, step, pieces: 0 });
        }
        let keys = if a.n > FEW { keys_of_matrices(a, caps) } else { None };
        keys.map(|step| Plan { workgroup: WORKGROUP, step, pieces: 0 })
    }

    fn of(a: &Attention, caps: &Caps) -> Plan {
        // A row's sums over V, one for each subgroup, share 8 KiB of memory.
        let subgroup = u64::from(caps.subgroup);
        let most = (subgroup << (2048 / a.dv).ilog2()).min(u64::from(caps.invocations));
        let size = |wanted: u64| wanted.min(most).max(subgroup);
        if a.n_kv * (a.dk + a.dv) <= WHOLE {
            let workgroup = size(a.n_kv.next_power_of_two().clamp(64, LARGE)) as u32;
            return Plan { workgroup, step: a.n_kv, pieces: 1 };
        }
        // Few enough pieces that joining them is cheap, and enough that they fill the device when the model has few KV
        // heads. Powers of two, so that the cut, and with it the bits, seldom change while a context grows.
        let most = (512 / a.kv_heads.next_power_of_two()).clamp(16, MAX_PIECES);
        let step = a.n_kv.div_ceil(most).next_power_of_two().max(u64::from(WORKGROUP));
        Plan { workgroup: size(u64::from(WORKGROUP)) as u32, step, pieces: a.n_kv.div_ceil(step) }
    }
}

/// The part of a node that one dispatch computes.
struct Cut {
    first: u64,
    n: u64,
    sequence: u64,
    sequences: u64,
    plan: Plan,
    /// What several pieces leave for the one that joins them.
    parts: Option<Span>,
}

impl Cut {
    /// Where the rows of the result that it computes begin and end.
    fn result(&self, a: &Attention) -> Span {
        let row = a.heads * a.dv * 4;
        let start = a.dst.address + (self.sequence * a.n + self.first) * row;
        Span { start, len: ((self.sequences - 1) * a.n + self.n) * row }
    }
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
fn push_of(a: &Attention, cut: &Cut, to: u64, step: u64, more: u64) -> Push {
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
    push.f32(scale).f32(a.softcap).f32(a.max_bias).u32(step as u32).u64(more)
}

fn sinks_of(a: &Attention) -> u64 {
    a.sinks.map_or(0, |s| s.address)
}

/// Specialisation constants, as in `lib/attention_rows.glsl`.
fn spec_of(a: &Attention, cut: &Cut, subgroup: u32, size: u64, flags: u32) -> Vec<u32> {
    let flag = |on: bool, bit: u32| if on { bit } else { 0 };
    let flags =
        flags | flag(a.mask.is_some(), 1) | flag(a.softcap != 0.0, 2) | flag(a.mask.is_some() && a.max_bias > 0.0, 4);
    let sharing = (a.heads / a.kv_heads) as u32;
    vec![cut.plan.workgroup, subgroup, a.dk as u32, a.dv as u32, size as u32, sharing, a.k_type, a.v_type, flags]
}

/// Rows of a workgroup of the pieces.
fn rows_of(a: &Attention, cut: &Cut, subgroup: u32) -> u64 {
    let rows = a.heads / a.kv_heads * cut.n;
    // Each invocation has sums of every row; the rows of Q take at most 8 KiB of shared memory, and the subgroups' sums 16.
    let shares = (a.dv / 8).div_ceil(u64::from(subgroup));
    let subgroups = u64::from(cut.plan.workgroup / subgroup);
    let most = MAX_ROWS.min(MAX_ROWS / shares).min(2048 / a.dk).min(4096 / (subgroups * a.dv)).max(1);
    let invocations = u64::from(cut.plan.workgroup) * cut.plan.pieces * a.kv_heads * cut.sequences;
    let groups = (BUSY / invocations).clamp(1, rows).max(rows.div_ceil(most));
    // Equal shares: 12 rows are 6 and 6, not 8 and 4.
    rows.div_ceil(groups)
}

fn pieces_of(a: &Attention, cut: &Cut, columns: Option<Span>, work: f64, cx: &mut Lowering) -> Dispatch {
    let (plan, subgroup) = (cut.plan, cx.caps.subgroup);
    let each = rows_of(a, cut, subgroup);
    let (groups, heads) = ((a.heads / a.kv_heads * cut.n).div_ceil(each), a.kv_heads * cut.sequences);
    let result = cut.result(a);
    let int8 = columns.map_or(0, |c| c.start + (cut.sequence * a.n + cut.first) * Q8::column_bytes(a.heads * a.dv));
    let counters = if cut.parts.is_some() { cx.counters(groups * heads) } else { 0 };
    // `End` of `lib/attention_join.glsl`.
    let end = Params::new().u64(result.start).u64(sinks_of(a)).u64(int8).u64(counters).u32((a.n * a.heads) as u32);
    let end = cx.params(&end);
    let flag = |on: bool, bit: u32| if on { bit } else { 0 };
    // Looking for hidden positions pays off where they are many: in prompts, and in long pieces.
    let skip = a.mask.is_some() && (cut.n > FEW || plan.pieces > 1 && plan.step > 4 * u64::from(WORKGROUP));
    let flags = flag(skip, 8) | flag(cut.parts.is_none(), 32) | flag(columns.is_some(), 64);
    Dispatch {
        shader: "attention_piece",
        spec: spec_of(a, cut, subgroup, each, flags),
        push: push_of(a, cut, cut.parts.map_or(0, |p| p.start), plan.step, end),
        groups: [groups as u32, plan.pieces as u32, heads as u32],
        reads: a.reads.clone(),
        writes: [Some(result), columns, cut.parts].into_iter().flatten().collect(),
        work,
    }
}

fn whole_of(a: &Attention, cut: &Cut, caps: &Caps, work: f64) -> Dispatch {
    let rows = a.heads / a.kv_heads * cut.n;
    let result = cut.result(a);
    let (shader, rows_of_subgroup) =
        if caps.software { ("attention_lane", caps.subgroup) } else { ("attention_tile", 16) };
    // The mask is read by four positions at a time.
    let whole = a.n_kv.is_multiple_of(cut.plan.step.max(4))
        && a.mask.is_some_and(|m| m.address.is_multiple_of(8) && m.nb[1..].iter().all(|nb| nb.is_multiple_of(8)));
    let each = u64::from(cut.plan.workgroup / caps.subgroup * rows_of_subgroup);
    Dispatch {
        shader,
        spec: spec_of(a, cut, caps.subgroup, cut.plan.step, if whole { 16 } else { 0 }),
        push: push_of(a, cut, result.start, a.n * a.heads, sinks_of(a)),
        groups: [rows.div_ceil(each) as u32, 1, (a.kv_heads * cut.sequences) as u32],
        reads: a.reads.clone(),
        writes: vec![result],
        work,
    }
}

#[cfg(test)]
#[path = "attention_tests.rs"]
mod tests;
