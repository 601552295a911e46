//! Scalar reference of the operations in `engine::vulkan::ops` of this name.

/// The ALiBi slope of a head: a geometric sequence for a power of two of heads, and every second member of the one with
/// half steps for the heads past it.
pub fn slope(head: u32, heads: u32, max_bias: f32) -> f64 {
    let n = 1_u32 << heads.ilog2();
    let step = f64::from(max_bias) / f64::from(n);
    if head < n { (-step * f64::from(head + 1)).exp2() } else { (-step / 2.0 * f64::from(2 * (head - n) + 1)).exp2() }
}

/// One row of SOFT_MAX; the sink is one more element whose share is not kept.
pub fn soft_max(x: &[f32], scale: f32, mask: Option<&[f32]>, slope: f64, sink: Option<f32>) -> Vec<f32> {
    let bias = |i: usize| mask.map_or(0.0, |m| slope * f64::from(m[i]));
    let logits: Vec<f64> = x.iter().enumerate().map(|(i, v)| f64::from(*v) * f64::from(scale) + bias(i)).collect();
    let largest = logits.iter().copied().chain(sink.map(f64::from)).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().copied().chain(sink.map(f64::from)).map(|v| (v - largest).exp()).sum();
    logits.iter().map(|v| ((v - largest).exp() / sum) as f32).collect()
}
