//! From graph nodes to dispatches: which shader, with which numbers, over which memory.
//!
//! Safe and pure code: no Vulkan call, no clock. Whether the GPU can do a node and what it does for it are one function,
//! [`lower`]: asked without memory it answers the first, with memory the second.

mod attention;
mod copies;
pub mod dispatch;
mod elementwise;
mod experts;
mod floatvec;
mod fuse;
mod fuse_gated;
mod fuse_norm;
mod fuse_rope;
mod images;
mod loops;
mod matmul;
mod matmul_experts;
mod matmul_matrix;
mod matmul_tile;
pub mod matvec;
mod norm;
mod places;
mod product;
pub mod quantize;
mod reduce;
mod reject;
mod rope;
mod rows;
pub mod schedule;
mod softmax;
mod sort;

pub use dispatch::{Dispatch, Params, Push, Span};
pub use reject::{Reject, expect_types, source, type_list};

use crate::engine::vulkan::caps::Caps;
use crate::graph::{Node, Tensor, Type};
use std::collections::HashMap;

/// Where host addresses lie for the GPU.
pub trait Place {
    /// The GPU's address of a host address inside a buffer of this engine.
    fn gpu(&self, host: u64) -> Option<u64>;
}

/// Lowering of one run of nodes. Memory that the nodes' own tensors do not have comes from here.
pub struct Lowering<'a> {
    /// What the device can do.
    pub caps: &'a Caps,
    /// `None`: only whether the nodes can be lowered is asked.
    place: Option<&'a dyn Place>,
    /// The dispatches so far, in order.
    pub dispatches: Vec<Dispatch>,
    /// Bytes of parameters; the base of their memory is `params_base`.
    pub params: Vec<u8>,
    params_base: u64,
    scratch_base: u64,
    scratch_used: u64,
    /// Largest use of scratch memory, in bytes.
    pub scratch_peak: u64,
    /// Results that lie in scratch memory instead of their own, by the name of their tensor, until they were read.
    moved: HashMap<u64, Moved>,
    /// Scratch memory of the node that is being lowered; its pieces never overlap.
    taken: Vec<Span>,
    /// Derived data in scratch memory that a later node may use again, by (source address, source shape, what it is).
    derived: HashMap<DerivedKey, Derived>,
    /// Where in `params` the grids of types are.
    grids: HashMap<Type, u64>,
}

