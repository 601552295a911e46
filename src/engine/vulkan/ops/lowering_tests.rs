use super::*;

#[test]
fn scratch_of_one_node_never_overlaps_even_where_the_ring_comes_round() {
    let caps = Caps::for_tests();
    let mut cx = Lowering::question(&caps);
    let first = cx.scratch(SCRATCH_RING / 2);
    let second = cx.scratch(SCRATCH_RING / 2 + 256);
    let third = cx.scratch(SCRATCH_RING / 4);
    assert!(!first.overlaps(&second) && !first.overlaps(&third) && !second.overlaps(&third));
    assert!(cx.scratch_peak >= third.start + third.len);
    cx.taken.clear();
    assert!(cx.scratch(SCRATCH_RING).overlaps(&first), "the next node begins anew");
}
