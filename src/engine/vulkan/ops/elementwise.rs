//! Operations that compute each element of the result from the elements at its place.

use super::{Dispatch, Lowering, Params, Push, Reject, expect_types, source};
use crate::graph::{Node, Type};

/// Lowers an element-wise node.
pub fn lower(node: &Node, cx: &mut Lowering) -> Result<(), Reject> {
    if node.op != "SCALE" {
        return Err(Reject::Op(node.op.to_owned()));
    }
    expect_types(node, Type::F32, &[Type::F32])?;
    let a = source(node, 0)?;
    let params = Params::new().tensor(cx.tensor(&node.dst)?).tensor(cx.tensor(&a)?);
    let params = cx.params(&params.f32(node.param_f32(0)).f32(node.param_f32(1)));
    let (reads, writes) = (vec![cx.span(&a)?], vec![cx.span(&node.dst)?]);
    let items = node.dst.elements() as u64;
    cx.push(Dispatch {
        shader: "scale",
        spec: vec![256],
        push: Push::new().u64(params),
        groups: Dispatch::over(items, 256),
        reads,
        writes,
        work: items as f64,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Room, noise};
    use super::*;

    #[test]
    fn scale_multiplies_and_adds() {
        let Some(mut room) = Room::new() else { return };
        let values = noise(1, 7 * 5 * 3);
        let a = room.f32([7, 5, 3, 1], &values);
        let dst = room.empty(Type::F32, [7, 5, 3, 1]);
        let mut node = Node::new("SCALE", dst, &[a]);
        node.params[0] = 2.5_f32.to_bits() as i32;
        node.params[1] = 0.5_f32.to_bits() as i32;
        room.run(&[node]);
        let want: Vec<f32> = values.iter().map(|v| v * 2.5 + 0.5).collect();
        for (w, g) in want.iter().zip(room.values(&dst)) {
            assert!((w - g).abs() <= f32::EPSILON * 4.0, "{w} {g}");
        }
    }
}
