//! The simulated NPU: whole tiles of 256, weights in 8 bits, and a reconfiguration when the length of the sums changes.

use super::ask::Ask;
use super::processor::{Processor, both};
use crate::graph::Node;

/// Dispatches that loading another array configuration takes: 39 us against 44 to 50 (IRON, decode_costs_npu2.json), and
/// more where the host takes part.
const RECONFIGURED: f64 = 1.5;

/// Seconds of a product, its dispatch included.
pub fn seconds(p: &Processor, ask: &Ask, before: Option<&Node>) -> f64 {
    let m = (ask.m / 256.0).ceil() * 256.0;
    // Few columns are vectors, one after another, while the weights pass by once; many come in tiles.
    let stream = m * ask.k / p.bandwidth;
    let compute = if ask.n <= 8.0 {
        2.0 * m * ask.k * ask.n / p.few
    } else {
        2.0 * m * ask.k * (ask.n / 64.0).ceil() * 64.0 / p.many
    };
    let kept = before.is_some_and(|b| b.src[0].is_some_and(|w| w.ne[0] as f64 == ask.k));
    // It is not coherent with the CPU's caches: activations are flushed and copied.
    let copies = (ask.fresh + ask.made) / (0.5 * p.bandwidth);
    both(compute, stream) + copies + p.node * if kept { 1.0 } else { 1.0 + RECONFIGURED }
}
