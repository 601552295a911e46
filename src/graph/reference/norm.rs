//! Scalar reference of the operations in `engine::vulkan::ops` of this name.

/// One row of RMS_NORM.
pub fn rms_norm(x: &[f32], eps: f32) -> Vec<f32> {
    let mean = x.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / x.len() as f64;
    let scale = 1.0 / (mean + f64::from(eps)).sqrt();
    x.iter().map(|v| (f64::from(*v) * scale) as f32).collect()
}

/// One row of NORM, one group of GROUP_NORM.
pub fn norm(x: &[f32], eps: f32) -> Vec<f32> {
    let mean = x.iter().map(|v| f64::from(*v)).sum::<f64>() / x.len() as f64;
    let variance = x.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / x.len() as f64;
    let scale = 1.0 / (variance + f64::from(eps)).sqrt();
    x.iter().map(|v| ((f64::from(*v) - mean) * scale) as f32).collect()
}

/// One row of L2_NORM.
pub fn l2_norm(x: &[f32], eps: f32) -> Vec<f32> {
    let sum = x.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>();
    let scale = 1.0 / sum.sqrt().max(f64::from(eps));
    x.iter().map(|v| (f64::from(*v) * scale) as f32).collect()
}
