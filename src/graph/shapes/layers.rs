//! The layers, in the words of llama.cpp's `llama-graph.cpp` and `models/*.cpp`.

use super::tape::{Ref, Tape};
use super::{CHECKED, Layer, Model, Style};
use crate::graph::Type;

/// `GGML_PREC_F32` in ggml 0.26.
const PREC_F32: i32 = 10;
/// `GGML_GLU_OP_GEGLU` and `GGML_GLU_OP_SWIGLU`.
const GEGLU: i32 = 1;
const SWIGLU: i32 = 2;

/// What the layers share: inputs and sizes.
struct Build<'a> {
    model: &'a Model,
    tape: &'a mut Tape,
    width: i64,
    positions: Ref,
    indices: Ref,
    factors: Option<Ref>,
}

/// One kind of KV cache: all positions, or a window.
#[derive(Clone, Copy)]
struct Seen {
    length: i64,
    mask: Ref,
}

/// Puts the whole graph on the tape.
pub fn build(model: &Model, tape: &mut Tape, width: i64, kv: i64) {
    let positions = tape.leaf(Type::I32, [width, 1, 1, 1]);
    let indices = tape.leaf(Type::I64, [width, 1, 1, 1]);
    let factors = model.rope_factors.then(|| tape.leaf(Type::F32, [model.head as i64 / 2, 1, 1, 1]));
    let mut seen = |length: i64| Seen { length, mask: tape.leaf(Type::F16, [length, width, 1, 1]) };
    let all = seen(kv);
    // llama.cpp keeps room for the pass beside the window and rounds up to 256.
    let near = model.window.map(|w| seen(kv.min((w.tokens + 512).next_multiple_of(256) as i64)));
    let outputs = if width as u64 <= CHECKED { width } else { 1 };
    let output_ids = tape.leaf(Type::I32, [outputs, 1, 1, 1]);
    let e = model.embedding as i64;
    let mut x = tape.leaf(Type::F32, [e, width, 1, 1]);
    if model.style == Style::Gemma3 {
        let scale = tape.leaf(Type::F32, [1, width, 1, 1]);
        x = tape.node("MUL", [e, width, 1, 1], &[x, scale]);
        tape.expand(x);
    }
    let mut b = Build { model, tape, width, positions, indices, factors };
    for (i, layer) in model.layers.iter().enumerate() {
        let whole = model.window.is_none_or(|w| (i + 1) % w.period.max(1) == 0);
        let mut attended = b.attention(layer, x, near.filter(|_| !whole).unwrap_or(all));
        if i + 1 == model.layers.len() {
            attended = b.tape.node("GET_ROWS", [e, outputs, 1, 1], &[attended, output_ids]);
            x = b.tape.node("GET_ROWS", [e, outputs, 1, 1], &[x, output_ids]);
        }
        if model.style == Style::Gemma3 {
            attended = b.norm(attended);
        }
        let middle = b.binary("ADD", attended, x);
        let normed = b.norm(middle);
        let mut fed = if model.experts.is_some() { b.experts(layer, normed) } else { b.feed_forward(layer, normed) };
        if model.style == Style::Gemma3 {
            fed = b.norm(fed);
        }
        x = b.binary("ADD", fed, middle);
    }
    let normed = b.norm(x);
    let logits = b.weigh(model.output, model.vocabulary, normed);
    b.tape.edit(logits).output = true;
    b.tape.expand(logits);
}

