//! The simulated GPU: workgroups in rounds over its units, another kernel for wide products, fused and overlapping
//! dispatches.

use super::ask::{Ask, Shape};
use super::processor::{Processor, both, rounds, unpacking};
use crate::graph::Node;

/// Rows of a workgroup of the products by vector, workgroups that a unit holds, and the side of a tile of wide products.
const GROUP: f64 = 4.0;
const HELD: f64 = 8.0;
const TILE: f64 = 64.0;

/// Seconds of a node, its dispatch included unless it is part of the one before.
pub fn seconds(p: &Processor, ask: &Ask, node: &Node, before: Option<&Node>) -> f64 {
    let slots = p.units * HELD;
    // Too few workgroups do not keep enough loads in flight.
    let filled = |groups: f64| (groups / slots).min(1.0).powf(0.6) * rounds(groups, slots, 0.6).max(0.4);
    let near = (ask.fresh + ask.made).min(0.5 * p.cache) / (4.0 * p.bandwidth);
    let activations = near + p.spilled(ask) / p.bandwidth;
    let unpacked = ask.ops * unpacking(ask.ty, p.kind);
    let work = match ask.shape {
        Shape::Product | Shape::Experts if ask.n <= 16.0 => {
            let busy = filled((ask.m / GROUP).ceil() * ask.depth.max(1.0));
            both(unpacked / p.few, ask.stream / p.bandwidth) / busy * p.cliffs[ask.n.max(1.0) as usize] + activations
        }
        Shape::Product | Shape::Experts => {
            let tiles = (ask.m / TILE).ceil() * (ask.n / TILE).ceil() * ask.depth.max(1.0);
            // Few tiles are cut along the sums as well.
            let busy = rounds(tiles, 2.0 * p.units, 0.3).max(0.45);
            // The edges of tiles are computed too.
            let padded = unpacked * (ask.n / TILE).ceil() * TILE / ask.n;
            both(padded / p.many, ask.stream / p.bandwidth) / busy + activations
        }
        Shape::Attention => {
            let busy = filled(ask.m * ask.n * (ask.depth / 256.0).ceil());
            let rate = if ask.n <= 16.0 { 0.5 * p.few } else { 0.6 * p.many };
            both(ask.ops / rate, ask.stream / p.bandwidth) / busy + activations
        }
        Shape::Rows => ask.ops / (0.2 * p.few) + activations,
    };
    work + p.node * dispatches(node, before)
}

/// How many dispatches a node is, after the one before it in the same step.
fn dispatches(node: &Node, before: Option<&Node>) -> f64 {
    let source = |i: usize| node.src[i].map(|t| t.id);
    match before {
        Some(b) if matches!((b.op, node.op), ("RMS_NORM", "MUL") | ("ADD", "RMS_NORM") | ("ROPE", "SET_ROWS")) => 0.0,
        // Products of the same input do not wait for each other, and its conversion to 8 bits is there.
        Some(b) if b.op == node.op && b.op == "MUL_MAT" && b.src[1].map(|t| t.id) == source(1) => 0.4,
        _ if node.op.starts_with("MUL_MAT") => 1.5,
        _ => 1.0,
    }
}
