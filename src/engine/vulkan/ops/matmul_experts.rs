//! MUL_MAT_ID of many tokens: the columns that meet one expert are multiplied together, as in matmul.rs.
//!
//! A pair is one use of an expert by a token. A first dispatch sorts the pairs by expert into tiles; the product gathers the
//! activations of each pair and scatters its results.

use super::dispatch::MAX_GROUPS;
use super::matmul_matrix::{self, Tile};
use super::quantize::{Q8, quantizable, quantized};
use super::{Dispatch, Lowering, Push, Reject, SCRATCH_RING, Span, matmul_tile, source, type_list};
use crate::graph::{Node, Tensor, Type};

/// The fewest tokens: fewer are decoding, of which column j is to have the same bits at every width.
const TOKENS: u64 = 32;

/// The fewest pairs for each expert: with fewer, most of a tile is empty.
const PAIRS: u64 = 4;

/// The most experts, of which the first dispatch counts the uses in shared memory.
const EXPERTS: u64 = 4096;

/// Invocations of a workgroup that sorts.
const SORTERS: u32 = 256;

/// The name of the sorted pairs among derived data; the tensor that they are noted under has the rest of the key.
const FORM: &str = "tiles of experts";

/// A product that was looked at: `dst[token][use][m] = sum over k of a[expert][m][k] * b[token][use][k]`.
#[derive(Debug, Clone, Copy)]
struct Product {
    a: Tensor,
    b: Tensor,
    ids: Tensor,
    dst: Tensor,
    m: u32,
    k: u32,
    experts: u32,
    /// Experts that a token uses.
    used: u32,
    pairs: u32,
    /// So many pairs of a token share their activations: all or none.
    together: u32,
}

impl Product {
    fn of(node: &Node) -> Result<Product, Reject> {
        let (a, b, ids, dst) = (source(node, 0)?, source(node, 1)?, source(node, 2)?, node.dst);
        let shape = |what: &str| {
            Err(Reject::Shape("MUL_MAT_ID", format!("{what}: {:?} x {:?} by ids {:?}", a.ne, b.ne, ids.ne)))
        };
        if node.op != "MUL_MAT_ID" {
            return Err(Reject::Op(node.op.to_owned()));
        }
        if b.ty != Type::F32 || dst.ty != Type::F32 || ids.ty != Type::I32 {
            return Err(Reject::Types("MUL_MAT_ID", type_list(node)));
        }
        let [used, tokens, ..] = ids.ne;
        let fits = ids.ne[2] * ids.ne[3] == 1
            && dst.ne == [a.ne[1], used, tokens, 1]
            && (b.ne[1] == 1 || b.ne[1] == used)
            && [b.ne[0], b.ne[2], b.ne[3], a.ne[3]] == [a.ne[0], tokens, 1, 1];
        if !fits || a.elements() == 0 || b.elements() == 0 || !(a.ne[0] as u64).is_multiple_of(a.ty.block()) {
            return shape("no matrix product");
        }
        let (experts, pairs) = (a.ne[2] as u64, (used * tokens) as u64);
        if (tokens as u64) < TOKENS || pairs < PAIRS * experts || experts > EXPERTS {
            return shape("few columns for each expert");
        }
        let words = |t: &Tensor| t.nb.iter().all(|nb| nb.is_multiple_of(4));
        if !a.row_contiguous() || dst.nb[0] != 4 || !words(&dst) || !words(&b) || !words(&ids) {
            let strides = [a.nb, b.nb, ids.nb, dst.nb];
            return Err(Reject::Shape("MUL_MAT_ID", format!("strides {strides:?}")));
        }
        // Matrices are at 64-bit distances from the first; nothing else is larger than what 32 bits count.
        let matrix = Tensor { ne: [a.ne[0], a.ne[1], 1, 1], ..a };
        let large = [matrix.span(), a.nb[2], b.span(), ids.span(), dst.span()];
        if large.iter().any(|s| *s > u64::from(u32::MAX)) {
            return shape("more than 4 GiB");
        }
        Ok(Product {
            a,
            b,
            ids,
            dst,
            m: a.ne[1] as u32,
            k: a.ne[0] as u32,
            experts: experts as u32,
            used: used as u32,
            pairs: pairs as u32,
            together: if b.ne[1] == 1 { used as u32 } else { 1 },
        })
    }
}

