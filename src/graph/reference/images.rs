//! Scalar reference of the operations in `engine::vulkan::ops` of this name, in f64.

/// How UPSCALE takes a value between places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The place at or below.
    Nearest,
    /// Linear in both directions.
    Bilinear,
    /// Cubic convolution with the parameter -0.75.
    Bicubic,
    /// The mean below a triangle that is at least a place of the source and at least one of the result wide.
    Antialiased,
}

/// The weight of a place at distance `x`.
fn kernel(mode: Mode, x: f64) -> f64 {
    let x = x.abs();
    match mode {
        Mode::Bicubic if x <= 1.0 => 1.25 * x.powi(3) - 2.25 * x.powi(2) + 1.0,
        Mode::Bicubic if x < 2.0 => -0.75 * (x.powi(3) - 5.0 * x.powi(2) + 8.0 * x - 4.0),
        Mode::Bicubic => 0.0,
        _ => (1.0 - x).max(0.0),
    }
}

/// A row of `n` values from `row`; `aligned`: the first and last places of both coincide.
pub fn upscale(row: &[f64], n: usize, mode: Mode, aligned: bool) -> Vec<f64> {
    let (from, to) = (row.len() as f64, n as f64);
    let coincide = aligned && n > 1 && row.len() > 1;
    let scale = if coincide { (to - 1.0) / (from - 1.0) } else { to / from };
    let offset = if aligned { 0.0 } else { 0.5 };
    let value = |i: usize| {
        if mode == Mode::Nearest {
            return row[((i as f64 / scale) as usize).min(row.len() - 1)];
        }
        let middle = (i as f64 + offset) / scale - offset;
        let width = if mode == Mode::Antialiased { (1.0 / scale).max(1.0) } else { 1.0 };
        // Beyond its ends a row goes on with its last value, but for antialiasing, which weighs what is there.
        let reach = if mode == Mode::Antialiased { 0 } else { 3 };
        let places = -reach..row.len() as i64 + reach;
        let last = row.len() as i64 - 1;
        let weighed = places.map(|k| (kernel(mode, (k as f64 - middle) / width), row[k.clamp(0, last) as usize]));
        let (sum, weights) = weighed.fold((0.0, 0.0), |(s, w), (weight, v)| (s + weight * v, w + weight));
        if mode == Mode::Antialiased { sum / weights } else { sum }
    };
    (0..n).map(value).collect()
}