type DerivedKey = (u64, [i64; 4], [u64; 4], &'static str);

#[derive(Debug, Clone, Copy)]
struct Moved {
    data: u64,
    to: Span,
}

#[derive(Debug, Clone, Copy)]
struct Derived {
    source: Span,
    result: Span,
}

/// Scratch memory is used round and round: more than this is used only by a graph with a larger single piece.
const SCRATCH_RING: u64 = 64 << 20;

impl<'a> Lowering<'a> {
    /// A lowering that only asks whether nodes can be lowered.
    pub fn question(caps: &'a Caps) -> Lowering<'a> {
        Lowering {
            caps,
            place: None,
            dispatches: Vec::new(),
            params: Vec::new(),
            params_base: 0,
            scratch_base: 0,
            scratch_used: 0,
            scratch_peak: 0,
            moved: HashMap::new(),
            taken: Vec::new(),
            derived: HashMap::new(),
            grids: HashMap::new(),
        }
    }

    /// A lowering with memory: parameters and scratch lie at these GPU addresses.
    pub fn new(caps: &'a Caps, place: &'a dyn Place, params_base: u64, scratch_base: u64) -> Lowering<'a> {
        Lowering { place: Some(place), params_base, scratch_base, ..Lowering::question(caps) }
    }

    /// The GPU address of a tensor; 0 when there is no memory in question.
    ///
    /// # Errors
    /// The tensor lies outside this engine's buffers.
    pub fn address(&self, t: &Tensor) -> Result<u64, Reject> {
        if let Some(moved) = self.moved.get(&t.root) {
            return Ok(moved.to.start + (t.data - moved.data));
        }
        match self.place {
            None => Ok(0),
            Some(place) => place
                .gpu(t.data)
                .ok_or_else(|| Reject::Shape("memory", format!("address {:#x} is in no buffer of the GPU", t.data))),
        }
    }

    /// The bytes of a tensor on the GPU.
    ///
    /// # Errors
    /// As [`Lowering::address`].
    pub fn span(&self, t: &Tensor) -> Result<Span, Reject> {
        Ok(Span { start: self.address(t)?, len: t.span() })
    }

    /// A tensor as `shaders/lib/tensor.glsl` sees it.
    ///
    /// # Errors
    /// The tensor spans 4 GiB or more, or has a dimension or stride beyond 32 bits.
    pub fn tensor(&self, t: &Tensor) -> Result<TensorParams, Reject> {
        if t.span() > u64::from(u32::MAX) {
            return Err(Reject::Shape("tensor", format!("{} bytes; the limit is 4 GiB", t.span())));
        }
        let mut out = TensorParams { address: self.address(t)?, ne: [0; 4], nb: [0; 4] };
        for i in 0..4 {
            out.ne[i] = u32::try_from(t.ne[i]).map_err(|_| {
                Reject::Shape("tensor", format!("dimension {i} has {} elements; the limit is 2^32", t.ne[i]))
            })?;
            // The stride of a dimension of one element is never multiplied by anything but 0.
            out.nb[i] = if t.ne[i] <= 1 { 0 } else { t.nb[i] as u32 };
        }
        out.nb[0] = t.nb[0] as u32;
        Ok(out)
    }

    /// The GPU address of a weight type's grid, for `weight_grid` of `shaders/lib/types.glsl`; 0 for a type without one.
    pub fn grid(&mut self, ty: Type) -> u64 {
        if let Some(address) = self.grids.get(&ty) {
            return *address;
        }
        let Some(bytes) = crate::graph::grids::bytes(ty) else { return 0 };
        let address = self.params(&Params::from(bytes));
        self.grids.insert(ty, address);
        address
    }

    /// Puts parameters into the graph's parameter memory; returns their GPU address, aligned to 16 bytes.
    pub fn params(&mut self, params: &Params) -> u64 {
        let at = self.params.len().next_multiple_of(16);
        self.params.resize(at, 0);
        self.params.extend_from_slice(params.bytes());
        self.params_base + at as u64
    }

    /// `n` counters of 32 bits that are 0 when the recording is made; returns the GPU address of the first. Whoever counts
    /// sets them back to 0, since a recording runs again and again, and no two dispatches share one: it is in no span.
    pub fn counters(&mut self, n: u64) -> u64 {
        self.params(&Params::from(vec![0; 4 * n as usize]))
    }

    /// Scratch memory, aligned to 256 bytes. It stays valid until the ring comes round; use it in the next dispatches.
    pub fn scratch(&mut self, bytes: u64) -> Span {
        let bytes = bytes.next_multiple_of(256);
        if self.scratch_used + bytes > SCRATCH_RING.max(bytes) {
            self.scratch_used = 0;
        }
        let mut span = Span { start: self.scratch_base + self.scratch_used, len: bytes };
        // Results that were not read yet stay where they are, and so does what this node has taken already.
        let kept = |span: &Span| {
            let all = self.moved.values().map(|m| &m.to).chain(&self.taken);
            all.filter(|k| k.overlaps(span)).map(|k| k.start + k.len).max()
        };
        while let Some(end) = kept(&span) {
            span.start = end;
        }
        self.taken.push(span);
        self.scratch_used = span.start - self.scratch_base + bytes;
        self.scratch_peak = self.scratch_peak.max(self.scratch_used);
        self.derived.retain(|_, d| !d.result.overlaps(&span));
        span
    }

    /// Lets the result of a node lie in scratch memory from now on, so that it waits for nobody who still uses its own.
    fn move_result(&mut self, t: &Tensor) {
        if self.place.is_some() {
            let to = self.scratch(t.span());
            self.moved.insert(t.id, Moved { data: t.data, to });
        }
    }

    /// A moved result was read; what comes later at its address is something else.
    fn result_was_read(&mut self, id: u64) {
        self.moved.remove(&id);
    }

    /// Data derived from `source` earlier in this lowering and still valid, such as its int8 form.
    pub fn derived(&self, source: &Tensor, what: &'static str) -> Option<Span> {
        let address = self.address(source).ok()?;
        self.derived.get(&(address, source.ne, source.nb, what)).map(|d| d.result)
    }

    /// Notes that `result` holds `what` of `source`, until either is overwritten.
    ///
    /// # Errors
    /// As [`Lowering::address`].
    pub fn note_derived(&mut self, source: &Tensor, what: &'static str, result: Span) -> Result<(), Reject> {
        let span = self.span(source)?;
        self.derived.insert((span.start, source.ne, source.nb, what), Derived { source: span, result });
        Ok(())
    }

    /// Adds a dispatch.
    pub fn push(&mut self, dispatch: Dispatch) {
        if self.place.is_some() {
            self.derived.retain(|_, d| !dispatch.writes.iter().any(|w| w.overlaps(&d.source)));
        }
        self.dispatches.push(dispatch);
    }
}

/// Mirrors `Tensor` of `shaders/lib/tensor.glsl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorParams {
    /// GPU address of the first byte.
    pub address: u64,
    /// Elements.
    pub ne: [u32; 4],
    /// Bytes from one to the next.
    pub nb: [u32; 4],
}

