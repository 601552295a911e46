//! MUL_MAT_ID of many tokens against sums of f64.

use super::*;
use crate::engine::vulkan::caps::{Caps, MatrixShape};
use crate::engine::vulkan::testing::{Room, nmse, noise};
use crate::graph::reference::product::mul_mat_id;
use crate::graph::reference::quant::sample;

/// Experts, uses of a token, tokens, and columns of activations for each token.
struct Shape {
    experts: i64,
    used: i64,
    tokens: i64,
    columns: i64,
}

/// Runs products of the same ids, in a view of a wider table, and returns the largest error.
fn error(room: &mut Room, ty: Type, [m, k]: [i64; 2], shape: &Shape, ids: impl Fn(usize) -> i32) -> f64 {
    let Shape { experts, used, tokens, columns } = *shape;
    let a_bytes = sample(ty, 5, (k * m * experts) as usize);
    let a = room.place(Tensor::new(ty, [k, m, experts, 1]), &a_bytes);
    let inputs = noise(6, (k * columns * tokens) as usize);
    let b = room.f32([k, columns, tokens, 1], &inputs);
    let table: Vec<i32> = (0..(experts * tokens) as usize).map(ids).collect();
    let mut ids = room.i32([experts, tokens, 1, 1], &table);
    ids.ne[0] = used;
    let dst = room.empty(Type::F32, [m, used, tokens, 1]);
    let node = Node::new("MUL_MAT_ID", dst, &[a, b, ids]);
    lower(&node, &mut Lowering::question(room.caps())).unwrap();
    room.run(&[node]);
    let b_bytes: Vec<u8> = inputs.iter().flat_map(|x| x.to_le_bytes()).collect();
    let expert = |u: i64, t: i64| table[(t * experts + u) as usize];
    nmse(&mul_mat_id((&a, &a_bytes), (&b, &b_bytes), used, expert), &room.values(&dst))
}

#[test]
fn experts_with_several_tiles_and_with_none() {
    Room::both().for_each(experts_of_a_room);
}

fn experts_of_a_room(mut room: Room) {
    // 120 pairs: expert 1 has no pair, expert 0 several tiles, the others parts of one.
    let ids = |i: usize| [0, 2, 0, 3, 4, 0, 0][i * 5 % 7];
    let shape = |columns| Shape { experts: 5, used: 3, tokens: 40, columns };
    // Activations are rounded to 8 bits, or both factors to 11.
    for columns in [1, 3] {
        let e = error(&mut room, Type::Q8_0, [35, 96], &shape(columns), ids);
        assert!(e < 3e-5, "q8_0: {e}");
    }
    let e = error(&mut room, Type::F16, [35, 67], &shape(3), ids);
    assert!(e < 1e-6, "f16: {e}");
    let e =
        error(&mut room, Type::F16, [3, 64], &Shape { experts: 2, used: 1, tokens: 33, columns: 1 }, |i| i as i32 % 2);
    assert!(e < 1e-6, "one use: {e}");
}

#[test]
fn an_expert_that_is_not_there_has_no_values() {
    let Some(mut room) = Room::new() else { return };
    let tokens = 64;
    let a = room.place(Tensor::new(Type::F16, [8, 2, 3, 1]), &sample(Type::F16, 7, 48));
    let b = room.f32([8, 1, tokens, 1], &noise(8, 8 * tokens as usize));
    let table: Vec<i32> = (0..tokens as i32).map(|t| t % 5 - 1).collect();
    let ids = room.i32([1, tokens, 1, 1], &table);
    let dst = room.empty(Type::F32, [2, 1, tokens, 1]);
    let node = Node::new("MUL_MAT_ID", dst, &[a, b, ids]);
    lower(&node, &mut Lowering::question(room.caps())).unwrap();
    room.run(&[node]);
    for (i, v) in room.values(&dst).iter().enumerate() {
        assert_eq!(v.is_nan(), !(0..3).contains(&table[i / 2]), "token {}", i / 2);
    }
}

fn node(ty: Type, experts: i64, used: i64, columns: i64, tokens: i64) -> Node {
    let a = Tensor::new(ty, [512, 64, experts, 1]);
    let b = Tensor { data: 1 << 20, ..Tensor::new(Type::F32, [512, columns, tokens, 1]) };
    let ids = Tensor::new(Type::I32, [used, tokens, 1, 1]);
    Node::new("MUL_MAT_ID", Tensor::new(Type::F32, [64, used, tokens, 1]), &[a, b, ids])
}

#[test]
fn few_tokens_and_many_experts_are_left_to_others() {
    let ask = |node: &Node| lower(node, &mut Lowering::question(&Caps::for_tests())).map_err(|e| e.to_string());
    assert_eq!(ask(&node(Type::Q4_K, 16, 2, 1, 32)), Ok(()));
    assert!(ask(&node(Type::Q4_K, 16, 2, 1, 31)).unwrap_err().contains("few"));
    assert!(ask(&node(Type::Q4_K, 17, 2, 1, 32)).unwrap_err().contains("few"));
    assert!(ask(&node(Type::F32, 16, 2, 1, 32)).unwrap_err().contains("f32 x f32"));
    assert!(ask(&node(Type::Q4_K, 16, 4, 2, 32)).unwrap_err().contains("no matrix product"));
}

#[test]
fn pairs_are_sorted_and_activations_packed_once() {
    let matrix_f16 = Some(MatrixShape { m: 16, n: 16, k: 16 });
    let caps = Caps { matrix_f16, subgroup: 32, shared: 49152, ..Caps::for_tests() };
    let mut cx = Lowering::question(&caps);
    for _ in 0..2 {
        lower(&node(Type::Q4_K, 16, 2, 1, 64), &mut cx).unwrap();
    }
    let shaders: Vec<_> = cx.dispatches.iter().map(|d| d.shader).collect();
    assert_eq!(shaders, ["matmul_group", "matmul_pack", "matmul_q4_K", "matmul_q4_K"]);
    // The ring holds few of these: whatever was there before, the pairs and the activations of a product lie apart.
    for used in 1..24 {
        lower(&node(Type::Q4_K, 16, used, used, 8192), &mut cx).unwrap();
        let reads = &cx.dispatches.last().unwrap().reads;
        assert!(!reads[1].overlaps(&reads[2]), "{used}");
    }
}
