//! Products with cooperative matrices: f16 x f16 -> f32.
//!
//! Activations beyond the range of f16 (65504) are taken as the largest f16; no model in use has any. Weights are decoded to
//! f16, which rounds them by at most 2^-11 of themselves, twice where a block has a minimum.

use super::matmul::Product;
use super::{Dispatch, Lowering, Push, Reject, Span, TensorParams};
use crate::engine::vulkan::caps::{Caps, MatrixShape};
use crate::graph::{Tensor, Type};

/// What a workgroup computes: `m` x `n` results in parts of `wm` x `wn` for each subgroup, with two invocations for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    /// Rows.
    pub m: u32,
    /// Columns.
    pub n: u32,
    /// Rows of a subgroup.
    pub wm: u32,
    /// Columns of a subgroup.
    pub wn: u32,
}

/// Columns of `k` that a workgroup multiplies in one step.
pub const STEP: u32 = 64;

/// Workgroups of the widest tile that keep a large device busy: one for each of the 132 processors of an H200; of narrower
/// tiles, whose steps have less to do while they wait for loads, twice as many. Vulkan does not tell how many processors
/// there are; too many workgroups cost less than too few.
const WORKGROUPS: u32 = 132;

/// Invocations of a subgroup that the tiles are cut for.
const SUBGROUP: u32 = 32;

/// The name of packed activations among derived data.
const FORM: &str = "f16 columns";

/// ... without columns of zeros.
const GATHERED: &str = "f16 columns to gather";

impl Tile {
    /// Invocations of a workgroup.
    pub fn size(self) -> u32 {
        2 * self.m
    }

    /// Bytes of shared memory: rows of 64 halves with 8 of padding.
    fn shared(self) -> u32 {
        (self.m + self.n) * 144
    }

    /// The tile for a product with so many columns. Its width depends on their number alone, so that products with the
    /// same activations can share the packed form.
    ///
    /// Chosen by measurement on an H200 (Q4_K weights; rows x k = 4096 x 4096, 28672 x 4096 and 4096 x 14336; the best of
    /// all divisions of these sizes): 74 to 96 TFLOPS at 32 columns, 112 to 133 at 64, 146 to 190 at 128, 210 at 512.
    pub fn of(n: u32, shared: u32) -> Tile {
        let tile = match n {
            0..=32 => Tile { m: 128, n: 32, wm: 32, wn: 16 },
            33..=64 => Tile { m: 64, n: 64, wm: 32, wn: 32 },
            _ => Tile { m: 128, n: 128, wm: 64, wn: 32 },
        };
        if tile.shared() <= shared { tile } else { Tile { m: 64, n: 128, wm: 32, wn: 64 } }
    }
}

/// Over how many workgroups each tile's sum is shared out: enough to keep the device busy, and not so many that adding up
/// costs more than it gains. The same measurements: 4096 rows are fastest in 8 parts at 32 columns and in 4 at 64 and 128,
/// 28672 rows undivided.
fn shares(tile: Tile, product: &Product) -> u32 {
    let tiles = product.m.div_ceil(tile.m) * product.n.div_ceil(tile.n) * product.batches;
    let wanted = if tile.n < 128 { 2 * WORKGROUPS } else { WORKGROUPS };
    (wanted / tiles.max(1)).min(product.k.div_ceil(STEP) / 4).clamp(1, 16)
}

/// Whether the device has the matrices that the shader is written for.
pub fn usable(caps: &Caps) -> bool {
    caps.matrix_f16 == Some(MatrixShape { m: 16, n: 16, k: 16 }) && caps.subgroup == SUBGROUP && caps.shared >= 32768
}

