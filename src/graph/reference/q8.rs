//! Activations as int8 blocks of 32, and products with them.

/// One block: 32 bytes, the value of one step, and step x sum of the bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    /// The numbers in steps.
    pub q: [i8; 32],
    /// The value of one step.
    pub d: f32,
    /// `d` times the sum of `q`.
    pub s: f32,
}

/// Quantises a row whose length is a multiple of 32.
pub fn quantize(row: &[f32]) -> Vec<Block> {
    let block = |x: &[f32]| {
        let largest = x.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
        let (inverse, d) = if largest < 1e-36 { (0.0, 0.0) } else { (127.0 / largest, largest * (1.0 / 127.0)) };
        let mut q = [0; 32];
        for (q, x) in q.iter_mut().zip(x) {
            *q = (x * inverse).round_ties_even() as i8;
        }
        let sum: i32 = q.iter().map(|q| i32::from(*q)).sum();
        Block { q, d, s: d * sum as f32 }
    };
    row.chunks_exact(32).map(block).collect()
}

/// The numbers that the blocks stand for.
pub fn dequantize(blocks: &[Block]) -> Vec<f64> {
    blocks.iter().flat_map(|b| b.q.map(|q| f64::from(q) * f64::from(b.d))).collect()
}

/// The product of a row of weights with quantised activations, in double precision.
pub fn dot(weights: &[f32], blocks: &[Block]) -> f64 {
    weights.iter().zip(dequantize(blocks)).map(|(w, x)| f64::from(*w) * x).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_within_half_a_step_of_its_numbers() {
        let row: Vec<f32> = (0..64).map(|i| ((i * 37 % 64) as f32 - 31.0) / 7.0).collect();
        let blocks = quantize(&row);
        for (i, (x, y)) in row.iter().zip(dequantize(&blocks)).enumerate() {
            assert!((f64::from(*x) - y).abs() <= f64::from(blocks[i / 32].d) * 0.501, "{x} {y}");
        }
        assert_eq!(quantize(&[0.0; 32])[0], Block { q: [0; 32], d: 0.0, s: 0.0 });
    }
}
