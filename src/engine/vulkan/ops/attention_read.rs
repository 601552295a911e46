//! A FLASH_ATTN_EXT node, checked: what its dispatches need.

use super::super::{Lowering, Reject, Span, TensorParams, source, type_list};
use crate::graph::{Node, Tensor, Type};

/// ggml's name of the operation.
pub const OP: &str = "FLASH_ATTN_EXT";

/// Everything about a node that its dispatches need.
pub struct Attention {
    pub q: TensorParams,
    pub k: TensorParams,
    pub v: TensorParams,
    pub mask: Option<TensorParams>,
    pub sinks: Option<TensorParams>,
    pub dst: TensorParams,
    pub reads: Vec<Span>,
    pub dk: u64,
    pub dv: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub n: u64,
    pub n_kv: u64,
    pub sequences: u64,
    pub k_type: u32,
    pub v_type: u32,
    pub scale: f32,
    pub softcap: f32,
    pub max_bias: f32,
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

impl Attention {
    /// Reads and checks a node.
    ///
    /// # Errors
    /// What the shaders do not take, with its numbers.
    pub fn read(node: &Node, cx: &Lowering) -> Result<Attention, Reject> {
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
}
