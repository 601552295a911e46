//! Values of the types whose weights are points of a grid, or of fewer than four bits each.

use super::quant::{Block, e2m1, half};
use crate::graph::{Type, grids};

/// Element `i` of a block.
pub(super) fn value(ty: Type, b: &Block, i: usize) -> f32 {
    let (part, eighth) = (i / 32, i / 8);
    match ty {
        Type::Q1_0 => b.half(0) * (2 * b.bit(2, i) - 1) as f32,
        Type::Q2_0 => b.half(0) * (b.bits(16 + 2 * i, 2) as i32 - 1) as f32,
        Type::TQ1_0 => {
            let (byte, digit) = match i {
                0..160 => (i % 32, i / 32),
                160..240 => (32 + i % 16, (i - 160) / 16),
                _ => (48 + i % 4, (i - 240) / 4),
            };
            let fraction = (b.bits(8 * byte, 8) * 3_u32.pow(digit as u32)) % 256;
            b.half(52) * ((fraction * 3 / 256) as f32 - 1.0)
        }
        Type::TQ2_0 => b.half(64) * (b.crumb(0, i) - 1) as f32,
        Type::IQ2_XXS => {
            let first = 2 + 8 * part;
            let point = b.bits(8 * (first + eighth % 4), 8);
            let negative = even_sign(b.bits(8 * (first + 4) + 7 * (eighth % 4), 7), i % 8);
            quarter(b, b.bits(8 * first + 60, 4)) * IQ2[number(ty, point, i % 8, 2)] * negative
        }
        Type::IQ2_XS => {
            let first = 8 * (2 + 2 * eighth);
            let scale = b.bits(8 * 66 + 4 * (i / 16), 4);
            let negative = even_sign(b.bits(first + 9, 7), i % 8);
            quarter(b, scale) * IQ2[number(ty, b.bits(first, 9), i % 8, 2)] * negative
        }
        Type::IQ2_S => {
            let point = b.bits(8 * (2 + eighth), 8) + 256 * b.bits(8 * 66 + 2 * eighth, 2);
            let scale = b.bits(8 * 74 + 4 * (i / 16), 4);
            quarter(b, scale) * IQ2[number(ty, point, i % 8, 2)] * sign(b.bit(34, i))
        }
        Type::IQ3_XXS => {
            let word = 8 * (66 + 4 * part);
            let value = [4., 12., 20., 28., 36., 44., 52., 62.][number(ty, b.bits(8 * (2 + i / 4), 8), i % 4, 3)];
            let negative = even_sign(b.bits(word + 7 * (eighth % 4), 7), i % 8);
            2.0 * quarter(b, b.bits(word + 28, 4)) * value * negative
        }
        Type::IQ3_S => {
            let point = b.bits(8 * (2 + i / 4), 8) + 256 * b.bits(8 * 66 + i / 4, 1);
            let value = 2 * number(ty, point, i % 4, 3) + 1;
            let scale = 2 * b.bits(8 * 106 + 4 * part, 4) + 1;
            b.half(0) * scale as f32 * value as f32 * sign(b.bit(74, i))
        }
        Type::IQ1_S => {
            let head = 8 * (34 + 2 * part);
            let point = b.bits(8 * (2 + eighth), 8) + 256 * b.bits(head + 3 * (eighth % 4), 3);
            let scale = 2 * b.bits(head + 12, 3) + 1;
            b.half(0) * scale as f32 * shifted(point, i, b.bits(head + 15, 1))
        }
        Type::IQ1_M => {
            let whole = (0..4).map(|n| b.bits(8 * 48 + 16 * n + 12, 4) << (4 * n)).sum();
            let scale = 2 * b.bits(8 * 48 + 16 * (i / 64) + 3 * (i / 16 % 4), 3) + 1;
            let point = b.bits(8 * eighth, 8) + 256 * b.bits(8 * 32 + 4 * eighth, 3);
            half(whole) * scale as f32 * shifted(point, i, b.bits(8 * 32 + 4 * eighth + 3, 1))
        }
        Type::NVFP4 => {
            let (exponent, mantissa) = (b.bits(8 * (i / 16) + 3, 4), b.bits(8 * (i / 16), 3) as f32);
            let scale = match (b.bits(8 * (i / 16), 8), exponent) {
                (0x7f, _) => 0.0,
                (_, 0) => mantissa / 512.0,
                _ => (1.0 + mantissa / 8.0) * 2_f32.powi(exponent as i32 - 7),
            };
            scale * e2m1(b.bits(8 * (4 + i / 16 * 8 + i % 8) + i % 16 / 8 * 4, 4) as i32)
        }
        _ => f32::NAN,
    }
}

/// What the numbers of the `IQ2` grids stand for.
const IQ2: [f32; 4] = [8.0, 25.0, 43.0, f32::NAN];

/// Number `i` of a point of a type's grid, each number having `bits` bits.
fn number(ty: Type, point: u32, i: usize, bits: usize) -> usize {
    let at = point as usize / 2 * 12 + if point.is_multiple_of(2) { 6 } else { 2 };
    let packed = grids::text(ty)
        .and_then(|grid| grid.get(at..at + 4))
        .and_then(|digits| usize::from_str_radix(digits, 16).ok())
        .unwrap_or(0);
    packed >> (bits * i) & ((1 << bits) - 1)
}

/// A number of the `IQ1` grid, an eighth more or less.
fn shifted(point: u32, i: usize, down: u32) -> f32 {
    number(Type::IQ1_S, point, i % 8, 2) as f32 - 1.0 + if down == 1 { -0.125 } else { 0.125 }
}

/// The scale of a part: a quarter of 0.5, 1.5, 2.5 and so on.
fn quarter(b: &Block, scale: u32) -> f32 {
    b.half(0) * (scale as f32 + 0.5) / 4.0
}

fn sign(bit: i32) -> f32 {
    if bit == 1 { -1.0 } else { 1.0 }
}

/// Sign `i` of eight, of which seven are given and an even number is negative.
fn even_sign(seven: u32, i: usize) -> f32 {
    sign(if i < 7 { (seven >> i & 1) as i32 } else { (seven.count_ones() % 2) as i32 })
}
