//! Activations as int8 blocks, the form that integer products read; `shaders/lib/q8.glsl` describes it.

use super::{Dispatch, Lowering, Push, Reject, Span};
use crate::graph::{Tensor, Type};

/// The name of the form among derived data.
pub const FORM: &str = "q8";

/// Numbers of one block.
pub const BLOCK: u64 = 32;

/// An f32 tensor as int8 blocks: its rows as columns of a product, in the order of their dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Q8 {
    /// All columns.
    pub span: Span,
    /// Bytes from one column to the next.
    pub column: u64,
}

impl Q8 {
    /// Bytes of a column of `k` numbers; mirrors `q8_column` of the shaders.
    pub fn column_bytes(k: u64) -> u64 {
        (k + k / 4).next_multiple_of(16)
    }

    /// Bytes that `t` takes in this form.
    pub fn bytes(t: &Tensor) -> u64 {
        Q8::column_bytes(t.ne[0] as u64) * t.rows() as u64
    }

    /// The columns of `t` that lie in `span`.
    pub fn of(t: &Tensor, span: Span) -> Q8 {
        Q8 { span: Span { start: span.start, len: Q8::bytes(t) }, column: Q8::column_bytes(t.ne[0] as u64) }
    }
}

/// Whether `t` can be quantised: contiguous f32 rows of whole blocks, at most 4 GiB before and after.
pub fn quantizable(t: &Tensor) -> Result<(), Reject> {
    let limit = u64::from(u32::MAX);
    if t.ty != Type::F32 || !t.row_contiguous() || !(t.ne[0] as u64).is_multiple_of(BLOCK) {
        return Err(Reject::Shape(
            "quantize",
            format!("rows of {} {} with {} bytes between", t.ne[0], t.ty.name(), t.nb[0]),
        ));
    }
    if t.elements() == 0 || t.span() > limit || t.nb.iter().any(|nb| !nb.is_multiple_of(4)) {
        return Err(Reject::Shape("quantize", format!("ne {:?} nb {:?}", t.ne, t.nb)));
    }
    Ok(())
}

/// The int8 form of `t`: the one that an earlier dispatch left behind, or a new one.
///
/// # Errors
/// As [`quantizable`]; or `t` lies outside this engine's buffers.
pub fn quantized(t: &Tensor, cx: &mut Lowering) -> Result<Q8, Reject> {
    quantizable(t)?;
    if let Some(span) = cx.derived(t, FORM) {
        return Ok(Q8::of(t, span));
    }
    let src = cx.tensor(t)?;
    let span = cx.scratch(Q8::bytes(t));
    let aligned = src.address.is_multiple_of(16) && t.nb[1..].iter().all(|nb| nb.is_multiple_of(16));
    let blocks = t.ne[0] as u64 / BLOCK;
    let mut push = Push::new().u64(src.address).u64(span.start).u32(blocks as u32);
    for x in src.ne[1..].iter().chain(&src.nb[1..]) {
        push = push.u32(*x);
    }
    let reads = vec![cx.span(t)?];
    cx.push(Dispatch {
        shader: "quantize",
        spec: vec![SIZE],
        push: push.u32(u32::from(aligned)),
        groups: Dispatch::over(blocks * t.rows() as u64 * 8, SIZE),
        reads,
        writes: vec![span],
        work: t.elements() as f64,
    });
    cx.note_derived(t, FORM, span)?;
    Ok(Q8::of(t, span))
}

/// Invocations of a workgroup: small, so that a single column spreads over many processors.
const SIZE: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::vulkan::caps::Caps;

    #[test]
    fn a_tensor_is_quantised_once() {
        let caps = Caps::for_tests();
        let mut cx = Lowering::question(&caps);
        let t = Tensor::new(Type::F32, [96, 3, 2, 1]);
        let first = quantized(&t, &mut cx).unwrap();
        assert_eq!(quantized(&t, &mut cx).unwrap(), first);
        assert_eq!((cx.dispatches.len(), first.column), (1, 128));
        assert_eq!(first.span.len, 128 * 6);
        assert!(quantized(&Tensor::new(Type::F32, [48, 1, 1, 1]), &mut cx).is_err());
    }
}
