//! Rotary position embedding, forward and back.

use super::{Dispatch, Lowering, Push, Reject, expect_types, source};
use crate::graph::{Node, Tensor, Type};
use std::f32::consts::PI;

const MROPE: i32 = 8;
const VISION: i32 = 24;
const MODES: [i32; 5] = [0, 2, MROPE, VISION, 40];

/// Where the rotated rows go instead of the node's own result: f16 rows of a KV cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rows {
    /// The cache: one row holds all heads of a token.
    pub cache: Tensor,
    /// The row of each token, i64.
    pub index: Tensor,
}

/// Lowers a node of this family.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    lower_to(node, None, cx)
}

/// Lowers a ROPE node whose result goes into a KV cache, with the bits of a SET_ROWS that follows it.
///
/// # Errors
/// As [`lower`]; or the cache's rows are not f16 rows of all heads.
pub fn lower_rows(node: &Node, rows: &Rows, cx: &mut Lowering) -> Result<(), Reject> {
    let Rows { cache, index } = rows;
    let [dims, heads, tokens, sequences] = node.dst.ne;
    let fits = node.dst.ty == Type::F32 && cache.ty == Type::F16 && cache.row_contiguous() && sequences == 1;
    let whole = cache.ne[0] == dims * heads && cache.ne[2] * cache.ne[3] == 1;
    if !fits || !whole || index.ty != Type::I64 || !index.contiguous() || index.elements() != tokens {
        return Err(Reject::Shape("ROPE", format!("{:?} to rows of {:?} {}", node.dst.ne, cache.ne, cache.ty.name())));
    }
    lower_to(node, Some(rows), cx)
}

fn lower_to(node: &Node, rows: Option<&Rows>, cx: &mut Lowering) -> Result<(), Reject> {
    let shader = if rows.is_some() {
        "rope_rows"
    } else if node.dst.ty == Type::F16 {
        "rope_f16"
    } else {
        "rope_f32"
    };
    let plain = if node.dst.ty == Type::F16 { Type::F16 } else { Type::F32 };
    expect_types(node, plain, &[plain, Type::I32])?;
    let (x, dst, positions, factors) = (source(node, 0)?, node.dst, source(node, 1)?, node.src[2]);
    let angles = Angles::of(node)?;
    let wanted = dst.ne[2] * if angles.mode & MROPE != 0 { 4 } else { 1 };
    if x.ne != dst.ne || !x.row_contiguous() || !dst.row_contiguous() || dst.elements() > i64::from(u32::MAX) {
        return Err(Reject::Shape(node.op, format!("{:?} to {:?}, strides {:?}", x.ne, dst.ne, x.nb)));
    }
    if positions.ne[0] < wanted || !positions.row_contiguous() {
        return Err(Reject::Shape(node.op, format!("{} positions where {wanted} are wanted", positions.ne[0])));
    }
    let pairs = i64::from(if angles.mode == VISION { angles.dims } else { angles.dims / 2 });
    if let Some(f) = factors.filter(|f| f.ty != Type::F32 || f.ne[0] < pairs || !f.row_contiguous()) {
        return Err(Reject::Shape(node.op, format!("{} {} factors for {pairs} pairs", f.ne[0], f.ty.name())));
    }
    let mut push = Push::new();
    let target = rows.map_or(dst, |r| r.cache);
    for t in [Some(x), Some(target), Some(positions), factors] {
        push = push.u64(t.map_or(Ok(0), |t| cx.address(&t))?);
    }
    let (from, mut to) = (cx.tensor(&x)?, cx.tensor(&dst)?);
    if let Some(r) = rows {
        to.nb = [2, 2 * to.ne[0], cx.tensor(&r.cache)?.nb[1], 0];
    }
    let items = dst.elements() as u64 / 2;
    for x in to.ne[..3].iter().chain([&(items as u32)]).chain(&from.nb[1..]).chain(&to.nb[1..]) {
        push = push.u32(*x);
    }
    let mut reads = vec![cx.span(&x)?, cx.span(&positions)?];
    if let Some(f) = factors {
        reads.push(cx.span(&f)?);
    }
    let mut push = angles.push(push);
    if let Some(r) = rows {
        push = push.u64(cx.address(&r.index)?);
        reads.push(cx.span(&r.index)?);
    }
    let writes = vec![cx.span(&target)?];
    // Small workgroups: a single token's heads then spread over many processors.
    let size = 64.max(cx.caps.subgroup);
    cx.push(Dispatch {
        shader,
        spec: vec![size, angles.mode as u32, u32::from(node.op == "ROPE_BACK"), u32::from(factors.is_some())],
        push,
        groups: Dispatch::over(items, size),
        reads,
        writes,
        work: 100.0 * items as f64,
    });
    Ok(())
}

/// What `op_params` say about the angles.
struct Angles {
    mode: i32,
    dims: i32,
    first: i32,
    sections: u32,
    step: f32,
    scale: f32,
    ext: f32,
    magnitude: f32,
    low: f32,
    high: f32,
}

impl Angles {
    fn of(node: &Node) -> Result<Angles, Reject> {
        let p = &node.params;
        let (dims, mode, context, first, row) = (p[1], p[2], p[4], p[15], node.dst.ne[0]);
        let wrong = |what: String| Err(Reject::Shape(node.op, what));
        if !MODES.contains(&mode) {
            return wrong(format!("mode {mode}"));
        }
        // None at all: so llama.cpp asks, while it loads a model, whether factors may lie in memory of the GPU.
        let fits = dims >= 0 && first >= 0 && i64::from(dims) + i64::from(first) <= row;
        let halves = mode != VISION || (i64::from(dims) * 2 == row && first == 0);
        if !fits || !halves || dims % 2 != 0 || first % 2 != 0 || row % 2 != 0 {
            return wrong(format!("{dims} dimensions from {first} of {row} in mode {mode}"));
        }
        let sections = &p[11..15];
        let total: i64 = sections.iter().map(|s| i64::from(*s)).sum();
        // An empty section before one that is not empty: ggml-cpu then continues an angle instead of starting it.
        let gap = mode == VISION && (0..3).any(|i| sections[i] == 0 && sections[i + 1..].iter().any(|s| *s > 0));
        if mode & MROPE != 0 && (total <= 0 || gap || sections.iter().any(|s| !(0..256).contains(s))) {
            return wrong(format!("sections {sections:?}"));
        }
        let [base, scale, ext, attention, fast, slow] = [5, 6, 7, 8, 9, 10].map(|i| node.param_f32(i));
        // The pair that turns `turns` times within the context that the model was trained for.
        let pair = |turns: f32| dims as f32 * (context as f32 / (turns * 2.0 * PI)).ln() / (2.0 * base.ln());
        Ok(Angles {
            mode,
            dims,
            first,
            sections: sections.iter().rev().fold(0, |all, s| all << 8 | (*s as u32 & 0xff)),
            step: base.powf(-2.0 / dims as f32),
            scale,
            ext,
            magnitude: if ext == 0.0 { attention } else { attention * (1.0 + 0.1 * (1.0 / scale).ln()) },
            low: pair(fast).floor().max(0.0),
            high: pair(slow).ceil().min(dims as f32 - 1.0),
        })
    }

    fn push(&self, push: Push) -> Push {
        let push = push.u32(self.dims as u32).u32(self.first as u32).u32(self.sections);
        [self.step, self.scale, self.ext, self.magnitude, self.low, self.high].into_iter().fold(push, Push::f32)
    }
}

#[cfg(test)]
#[path = "rope_tests.rs"]
mod tests;