/// Lowers a MUL_MAT_ID of many tokens.
///
/// # Errors
/// Few tokens; weights without a shader; or a request for f32 precision.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    let product = Product::of(node)?;
    if node.params[0] == super::matmul::PRECISE {
        return Err(Reject::Shape("MUL_MAT_ID", "f32 precision is asked for".to_owned()));
    }
    if matmul_matrix::usable(cx.caps) { by_matrix(&product, cx) } else { by_tile(&product, cx) }
}

/// With cooperative matrices.
fn by_matrix(product: &Product, cx: &mut Lowering) -> Result<(), Reject> {
    let shader = shader_of(product, matmul_matrix::shader)?;
    let tile = Tile::of(product.pairs.div_ceil(product.experts), cx.caps.shared);
    let groups = Groups::new(product, tile.n, tile.m)?;
    let packed = matmul_matrix::packed_bytes(&product.b, 1).next_multiple_of(256);
    let (sorted, columns) = if packed + groups.bytes() > SCRATCH_RING {
        let room = cx.scratch(packed + groups.bytes());
        let sorted = Span { start: room.start + packed, len: groups.bytes() };
        let columns = Span { start: room.start, len: packed };
        (groups.sort(product, Some(sorted), cx)?, matmul_matrix::pack(&product.b, 1, Some(columns), cx)?)
    } else {
        groups.beside(product, cx, |cx| matmul_matrix::pack(&product.b, 1, None, cx))?
    };
    let steps = product.k.div_ceil(matmul_matrix::STEP);
    let column = steps * matmul_matrix::STEP * 2;
    let (address, a, to) = (cx.address(&product.a)?, strides(&product.a), strides(&product.dst));
    let aligned = (address | u64::from(a[1] | a[2])).is_multiple_of(16);
    let push = Push::new().u64(address).u64(columns.start).u64(cx.address(&product.dst)?);
    let numbers = [product.m, product.pairs, product.k, a[1], a[2], 0, column, 0, to[1], to[2], 0];
    let push = numbers.into_iter().chain([1, 1, 1, 1, steps, 0]).fold(push, Push::u32);
    let spec = vec![tile.size(), tile.m, tile.n, tile.wm, tile.wn, u32::from(aligned), 1];
    multiply(product, groups, [sorted, columns], (shader, spec, push), cx)
}

/// With tiles of integer dot products or floats.
fn by_tile(product: &Product, cx: &mut Lowering) -> Result<(), Reject> {
    let subgroup = cx.caps.subgroup;
    let refuse = |what: String| Err(Reject::Shape("MUL_MAT_ID", what));
    if !matmul_tile::usable(subgroup) || product.b.nb[0] != 4 {
        return refuse(format!("strides {:?}, subgroups of {subgroup}", product.b.nb));
    }
    let (width, size) = (matmul_tile::columns(subgroup), matmul_tile::size(subgroup));
    let groups = Groups::new(product, width, size * matmul_tile::rows(product.a.ty, cx.caps))?;
    let (shader, sorted, columns, start, column) = match matmul_tile::dot_shader(product.a.ty) {
        Some(shader) if cx.caps.dot => {
            quantizable(&product.b)?;
            let bytes = Q8::bytes(&product.b).next_multiple_of(256) + groups.bytes();
            if bytes > SCRATCH_RING {
                return refuse(format!("{bytes} bytes of activations"));
            }
            let (sorted, q8) = groups.beside(product, cx, |cx| quantized(&product.b, cx).map(|q8| q8.span))?;
            (shader, sorted, q8, q8.start, Q8::column_bytes(u64::from(product.k)) as u32)
        }
        _ => {
            let shader = shader_of(product, matmul_tile::float_shader)?;
            let [_, uses, tokens, _] = strides(&product.b);
            let shared = product.b.ne[1] == 1;
            if !shared && product.b.ne[2] > 1 && tokens != uses * product.used {
                return refuse(format!("strides {:?} of activations", product.b.nb));
            }
            let columns = cx.span(&product.b)?;
            let column = if shared { tokens } else { uses };
            (shader, groups.sort(product, None, cx)?, columns, columns.start, column)
        }
    };
    let (a, to) = (strides(&product.a), strides(&product.dst));
    let push = Push::new().u64(cx.address(&product.a)?).u64(start).u64(cx.address(&product.dst)?);
    let numbers = [product.m, product.pairs, product.k, a[1], a[2], 0, column, 0, 0, to[1], to[2], 0];
    let push = numbers.into_iter().chain([1, 1, 1]).fold(push, Push::u32);
    multiply(product, groups, [sorted, columns], (shader, vec![size, subgroup, width, 1], push), cx)
}

