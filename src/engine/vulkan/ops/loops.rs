//! The loop over the elements of a result, with as few dimensions as the strides allow.

use super::{Lowering, Push, Reject, TensorParams};
use crate::graph::{Tensor, Type};

/// The invocations of a workgroup of these shaders.
pub const GROUP: u32 = 256;

/// A result and its sources as one loop sees them.
#[derive(Debug, Clone, PartialEq)]
pub struct Loop {
    /// The result, then the sources. A source's dimension that is repeated from one element has the stride 0.
    pub tensors: Vec<TensorParams>,
    /// The dimensions that have more than one element come first; there are this many, at least 1.
    pub dims: u32,
    /// Whether a source has fewer elements in a dimension than the result and yet more than one.
    pub repeats: bool,
}

/// The code of a type of plain numbers in `shaders/lib/plain.glsl`.
pub fn plain(ty: Type) -> Option<u32> {
    match ty {
        Type::F32 => Some(0),
        Type::F16 => Some(1),
        Type::BF16 => Some(2),
        _ => None,
    }
}

impl Loop {
    /// The tensors as push constants.
    pub fn push(&self) -> Push {
        push(&self.tensors)
    }
}

/// Tensors as push constants.
pub fn push(tensors: &[TensorParams]) -> Push {
    tensors
        .iter()
        .fold(Push::new(), |push, t| t.ne.iter().chain(&t.nb).fold(push.u64(t.address), |push, x| push.u32(*x)))
}

/// The loop over `dst` with sources that have its shape or can be repeated to it.
///
/// # Errors
/// A source cannot be repeated to the result, or [`Lowering::tensor`] refuses one.
pub fn over(op: &'static str, cx: &Lowering, dst: &Tensor, sources: &[Tensor]) -> Result<Loop, Reject> {
    let mut tensors = vec![cx.tensor(dst)?];
    let mut repeats = false;
    for source in sources {
        let mut t = cx.tensor(source)?;
        for (i, &n) in tensors[0].ne.iter().enumerate() {
            if t.ne[i] == 1 {
                t.nb[i] = 0;
            } else if t.ne[i] == 0 || !n.is_multiple_of(t.ne[i]) {
                return Err(Reject::Shape(op, format!("{:?} cannot be repeated to {:?}", source.ne, dst.ne)));
            }
            repeats |= t.ne[i] != 1 && t.ne[i] != n;
        }
        tensors.push(t);
    }
    let dims = if repeats { 4 } else { join(&mut tensors) };
    Ok(Loop { tensors, dims, repeats })
}

/// Joins dimensions that every tensor steps through evenly and drops those of one element. Returns how many are left.
fn join(tensors: &mut [TensorParams]) -> u32 {
    let shape = tensors[0].ne;
    let mut ne = [1; 4];
    let mut used: usize = 0;
    for (i, &n) in shape.iter().enumerate().filter(|(_, n)| **n > 1) {
        let last = used.wrapping_sub(1);
        let even = |t: &TensorParams| u64::from(t.nb[i]) == u64::from(t.nb[last]) * u64::from(ne[last]);
        if used > 0 && tensors.iter().all(even) {
            ne[last] *= n;
            continue;
        }
        for t in tensors.iter_mut() {
            t.nb[used] = t.nb[i];
        }
        ne[used] = n;
        used += 1;
    }
    for t in tensors.iter_mut() {
        t.ne = ne;
    }
    used.max(1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::vulkan::caps::Caps;

    fn joined(dst: Tensor, sources: &[Tensor]) -> (u32, [u32; 4], bool) {
        let caps = Caps::for_tests();
        let l = over("TEST", &Lowering::question(&caps), &dst, sources).unwrap();
        (l.dims, l.tensors[0].ne, l.repeats)
    }

    #[test]
    fn even_dimensions_are_joined() {
        let a = Tensor::new(Type::F32, [5, 1, 7, 3]);
        assert_eq!(joined(a, &[a]), (1, [105, 1, 1, 1], false));
        let row = Tensor::new(Type::F32, [5, 1, 1, 1]);
        assert_eq!(joined(a, &[a, row]), (2, [5, 21, 1, 1], false));
        let one = Tensor::new(Type::F32, [1; 4]);
        assert_eq!(joined(one, &[one]), (1, [1; 4], false));
        assert_eq!(joined(a, &[one]), (1, [105, 1, 1, 1], false));
        let mut view = a;
        view.nb[2] += 4;
        assert_eq!(joined(a, &[view]), (3, [5, 7, 3, 1], false));
        let half = Tensor::new(Type::F32, [5, 1, 7, 3]);
        assert_eq!(joined(Tensor::new(Type::F32, [10, 1, 7, 3]), &[half]), (4, [10, 1, 7, 3], true));
    }

    #[test]
    fn what_cannot_be_repeated_is_refused() {
        let caps = Caps::for_tests();
        let (a, b) = (Tensor::new(Type::F32, [5, 2, 1, 1]), Tensor::new(Type::F32, [5, 3, 1, 1]));
        assert!(over("TEST", &Lowering::question(&caps), &a, &[b]).is_err());
    }
}
