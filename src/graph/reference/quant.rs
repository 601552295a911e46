//! The values of quantised blocks, one element at a time, from where its bits lie in the block.

use crate::graph::Type;

/// Element `k` of a row of this type. Types that are no weights (integers, `Q8_1`, `Other`) have the value NaN.
pub fn value(ty: Type, row: &[u8], k: usize) -> f32 {
    let (elements, bytes) = (ty.block() as usize, ty.bytes() as usize);
    let Some(block) = row.get(k / elements * bytes..).and_then(|rest| rest.get(..bytes)) else { return f32::NAN };
    let (b, i) = (Block(block), k % elements);
    match ty {
        Type::F32 => f32::from_bits(b.bits(0, 32)),
        Type::F16 => b.half(0),
        Type::BF16 => f32::from_bits(b.bits(0, 16) << 16),
        Type::Q4_0 => b.half(0) * (b.split_nibble(2, i) - 8) as f32,
        Type::Q4_1 => b.half(0) * b.split_nibble(4, i) as f32 + b.half(2),
        Type::Q5_0 => b.half(0) * (b.split_nibble(6, i) + 16 * b.bit(2, i) - 16) as f32,
        Type::Q5_1 => b.half(0) * (b.split_nibble(8, i) + 16 * b.bit(4, i)) as f32 + b.half(2),
        Type::Q8_0 => b.half(0) * b.signed(2 + i) as f32,
        Type::Q2_K => {
            let (scale, minimum) = (b.bits(8 * (i / 16), 4), b.bits(8 * (i / 16) + 4, 4));
            b.half(80) * scale as f32 * b.crumb(16, i) as f32 - b.half(82) * minimum as f32
        }
        Type::Q3_K => {
            let part = i / 16;
            let low = b.bits(8 * (96 + part % 8) + 4 * (part / 8), 4) as i32;
            let high = b.bits(8 * (104 + part % 4) + 2 * (part / 4), 2) as i32;
            let third = b.bits(8 * (i % 32) + i / 32, 1) as i32;
            b.half(108) * (low + 16 * high - 32) as f32 * (b.crumb(32, i) + 4 * third - 4) as f32
        }
        Type::Q4_K => b.with_minimum(i, b.paired_nibble(16, i)),
        Type::Q5_K => b.with_minimum(i, b.paired_nibble(48, i) + 16 * b.bits(8 * (16 + i % 32) + i / 32, 1) as i32),
        Type::Q6_K => {
            let low = b.bits(8 * (i / 128 * 64 + i % 64) + i % 128 / 64 * 4, 4) as i32;
            b.half(208) * b.signed(192 + i / 16) as f32 * (low + 16 * b.crumb(128, i) - 32) as f32
        }
        Type::IQ4_NL => b.half(0) * IQ4[b.split_nibble(2, i) as usize],
        Type::IQ4_XS => {
            let scale = b.bits(8 * 4 + 4 * (i / 32), 4) + 16 * b.bits(8 * 2 + 2 * (i / 32), 2);
            b.half(0) * (scale as f32 - 32.0) * IQ4[b.split_nibble(8 + i / 32 * 16, i % 32) as usize]
        }
        Type::MXFP4 => (f64::from(e2m1(b.split_nibble(1, i))) * 2_f64.powi(b.bits(0, 8) as i32 - 127)) as f32,
        _ => f32::NAN,
    }
}

/// The 16 values of `IQ4_NL` and `IQ4_XS`.
const IQ4: [f32; 16] = [-127., -104., -83., -65., -49., -35., -22., -10., 1., 13., 25., 38., 53., 69., 89., 113.];

/// A float of four bits: sign, two bits of exponent, one of mantissa.
fn e2m1(bits: i32) -> f32 {
    let size = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][bits as usize & 7];
    if bits & 8 == 0 { size } else { -size }
}

/// A half-precision float.
fn half(bits: u32) -> f32 {
    let (exponent, mantissa) = ((bits >> 10 & 31) as i32, f64::from(bits & 1023));
    let size = match exponent {
        0 => mantissa * 2_f64.powi(-24),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (mantissa + 1024.0) * 2_f64.powi(exponent - 25),
    };
    (if bits & 0x8000 == 0 { size } else { -size }) as f32
}

/// The bytes of a block; bits count from the lowest of byte 0.
struct Block<'a>(&'a [u8]);