fn shader_of(product: &Product, of: fn(Type) -> Option<&'static str>) -> Result<&'static str, Reject> {
    of(product.a.ty).ok_or_else(|| Reject::Types("MUL_MAT_ID", format!("{} x f32", product.a.ty.name())))
}

/// Strides as shaders take them; each fits.
fn strides(t: &Tensor) -> [u32; 4] {
    std::array::from_fn(|i| if i > 0 && t.ne[i] <= 1 { 0 } else { t.nb[i] as u32 })
}

/// The product itself, over the sorted pairs and the activations: a workgroup for each tile.
fn multiply(
    product: &Product,
    groups: Groups,
    [sorted, columns]: [Span; 2],
    (shader, spec, push): (&'static str, Vec<u32>, Push),
    cx: &mut Lowering,
) -> Result<(), Reject> {
    let push = push.u64(sorted.start).u64(sorted.start + u64::from(groups.tiles) * 16);
    let reads = vec![cx.span(&product.a)?, columns, sorted];
    let writes = vec![cx.span(&product.dst)?];
    cx.push(Dispatch {
        shader,
        spec,
        push: push.u32(product.used).u32(product.together),
        groups: [groups.tiles, groups.rows, 1],
        reads,
        writes,
        work: 2.0 * f64::from(product.m) * f64::from(product.k) * f64::from(product.pairs),
    });
    Ok(())
}

/// How the pairs are cut into tiles; `shaders/lib/matmul_experts.glsl` has their form.
#[derive(Debug, Clone, Copy)]
struct Groups {
    /// Pairs of a tile.
    width: u32,
    /// The most tiles that there can be.
    tiles: u32,
    /// Tiles for all rows of weights.
    rows: u32,
    pairs: u32,
}

impl Groups {
    /// Tiles of `width` pairs and `height` rows.
    fn new(product: &Product, width: u32, height: u32) -> Result<Groups, Reject> {
        // Each expert, and the one for all that do not exist, can end with a tile that is not full.
        let tiles = product.pairs / width + product.pairs.min(product.experts + 1);
        let rows = product.m.div_ceil(height);
        if tiles > MAX_GROUPS || rows > MAX_GROUPS {
            return Err(Reject::Shape("MUL_MAT_ID", format!("{tiles} x {rows} tiles")));
        }
        Ok(Groups { width, tiles, rows, pairs: product.pairs })
    }

    fn bytes(self) -> u64 {
        u64::from(self.tiles) * 16 + u64::from(self.pairs) * 4
    }

    /// The sorted pairs and what `other` makes in scratch memory, which together fit into its ring: what is made first can
    /// be overwritten by the second, but then lies behind it at the next attempt.
    fn beside(
        self,
        product: &Product,
        cx: &mut Lowering,
        other: impl Fn(&mut Lowering) -> Result<Span, Reject>,
    ) -> Result<(Span, Span), Reject> {
        self.sort(product, None, cx)?;
        let other = other(cx)?;
        Ok((self.sort(product, None, cx)?, other))
    }

    /// Sorts the pairs, once for all products with the same ids: in `room`, or where they are already, or in new scratch
    /// memory.
    fn sort(self, product: &Product, room: Option<Span>, cx: &mut Lowering) -> Result<Span, Reject> {
        // The memory of the ids, repeated at no distance: what says that it was overwritten, under a key of its own.
        let mut key = product.ids;
        (key.ne[2], key.ne[3]) = (i64::from(self.width), i64::from(product.experts));
        (key.nb[2], key.nb[3]) = (0, 0);
        if let (None, Some(span)) = (room, cx.derived(&key, FORM)) {
            return Ok(span);
        }
        let span = room.unwrap_or_else(|| cx.scratch(self.bytes()));
        let nb = strides(&product.ids);
        let push = Push::new().u64(cx.address(&product.ids)?).u64(span.start);
        let push = push.u64(span.start + u64::from(self.tiles) * 16);
        let numbers = [product.used, product.pairs, nb[0], nb[1], self.width, self.tiles];
        let reads = vec![cx.span(&product.ids)?];
        cx.push(Dispatch {
            shader: "matmul_group",
            spec: vec![SORTERS, product.experts],
            push: numbers.into_iter().fold(push, Push::u32),
            groups: [product.experts + 1, 1, 1],
            reads,
            writes: vec![span],
            work: f64::from(product.pairs) * f64::from(product.experts),
        });
        cx.note_derived(&key, FORM, span)?;
        Ok(span)
    }
}

#[cfg(test)]
#[path = "matmul_experts_tests.rs"]
mod tests;