/// The shader for these weights.
pub fn shader(ty: Type) -> Option<&'static str> {
    Some(match ty {
        Type::F16 => "matmul_f16",
        Type::Q4_0 => "matmul_q4_0",
        Type::Q4_1 => "matmul_q4_1",
        Type::Q5_0 => "matmul_q5_0",
        Type::Q5_1 => "matmul_q5_1",
        Type::Q8_0 => "matmul_q8_0",
        Type::Q2_K => "matmul_q2_K",
        Type::Q3_K => "matmul_q3_K",
        Type::Q4_K => "matmul_q4_K",
        Type::Q5_K => "matmul_q5_K",
        Type::Q6_K => "matmul_q6_K",
        Type::IQ4_NL => "matmul_iq4_nl",
        Type::IQ4_XS => "matmul_iq4_xs",
        Type::MXFP4 => "matmul_mxfp4",
        _ => return None,
    })
}

/// Lowers a product.
///
/// # Errors
/// No shader for the type of the weights, or more workgroups than a dispatch has.
pub fn lower(product: &Product, cx: &mut Lowering) -> Result<(), Reject> {
    let (a, dst) = (cx.tensor(&product.a)?, cx.tensor(&product.dst)?);
    let shader =
        shader(product.a.ty).ok_or_else(|| Reject::Types("MUL_MAT", format!("{} x f32", product.a.ty.name())))?;
    let tile = Tile::of(product.n, cx.caps.shared);
    let (groups_m, groups_n) = (product.m.div_ceil(tile.m), product.n.div_ceil(tile.n));
    let mut shares = shares(tile, product);
    let bytes = product.dst.elements() as u64 * 4;
    if groups_m > 65535 || groups_n > 65535 || u64::from(product.batches) * u64::from(shares) > 65535 {
        return Err(Reject::Shape("MUL_MAT", format!("{groups_n} x {groups_m} x {} tiles", product.batches)));
    }
    let sums = (shares > 1 && bytes * u64::from(shares) < 1 << 32).then(|| cx.scratch(bytes * u64::from(shares)));
    let packed = pack(&product.b, tile.n, None, cx)?;
    // Both lie in a ring; when it is too small for both, the tiles are not shared out.
    let sums = sums.filter(|s| !s.overlaps(&packed));
    if sums.is_none() {
        shares = 1;
    }
    let to = sums.map_or(dst, |s| whole(s.start, dst.ne));
    let steps = product.k.div_ceil(STEP);
    let per = steps.div_ceil(shares);
    // No workgroup without work: it would have no first step to load.
    let shares = steps.div_ceil(per);
    let column = steps * STEP * 2;
    let aligned = (a.address | product.a.nb[1] | product.a.nb[2] | product.a.nb[3]).is_multiple_of(16);
    let push = Push::new().u64(a.address).u64(packed.start).u64(to.address);
    let push = push.u32(product.m).u32(product.n).u32(product.k);
    let push = push.u32(a.nb[1]).u32(a.nb[2]).u32(a.nb[3]);
    let push = push.u32(column).u32(column * groups_n * tile.n);
    let push = push.u32(to.nb[1]).u32(to.nb[2]).u32(to.nb[3]);
    let push = push.u32(to.ne[2]).u32(product.share[0]).u32(product.share[1]).u32(product.batches);
    let reads = vec![cx.span(&product.a)?, packed];
    let result = cx.span(&product.dst)?;
    cx.push(Dispatch {
        shader,
        spec: vec![tile.size(), tile.m, tile.n, tile.wm, tile.wn, u32::from(aligned)],
        push: push.u32(per).u32(bytes as u32),
        groups: [groups_n, groups_m, product.batches * shares],
        reads,
        writes: vec![sums.unwrap_or(result)],
        work: product.work(),
    });
    if let Some(sums) = sums {
        add(sums, shares, bytes, dst, result, cx);
    }
    Ok(())
}

/// A contiguous f32 tensor at an address.
fn whole(address: u64, ne: [u32; 4]) -> TensorParams {
    let mut nb = [4; 4];
    for i in 1..4 {
        nb[i] = nb[i - 1] * ne[i - 1];
    }
    TensorParams { address, ne, nb }
}

fn tensor(push: Push, t: TensorParams) -> Push {
    t.ne.into_iter().chain(t.nb).fold(push.u64(t.address), Push::u32)
}