impl Block<'_> {
    fn bits(&self, first: usize, count: usize) -> u32 {
        (0..count).map(|n| u32::from(self.0[(first + n) / 8] >> ((first + n) % 8) & 1) << n).sum()
    }

    fn bit(&self, byte: usize, n: usize) -> i32 {
        self.bits(8 * byte + n, 1) as i32
    }

    fn half(&self, byte: usize) -> f32 {
        half(self.bits(8 * byte, 16))
    }

    fn signed(&self, byte: usize) -> i32 {
        i32::from(self.0[byte] as i8)
    }

    /// 32 elements in 16 bytes: first the low nibbles, then the high ones.
    fn split_nibble(&self, byte: usize, i: usize) -> i32 {
        self.bits(8 * (byte + i % 16) + i / 16 * 4, 4) as i32
    }

    /// As `split_nibble` for every 64 elements in 32 bytes.
    fn paired_nibble(&self, byte: usize, i: usize) -> i32 {
        self.bits(8 * (byte + i / 64 * 32 + i % 32) + i % 64 / 32 * 4, 4) as i32
    }

    /// Two bits: 128 elements in 32 bytes, the four of a byte 32 elements apart.
    fn crumb(&self, byte: usize, i: usize) -> i32 {
        self.bits(8 * (byte + i / 128 * 32 + i % 32) + i % 128 / 32 * 2, 2) as i32
    }

    /// Scale and minimum of `Q4_K` and `Q5_K`: eight of each, six bits. Bytes 4..8 hold the scales of the first four parts
    /// and, above, two high bits of the last four; bytes 8..12 the same of minima; bytes 12..16 the low bits of the last four.
    fn with_minimum(&self, i: usize, q: i32) -> f32 {
        let part = i / 32;
        let six = |first: usize, nibble: usize| match part {
            0..4 => self.bits(8 * (first + part), 6),
            _ => self.bits(8 * (8 + part) + nibble, 4) + 16 * self.bits(8 * (first + part - 4) + 6, 2),
        };
        self.half(0) * six(4, 0) as f32 * q as f32 - self.half(2) * six(8, 4) as f32
    }
}

/// A row of blocks of noise for tests: random bits, but scales that are ordinary numbers below 2.
#[cfg(test)]
pub fn sample(ty: Type, seed: u64, elements: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    let mut row: Vec<u8> = (0..elements as u64 / ty.block() * ty.bytes()).map(|_| byte()).collect();
    let halves: &[usize] = match ty {
        Type::F16 | Type::Q4_0 | Type::Q5_0 | Type::Q8_0 | Type::IQ4_NL | Type::IQ4_XS => &[0],
        Type::Q4_1 | Type::Q5_1 | Type::Q4_K | Type::Q5_K => &[0, 2],
        Type::Q2_K => &[80, 82],
        Type::Q3_K => &[108],
        Type::Q6_K => &[208],
        _ => &[],
    };
    for block in row.chunks_exact_mut(ty.bytes() as usize) {
        for &at in halves {
            block[at + 1] = block[at + 1] & 0x83 | 0x38;
        }
        match ty {
            Type::F32 => (block[2], block[3]) = (block[2] & 0x7f, block[3] & 0x80 | 0x3f),
            Type::BF16 => block[1] = block[1] & 0x80 | 0x3f,
            Type::MXFP4 => block[0] = 120 + block[0] % 8,
            _ => {}
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line: type, bytes of a row in hexadecimal, bits of its values as the Python package gguf computes them.
    const GOLDEN: &str = include_str!("../../../tests/golden/quants.txt");

    fn words(hex: &str, digits: usize) -> impl Iterator<Item = u32> {
        (0..hex.len() / digits).map(move |i| u32::from_str_radix(&hex[i * digits..][..digits], 16).unwrap())
    }

    #[test]
    fn values_are_those_of_the_gguf_package() {
        let mut seen = 0;
        for line in GOLDEN.lines().filter(|l| !l.starts_with('#')) {
            let [name, row, values] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
            let ty = Type::from_name(name);
            let row: Vec<u8> = words(row, 2).map(|b| b as u8).collect();
            assert_eq!(row.len() as u64 * ty.block(), values.len() as u64 / 8 * ty.bytes(), "{name}");
            for (k, want) in words(values, 8).enumerate() {
                let (want, got) = (f32::from_bits(want), value(ty, &row, k));
                // Equal numbers: every value is an exact product, or one rounded once. The sign of zero is left open.
                assert!(want == got, "{name} element {k}: {want} {got}");
            }
            seen += 1;
        }
        assert_eq!(seen, 16);
    }

    #[test]
    fn half_covers_subnormal_and_special_numbers() {
        let cases =
            [(0x3c00, 1.0), (0xc000, -2.0), (0x0001, 5.960_464_5e-8), (0x7bff, 65504.0), (0x7c00, f32::INFINITY)];
        for (bits, want) in cases {
            assert_eq!(half(bits), want);
        }
        assert!(half(0x7e00).is_nan());
    }
}
