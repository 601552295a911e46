//! Numbers stored as another type, as ggml-cpu does it.

use crate::graph::Type;

/// The bits of the half-precision float nearest to `x`, to even where two are; numbers from 65520 on become infinite.
pub fn half_bits(x: f32) -> u16 {
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    let size = f64::from(x.abs());
    if x.is_nan() {
        return sign | 0x7e00;
    }
    if size >= 65520.0 {
        return sign | 0x7c00;
    }
    // The distance to the next half: 2^-24 for subnormal ones, which end where the exponent field becomes 1.
    let exponent = if size < 2f64.powi(-14) { -14 } else { (size.to_bits() >> 52) as i32 - 1023 };
    let units = (size / 2f64.powi(exponent - 10)).round_ties_even() as i32;
    // A subnormal has no leading bit to take away; a carry out of the mantissa counts the exponent up by itself.
    sign | ((exponent + 14) * 1024 + units) as u16
}

/// The bits of the bf16 nearest to `x`, to even where two are.
pub fn bf16_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits >> 16) as u16 | 64;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// The values of `IQ4_NL`.
const IQ4: [f32; 16] = [-127., -104., -83., -65., -49., -35., -22., -10., 1., 13., 25., 38., 53., 69., 89., 113.];

/// A block of 32 numbers; `None` for a type that has no reference here.
pub fn quantize(ty: Type, x: &[f32]) -> Option<Vec<u8>> {
    let extreme = x.iter().fold(0.0_f32, |best, v| if v.abs() > best.abs() { *v } else { best });
    let (low, high) = x.iter().fold((f32::MAX, -f32::MAX), |(low, high), v| {
        (if *v < low { *v } else { low }, if *v > high { *v } else { high })
    });
    let inverse = |d: f32| if d == 0.0 { 0.0 } else { 1.0 / d };
    let levels = |low: f32, d: f32, shift: f32, top: u8| -> Vec<u8> {
        x.iter().map(|v| (((v - low) * inverse(d) + shift) as u8).min(top)).collect()
    };
    let (d, m, q) = match ty {
        Type::Q4_0 => (extreme / -8.0, None, levels(0.0, extreme / -8.0, 8.5, 15)),
        Type::Q5_0 => (extreme / -16.0, None, levels(0.0, extreme / -16.0, 16.5, 31)),
        Type::Q4_1 => ((high - low) / 15.0, Some(low), levels(low, (high - low) / 15.0, 0.5, 15)),
        Type::Q5_1 => ((high - low) / 31.0, Some(low), levels(low, (high - low) / 31.0, 0.5, 31)),
        Type::Q8_0 => {
            let most = extreme.abs();
            // As ggml-cpu does it on x86-64, which differs from the reference.
            let scale = if most == 0.0 { 0.0 } else { 127.0 / most };
            (most / 127.0, None, x.iter().map(|v| (v * scale).round_ties_even() as i8 as u8).collect())
        }
        Type::IQ4_NL => {
            let (d, q) = least_squares(x, extreme);
            (d, None, q)
        }
        _ => return None,
    };
    let mut out = half_bits(d).to_le_bytes().to_vec();
    out.extend(m.map(half_bits).iter().flat_map(|b| b.to_le_bytes()));
    if matches!(ty, Type::Q5_0 | Type::Q5_1) {
        let fifths: u32 = q.iter().enumerate().map(|(n, q)| u32::from(q >> 4) << n).sum();
        out.extend(fifths.to_le_bytes());
    }
    if ty == Type::Q8_0 {
        out.extend(q);
    } else {
        out.extend((0..16).map(|n| (q[n] & 15) | (q[n + 16] & 15) << 4));
    }
    Some(out)
}

/// The levels of a block by the scale that its extreme number suggests, and the scale that then fits best when each error
/// counts with the square of its number.
fn least_squares(x: &[f32], extreme: f32) -> (f32, Vec<u8>) {
    if extreme.abs() < 1e-15 {
        return (0.0, vec![0; 32]);
    }
    let scale = 1.0 / (extreme / IQ4[0]);
    let (mut with_x, mut with_q) = (0.0, 0.0);
    let mut levels = Vec::new();
    for v in x {
        let y = v * scale;
        // Half way between two, the higher one.
        let level = (1..16).filter(|n| y >= IQ4[n - 1] && y - IQ4[n - 1] >= IQ4[*n] - y).max().unwrap_or(0);
        let weight = v * v;
        with_x += weight * IQ4[level] * v;
        with_q += weight * IQ4[level] * IQ4[level];
        levels.push(level as u8);
    }
    (if with_q > 0.0 { with_x / with_q } else { 0.0 }, levels)
}

/// A row of numbers, and for each type what ggml makes of it.
#[cfg(test)]
pub type Golden = (Vec<f32>, Vec<(Type, Vec<u8>)>);

/// What `tests/golden/quantizers.txt` says.
#[cfg(test)]
pub fn golden() -> Option<Golden> {
    let byte = |hex: &str, i: usize| u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok();
    let bytes = |hex: &str| (0..hex.len() / 2).map(|i| byte(hex, i)).collect::<Option<Vec<u8>>>();
    let text = include_str!("../../../tests/golden/quantizers.txt");
    let mut lines = text.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split_once(' '));
    let numbers = bytes(lines.next()?.1)?;
    let numbers = numbers.chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
    let types: Option<_> = lines.map(|(name, hex)| Some((Type::from_name(name), bytes(hex)?))).collect();
    Some((numbers, types?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_those_of_ggml() {
        let (numbers, types) = golden().unwrap();
        assert_eq!(types.len(), 6);
        for (ty, blocks) in types {
            for (x, want) in numbers.chunks_exact(32).zip(blocks.chunks_exact(ty.bytes() as usize)) {
                let got = quantize(ty, x).unwrap();
                // ggml leaves the levels of an IQ4_NL block of zeros as they were in the block before.
                let compared = if ty == Type::IQ4_NL && x.iter().all(|v| *v == 0.0) { 2 } else { want.len() };
                assert_eq!(want[..compared], got[..compared], "{} {x:?}", ty.name());
            }
        }
    }

    #[test]
    fn halves_are_rounded_to_even() {
        let p = |n: i32| 2f32.powi(n);
        let cases = [
            (1.0, 0x3c00),
            (1.0 + p(-11), 0x3c00),
            (1.0 + 3.0 * p(-11), 0x3c02),
            (-2.0, 0xc000),
            (p(-24), 1),
            (p(-25), 0),
            (p(-14) - p(-25), 0x0400),
            (65504.0, 0x7bff),
            (65520.0, 0x7c00),
            (-0.0, 0x8000),
        ];
        for (x, want) in cases {
            assert_eq!(half_bits(x), want, "{x}");
        }
        assert_eq!(bf16_bits(1.0 + p(-8)), 0x3f80);
        assert_eq!(bf16_bits(1.0 + 3.0 * p(-8)), 0x3f82);
    }
}