/// Bytes of the activations as f16, in columns of whole steps.
pub fn packed_bytes(b: &Tensor, width: u32) -> u64 {
    let columns = (b.ne[1] as u64).next_multiple_of(u64::from(width)) * (b.ne[2] * b.ne[3]) as u64;
    columns * (b.ne[0] as u64).next_multiple_of(u64::from(STEP)) * 2
}

/// The activations as f16 in columns of whole steps, in tiles of `width` columns; 1: for a product that gathers them. They
/// lie in `room`, or where an earlier product left them, or in new scratch memory.
///
/// # Errors
/// More of them than 32 bits count.
pub fn pack(b: &Tensor, width: u32, room: Option<Span>, cx: &mut Lowering) -> Result<Span, Reject> {
    let form = if width == 1 { GATHERED } else { FORM };
    if let (None, Some(span)) = (room, cx.derived(b, form)) {
        return Ok(span);
    }
    let bytes = packed_bytes(b, width);
    // Offsets inside a matrix have 32 bits in the shader, and pieces of 16 bytes are counted in as many.
    if bytes > u64::from(u32::MAX) {
        return Err(Reject::Shape("MUL_MAT", format!("{bytes} bytes of activations")));
    }
    let pieces = bytes / 16;
    let columns = (b.ne[1] as u32).next_multiple_of(width);
    let eights = (b.ne[0] as u32).next_multiple_of(STEP) / 8;
    let from = cx.tensor(b)?;
    let starts = from.address | u64::from(from.nb[1] | from.nb[2] | from.nb[3]);
    let aligned = from.nb[0] == 4 && from.ne[0].is_multiple_of(8) && starts.is_multiple_of(16);
    let span = room.unwrap_or_else(|| cx.scratch(bytes));
    let push = Push::new().u64(span.start).u32(columns).u32(eights).u32(u32::from(aligned)).u32(pieces as u32);
    let reads = vec![cx.span(b)?];
    cx.push(Dispatch {
        shader: "matmul_pack",
        spec: vec![256],
        push: tensor(push, from),
        groups: Dispatch::over(pieces, 256),
        reads,
        writes: vec![span],
        work: pieces as f64 * 8.0,
    });
    cx.note_derived(b, form, span)?;
    Ok(span)
}

/// Adds up what the workgroups that shared a tile left behind.
fn add(sums: Span, shares: u32, bytes: u64, dst: TensorParams, result: Span, cx: &mut Lowering) {
    let push = Push::new().u64(sums.start).u32(shares).u32(bytes as u32);
    cx.push(Dispatch {
        shader: "matmul_sum",
        spec: vec![256],
        push: tensor(push, dst),
        groups: Dispatch::over(bytes / 4, 256),
        reads: vec![sums],
        writes: vec![result],
        work: bytes as f64 / 4.0 * f64::from(shares),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_divided_as_measured() {
        let shares_of = |m: i64, k: i64, n: i64| {
            let (a, b) = (Tensor::new(Type::Q4_K, [k, m, 1, 1]), Tensor::new(Type::F32, [k, n, 1, 1]));
            let dst = Tensor::new(Type::F32, [m, n, 1, 1]);
            let (m, n, k) = (m as u32, n as u32, k as u32);
            let product = Product { a, b, dst, m, n, k, batches: 1, share: [1, 1], precise: false };
            shares(Tile::of(n, 49152), &product)
        };
        assert_eq!([32, 64, 128, 512].map(|n| shares_of(4096, 4096, n)), [8, 4, 4, 1]);
        assert_eq!([32, 64, 128, 512].map(|n| shares_of(4096, 14336, n)), [8, 4, 4, 1]);
        assert_eq!([32, 64, 128, 512].map(|n| shares_of(28672, 4096, n)), [1, 1, 1, 1]);
        // A short sum is not worth dividing.
        assert_eq!(shares_of(128, 256, 32), 1);
    }
}
