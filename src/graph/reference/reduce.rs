//! Scalar reference of the operations in `engine::vulkan::ops` of this name, and of sorting.

use crate::graph::Tensor;

/// The rows of an f32 tensor over these values.
pub fn rows(values: &[f32], t: &Tensor) -> Vec<Vec<f32>> {
    let [_, nb1, nb2, nb3] = t.nb;
    let at = |i: [i64; 4]| i[0] as u64 * t.nb[0] + i[1] as u64 * nb1 + i[2] as u64 * nb2 + i[3] as u64 * nb3;
    let row = |r: i64| {
        let place = [r % t.ne[1], r / t.ne[1] % t.ne[2], r / t.ne[1] / t.ne[2]];
        (0..t.ne[0]).map(|c| values[at([c, place[0], place[1], place[2]]) as usize / 4]).collect()
    };
    (0..t.rows()).map(row).collect()
}

/// The sum of a row.
pub fn sum(x: &[f32]) -> f32 {
    x.iter().map(|v| f64::from(*v)).sum::<f64>() as f32
}

/// The running sums of a row.
pub fn cumsum(x: &[f32]) -> Vec<f32> {
    let add = |sum: &mut f64, v: &f32| {
        *sum += f64::from(*v);
        Some(*sum as f32)
    };
    x.iter().scan(0.0, add).collect()
}

/// The place of the largest element; of equal ones the last.
pub fn argmax(x: &[f32]) -> i32 {
    (0..x.len()).fold(0, |best, i| if x[i] >= x[best] { i } else { best }) as i32
}

/// The places of the elements in ascending or descending order; equal ones stay in their order.
pub fn argsort(x: &[f32], descending: bool) -> Vec<i32> {
    let mut places: Vec<i32> = (0..x.len() as i32).collect();
    places.sort_by(|a, b| {
        let order = x[*a as usize].partial_cmp(&x[*b as usize]).unwrap_or(std::cmp::Ordering::Equal);
        if descending { order.reverse() } else { order }
    });
    places
}