impl Build<'_> {
    fn binary(&mut self, op: &'static str, a: Ref, b: Ref) -> Ref {
        let ne = self.tape.tensor(a).ne;
        self.tape.node(op, ne, &[a, b])
    }

    /// RMS_NORM and its weight.
    fn norm(&mut self, x: Ref) -> Ref {
        let ne = self.tape.tensor(x).ne;
        let normed = self.tape.node("RMS_NORM", ne, &[x]);
        self.tape.edit(normed).params[0] = 1e-5_f32.to_bits() as i32;
        let weight = self.tape.leaf(Type::F32, [ne[0], 1, 1, 1]);
        self.binary("MUL", normed, weight)
    }

    fn weigh(&mut self, ty: Type, rows: u64, x: Ref) -> Ref {
        let k = self.tape.tensor(x).ne[0];
        let weight = self.tape.leaf(ty, [k, rows as i64, 1, 1]);
        self.tape.product(weight, x)
    }

    /// A product for Q, K or V, cut in heads.
    fn project(&mut self, ty: Type, heads: u64, x: Ref) -> Ref {
        let rows = heads * self.model.head;
        let mut y = self.weigh(ty, rows, x);
        if self.model.style == Style::Qwen2 {
            let bias = self.tape.leaf(Type::F32, [rows as i64, 1, 1, 1]);
            y = self.binary("ADD", y, bias);
        }
        self.tape.reshape(y, [self.model.head as i64, heads as i64, self.width, 1])
    }

    fn rotate(&mut self, x: Ref) -> Ref {
        let x = if self.model.style.head_norm() { self.norm(x) } else { x };
        let ne = self.tape.tensor(x).ne;
        let sources: Vec<_> = [x, self.positions].into_iter().chain(self.factors).collect();
        let y = self.tape.node("ROPE", ne, &sources);
        let params = &mut self.tape.edit(y).params;
        params[1] = ne[0] as i32;
        params[2] = self.model.style.rope();
        // Base and scale of frequencies, extension, attention, and YaRN's two bounds.
        for (place, value) in params[5..].iter_mut().zip([500_000.0_f32, 1.0, 0.0, 1.0, 32.0, 1.0]) {
            *place = value.to_bits() as i32;
        }
        y
    }

    /// Writes rows of K or V into their cache and gives what attention sees of it.
    fn store(&mut self, cache: Ref, rows: Ref) {
        let rows_t = self.tape.tensor(rows);
        let ne = [rows_t.ne[0] * rows_t.ne[1], self.width, 1, 1];
        let nb = [rows_t.nb[0], rows_t.nb[2], rows_t.nb[2] * self.width as u64, rows_t.nb[2] * self.width as u64];
        let flat = self.tape.view("VIEW", rows, ne, nb);
        let stored = self.tape.set_rows(cache, flat, self.indices);
        self.tape.expand(stored);
    }

    fn look(&mut self, cache: Ref, length: i64) -> Ref {
        let (m, t) = (self.model, self.tape.tensor(cache));
        let ne = [m.head as i64, m.kv_heads as i64, length, 1];
        let view = self.tape.view("VIEW", cache, ne, [t.nb[0], m.head * 2, t.nb[1], t.nb[2]]);
        self.tape.permute(view)
    }

    fn attention(&mut self, layer: &Layer, x: Ref, seen: Seen) -> Ref {
        let (m, normed) = (self.model, self.norm(x));
        let q = self.project(layer.q, m.heads, normed);
        let k = self.project(layer.k, m.kv_heads, normed);
        let v = self.project(layer.v, m.kv_heads, normed);
        let (mut q, k) = (self.rotate(q), self.rotate(k));
        if m.style == Style::Gemma3 {
            let ne = self.tape.tensor(q).ne;
            q = self.tape.node("SCALE", ne, &[q]);
            self.tape.edit(q).params[0] = (1.0 / (m.head as f32).sqrt()).to_bits() as i32;
        }
        [q, v, k].into_iter().for_each(|r| self.tape.expand(r));
        let row = (m.head * m.kv_heads) as i64;
        let caches = [(); 2].map(|()| self.tape.leaf(Type::F16, [row, seen.length, 1, 1]));
        self.store(caches[0], k);
        self.store(caches[1], v);
        let q_t = self.tape.tensor(q);
        let q = self.tape.view("VIEW", q, q_t.ne, q_t.nb);
        let q = self.tape.permute(q);
        let [k, v] = caches.map(|c| self.look(c, seen.length));
        let heads = [m.head as i64, m.heads as i64, self.width, 1];
        let y = self.tape.node("FLASH_ATTN_EXT", heads, &[q, k, v, seen.mask]);
        let params = &mut self.tape.edit(y).params;
        params[0] = (1.0 / (m.head as f32).sqrt()).to_bits() as i32;
        params[3] = PREC_F32;
        let y = self.tape.reshape(y, [heads[0] * heads[1], self.width, 1, 1]);
        self.weigh(layer.o, m.embedding, y)
    }

    fn gated(&mut self, gate: Ref, up: Ref) -> Ref {
        let y = self.binary("GLU", gate, up);
        let gelu = self.model.style == Style::Gemma3;
        let node = self.tape.edit(y);
        (node.sub, node.params[0]) = if gelu { ("GEGLU", GEGLU) } else { ("SWIGLU", SWIGLU) };
        y
    }

    fn feed_forward(&mut self, layer: &Layer, x: Ref) -> Ref {
        let gate = self.weigh(layer.gate, self.model.ff, x);
        let up = self.weigh(layer.up, self.model.ff, x);
        let y = self.gated(gate, up);
        self.weigh(layer.down, self.model.embedding, y)
    }

    fn experts(&mut self, layer: &Layer, x: Ref) -> Ref {
        let Some(experts) = self.model.experts else { return x };
        let (count, used) = (experts.count as i64, experts.used as i64);
        let (e, ff) = (self.model.embedding as i64, self.model.ff as i64);
        let n = self.tape.tensor(x).ne[1];
        let logits = self.weigh(Type::F32, experts.count, x);
        let shares = self.tape.node("SOFT_MAX", [count, n, 1, 1], &[logits]);
        self.tape.edit(shares).params[0] = 1.0_f32.to_bits() as i32;
        let order = self.tape.node("ARGSORT", [count, n, 1, 1], &[shares]);
        let node = self.tape.edit(order);
        (node.dst.ty, node.params[0]) = (Type::I32, 1);
        let order_t = self.tape.tensor(order);
        let chosen = self.tape.view("VIEW", order, [used, n, 1, 1], order_t.nb);
        let columns = self.tape.reshape(shares, [1, count, n, 1]);
        let weights = self.tape.node("GET_ROWS", [1, used, n, 1], &[columns, chosen]);
        let weights = self.tape.reshape(weights, [used, n, 1, 1]);
        let sums = self.tape.node("SUM_ROWS", [1, n, 1, 1], &[weights]);
        let sums = self.tape.node("CLAMP", [1, n, 1, 1], &[sums]);
        let limits = [6.103_515_6e-5_f32, f32::INFINITY];
        self.tape.edit(sums).params[..2].copy_from_slice(&limits.map(|l| l.to_bits() as i32));
        let weights = self.binary("DIV", weights, sums);
        let weights = self.tape.reshape(weights, [1, used, n, 1]);
        self.tape.expand(weights);
        let x = self.tape.reshape(x, [e, 1, n, 1]);
        let mut by_expert = |ty, rows, columns, x| {
            let stack = self.tape.leaf(ty, [columns, rows, count, 1]);
            self.tape.product_by_expert(stack, x, chosen)
        };
        let up = by_expert(layer.up, ff, e, x);
        let gate = by_expert(layer.gate, ff, e, x);
        let hidden = self.gated(gate, up);
        let stack = self.tape.leaf(layer.down, [ff, e, count, 1]);
        let outs = self.tape.product_by_expert(stack, hidden, chosen);
        let outs = self.binary("MUL", outs, weights);
        self.tape.expand(outs);
        let nb = self.tape.tensor(outs).nb;
        let each = [nb[0], nb[2], nb[2] * n as u64, nb[2] * n as u64];
        let views: Vec<_> = (0..used).map(|_| self.tape.view("VIEW", outs, [e, n, 1, 1], each)).collect();
        views.iter().for_each(|v| self.tape.expand(*v));
        let add = |sum, next: &Ref| {
            let sum = self.binary("ADD", sum, *next);
            self.tape.expand(sum);
            sum
        };
        views[1..].iter().fold(views[0], add)
    }
}
