use super::super::super::testing::{Room, nmse, noise};
use super::*;
use crate::graph::reference::images::{Mode, upscale as reference};

/// The reference in both directions: both are sums of products, so one follows the other.
fn both(x: &[f32], from: [usize; 2], to: [usize; 2], mode: Mode, aligned: bool) -> Vec<f32> {
    let wide: Vec<Vec<f64>> = x
        .chunks_exact(from[0])
        .map(|row| reference(&row.iter().map(|v| f64::from(*v)).collect::<Vec<_>>(), to[0], mode, aligned))
        .collect();
    let column = |c: usize| wide.iter().map(|row| row[c]).collect::<Vec<_>>();
    let columns: Vec<_> = (0..to[0]).map(|c| reference(&column(c), to[1], mode, aligned)).collect();
    (0..to[1]).flat_map(|r| columns.iter().map(move |c| c[r] as f32)).collect()
}

#[test]
fn images_are_scaled_up_and_down() {
    let Some(mut room) = Room::new() else { return };
    let modes = [(0, Mode::Nearest), (1, Mode::Bilinear), (2, Mode::Bicubic), (1 | ANTIALIAS, Mode::Antialiased)];
    let sizes = [([5, 4], [10, 12]), ([7, 6], [3, 4]), ([1, 4], [2, 8]), ([4, 1], [1, 1]), ([9, 9], [27, 3])];
    let mut nodes = Vec::new();
    for (flags, mode) in modes {
        for aligned in [false, true].into_iter().filter(|a| !a || mode != Mode::Antialiased) {
            for (from, to) in sizes {
                let x = noise(1, from[0] * from[1]);
                let ne = |s: [usize; 2]| [s[0] as i64, s[1] as i64, 1, 1];
                let src = room.f32(ne(from), &x);
                let mut node = Node::new("UPSCALE", room.empty(Type::F32, ne(to)), &[src]);
                node.params[0] = flags | if aligned { ALIGN_CORNERS } else { 0 };
                nodes.push((node, both(&x, from, to, mode, aligned)));
            }
        }
    }
    room.run(&nodes.iter().map(|n| n.0).collect::<Vec<_>>());
    for (node, want) in &nodes {
        // A distance of up to 27 places is known to 2e-6, and the weights change by at most 2 times as much.
        let error = nmse(want, &room.values(&node.dst));
        assert!(error < 1e-11, "{:#x} {:?} {:?}: {error}", node.params[0], node.src[0].unwrap().ne, node.dst.ne);
    }
}

#[test]
fn outer_dimensions_take_the_nearest() {
    let Some(mut room) = Room::new() else { return };
    let src = room.f32([1, 1, 2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let node = Node::new("UPSCALE", room.empty(Type::F32, [1, 1, 6, 3]), &[src]);
    room.run(&[node]);
    let want: Vec<f32> = (0..18).map(|i| (i / 6 * 2 + i % 6 / 3) as f32).collect();
    assert_eq!(want, room.values(&node.dst));
}

#[test]
fn kernels_see_their_places() {
    let Some(mut room) = Room::new() else { return };
    let (w, h, channels, n) = (7, 5, 2, 2);
    let x = noise(2, w * h * channels * n);
    let image = room.f32([w as i64, h as i64, channels as i64, n as i64], &x);
    let kernel = Tensor::new(Type::F32, [3, 2, channels as i64, 4]);
    let (s, p, d) = ([2, 1], [1, 2], [1, 3]);
    let out = |n: usize, k: usize, i: usize| (n as i64 + 2 * p[i] - d[i] * (k as i64 - 1) - 1) / s[i] + 1;
    let (ow, oh) = (out(w, 3, 0), out(h, 2, 1));
    let dst = room.empty(Type::F32, [3 * 2 * channels as i64, ow, oh, n as i64]);
    let mut two = Node::new("IM2COL", dst, &[kernel, image]);
    two.params[..7].copy_from_slice(&[2, 1, 1, 2, 1, 3, 1]);
    // The same numbers as rows of 7 in 10 channels.
    let line = room.f32([w as i64, (h * channels) as i64, n as i64, 1], &x);
    let row = Tensor::new(Type::F32, [3, (h * channels) as i64, 4, 1]);
    let mut one = Node::new("IM2COL", room.empty(Type::F32, [30, ow, n as i64, 1]), &[row, line]);
    one.params[..7].copy_from_slice(&[2, 0, 1, 0, 1, 0, 0]);
    let half = Node { dst: room.empty(Type::F16, dst.ne), ..two };
    let back = Node::new("CPY", room.empty(Type::F32, dst.ne), &[half.dst]);
    room.run(&[two, one, half, back]);
    let pixel = |x0: i64, y: i64, c: usize, h: usize, image: usize| {
        let inside = (0..w as i64).contains(&x0) && (0..h as i64).contains(&y);
        if inside { x[((image * (x.len() / n / w / h) + c) * h + y as usize) * w + x0 as usize] } else { 0.0 }
    };
    let (mut want, mut flat) = (Vec::new(), Vec::new());
    for image in 0..n {
        for (y, x0) in (0..oh).flat_map(|y| (0..ow).map(move |x| (y, x))) {
            for (c, ky, kx) in (0..channels * 6).map(|k| (k / 6, k as i64 / 3 % 2, k as i64 % 3)) {
                want.push(pixel(x0 * 2 + kx - 1, y + ky * 3 - 2, c, h, image));
            }
        }
        for (x0, c, kx) in (0..ow).flat_map(|x| (0..30).map(move |k| (x, k as usize / 3, k % 3))) {
            flat.push(pixel(x0 * 2 + kx - 1, 0, c, 1, image));
        }
    }
    assert_eq!(want, room.values(&two.dst));
    assert_eq!(flat, room.values(&one.dst));
    // Half a unit in the last of 11 bits.
    assert!(nmse(&want, &room.values(&back.dst)) < 6e-8);
}
