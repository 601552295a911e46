//! Scalar reference of the operations in `engine::vulkan::ops` of this name.

/// One row of ROPE, or of ROPE_BACK: `params` are ggml's `op_params`, `positions` those of the row's token.
pub fn rope(x: &[f32], params: &[i32; 16], positions: [i32; 4], factors: Option<&[f32]>, back: bool) -> Vec<f32> {
    let float = |i: usize| f32::from_bits(params[i] as u32);
    let (dims, mode, first) = (params[1] as usize, params[2], params[15] as usize);
    let (base, scale, ext) = (float(5), float(6), float(7));
    let step = base.powf(-2.0 / dims as f32);
    let ranks =
        |turns: f32| dims as f32 * (params[4] as f32 / (turns * 2.0 * std::f32::consts::PI)).ln() / (2.0 * base.ln());
    let (low, high) = (ranks(float(9)).floor().max(0.0), ranks(float(10)).ceil().min(dims as f32 - 1.0));
    let magnitude = float(8) * if ext == 0.0 { 1.0 } else { 1.0 + 0.1 * (1.0 / scale).ln() };
    let sections = [11, 12, 13, 14].map(|i| params[i] as usize);
    let mut out = x.to_vec();
    for j in 0..if mode == 24 { dims } else { dims / 2 } {
        let (which, rank) = angle_of(mode, sections, j);
        // The angle is f32 arithmetic in this order: that is what the operation is.
        let mut theta = positions[which] as f32;
        for _ in 0..rank {
            theta *= step;
        }
        theta /= factors.map_or(1.0, |f| f[j]);
        let mut angle = theta * scale;
        if ext != 0.0 {
            let share = (1.0 - ((j as f32 - low) / (high - low).max(0.001)).clamp(0.0, 1.0)) * ext;
            angle = angle * (1.0 - share) + theta * share;
        }
        let (sin, cos) = f64::from(angle).sin_cos();
        let (sin, cos) = (sin * f64::from(magnitude) * if back { -1.0 } else { 1.0 }, cos * f64::from(magnitude));
        let (a, b) = match mode {
            0 => (first + 2 * j, first + 2 * j + 1),
            24 => (j, j + dims),
            _ => (first + j, first + j + dims / 2),
        };
        let (p, q) = (f64::from(x[a]), f64::from(x[b]));
        out[a] = (p * cos - q * sin) as f32;
        out[b] = (p * sin + q * cos) as f32;
    }
    out
}

/// Which of the four positions pair `j` turns by, and how often its angle is multiplied by the step.
fn angle_of(mode: i32, sections: [usize; 4], j: usize) -> (usize, usize) {
    if mode & 8 == 0 {
        return (0, j);
    }
    let i = j % sections.iter().sum::<usize>();
    if mode == 40 {
        return (if i < 3 * sections[i % 3] { i % 3 } else { 3 }, j);
    }
    let mut start = 0;
    for (which, length) in sections.into_iter().enumerate() {
        if i < start + length {
            return (which, if mode == 24 { i - start } else { j });
        }
        start += length;
    }
    unreachable!("i is below the sum of the sections")
}