/// Whether the GPU computes this node, by lowering it without memory.
///
/// # Errors
/// Why not.
pub fn supports(node: &Node, caps: &Caps) -> Result<(), Reject> {
    lower(node, &mut Lowering::question(caps))
}

/// Lowers one node.
///
/// # Errors
/// Why the GPU does not compute it; the lowering then has no dispatch of it.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    if !node.compute || node.dst.elements() == 0 {
        return Ok(());
    }
    let before = cx.dispatches.len();
    cx.taken.clear();
    let result = match node.op {
        "GET_ROWS" | "SET_ROWS" | "CPY" | "DUP" | "CONT" | "REPEAT" | "CONCAT" | "PAD" | "ROLL" | "TRI" | "DIAG"
        | "ACC" | "SET" | "FILL" | "ARANGE" | "UPSCALE" | "IM2COL" => copies::lower(node, cx),
        "SUM_ROWS" | "SUM" | "MEAN" | "CUMSUM" | "ARGMAX" | "ARGSORT" | "TOP_K" => reduce::lower(node, cx),
        "RMS_NORM" | "NORM" | "L2_NORM" | "GROUP_NORM" => norm::lower(node, cx),
        "ROPE" | "ROPE_BACK" => rope::lower(node, cx),
        "SOFT_MAX" => softmax::lower(node, cx),
        "FLASH_ATTN_EXT" => attention::lower(node, cx),
        "MUL_MAT" | "MUL_MAT_ID" => product::lower(node, cx),
        // Tests of float products must not depend on when `product` prefers others.
        #[cfg(test)]
        op if op.starts_with("float ") => floatvec::lower(&Node { op: &op[6..], ..*node }, cx),
        _ => elementwise::lower(node, cx),
    };
    if result.is_err() {
        cx.dispatches.truncate(before);
    }
    result
}

/// Lowers a run of nodes: those that belong together in one dispatch where there is a shader for it.
///
/// # Errors
/// The first node that the GPU does not compute.
pub fn lower_all(nodes: &[Node], cx: &mut Lowering) -> Result<(), Reject> {
    let items = fuse::items(nodes, cx.caps);
    let mut readers: HashMap<usize, Vec<u64>> = HashMap::new();
    for item in &items {
        if let Some((tensor, reader)) = fuse::movable_result(item, nodes, &items) {
            cx.move_result(&tensor);
            readers.entry(reader).or_default().push(tensor.id);
        }
        fuse::lower(item, nodes, cx)?;
        for id in readers.remove(&item.place()).unwrap_or_default() {
            cx.result_was_read(id);
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "lowering_tests.rs"]
mod tests;
