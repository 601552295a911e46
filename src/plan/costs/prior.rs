//! What is believed before anything was measured: a roofline from the figures of the chip.

use crate::chip::model::Processor;
use crate::plan::work::{Kind, Work};

/// Widths up to this are products of few columns, for which engines have other kernels than for many.
pub const FEW: u64 = 16;

/// The three terms of a roofline, in seconds: memory, arithmetic, and what a node costs besides its work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// Bytes over bandwidth.
    pub memory: f64,
    /// Operations over rate.
    pub arithmetic: f64,
    /// What the node costs if it is empty.
    pub node: f64,
}

/// A processor's roofline for a work.
pub fn terms(processor: &Processor, work: &Work) -> Terms {
    // The rates of the chip are those of products; attention runs on the same units, the rest is never limited by them.
    let rate = if work.n > FEW { processor.many } else { processor.few };
    let arithmetic = if work.kind == Kind::Other { 0.0 } else { ratio(work.operations(), rate) };
    Terms { memory: ratio(work.bytes(), processor.bandwidth), arithmetic, node: positive(processor.node) }
}

/// A quotient that is finite whatever the figures are.
fn ratio(amount: f64, rate: f64) -> f64 {
    positive(amount / rate.max(1.0)).min(1e9)
}

fn positive(x: f64) -> f64 {
    if x > 0.0 { x } else { 0.0 }
}
