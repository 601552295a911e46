//! Learns a rearrangement of bits from examples, and undoes it.
//!
//! ggml-cpu's repacked layouts move the bits of a few rows about and flip some of them; each processor has its own, and
//! ggml offers no way back. Instead of a second copy of that knowledge, the rearrangement is learned by having ggml
//! repack patterns: in pattern k, each input bit holds bit k of its own position, so that the outputs spell out for
//! every output bit where it came from. One more example with arbitrary bits checks what was learned.

/// For each output bit: the input bit that it comes from, and whether it is flipped on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rearrangement {
    source: Vec<u32>,
    flip: Vec<u8>,
}

impl Rearrangement {
    /// Learns what `f` does to `bytes` bytes; `None` when `f` gives none back or is not a rearrangement of bits.
    pub fn learn(bytes: usize, mut f: impl FnMut(&[u8]) -> Option<Vec<u8>>) -> Option<Rearrangement> {
        let bits = u32::try_from(bytes.checked_mul(8)?).ok()?;
        let flip = f(&vec![0; bytes])?;
        let mut source = vec![0; bits as usize];
        let mut k = 0;
        while k < 32 && (bits.saturating_sub(1) >> k) != 0 {
            let mut pattern = vec![0; bytes];
            for i in (0..bits).filter(|i| i >> k & 1 == 1) {
                pattern[i as usize / 8] |= 1 << (i % 8);
            }
            let seen = f(&pattern)?;
            for (j, from) in source.iter_mut().enumerate() {
                *from |= u32::from((seen[j / 8] ^ flip[j / 8]) >> (j % 8) & 1) << k;
            }
            k += 1;
        }
        let mut used = vec![false; bits as usize];
        for &from in &source {
            if from >= bits || std::mem::replace(&mut used[from as usize], true) {
                return None;
            }
        }
        let learned = Rearrangement { source, flip };
        let arbitrary: Vec<u8> =
            (0..bytes).map(|i| (i.wrapping_mul(167).wrapping_add(i / 251 * 31) >> 1) as u8).collect();
        let seen = f(&arbitrary)?;
        (learned.undo(&seen) == arbitrary).then_some(learned)
    }

    /// The input that gives `output`.
    ///
    /// # Panics
    /// When `output` has another size than the one learned.
    pub fn undo(&self, output: &[u8]) -> Vec<u8> {
        assert_eq!(output.len(), self.flip.len());
        let mut input = vec![0; output.len()];
        for (j, &from) in self.source.iter().enumerate() {
            let bit = (output[j / 8] ^ self.flip[j / 8]) >> (j % 8) & 1;
            input[from as usize / 8] |= bit << (from % 8);
        }
        input
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_shuffle_with_flips_is_learned_and_undone(
            (order, flips, data) in (1..12_usize).prop_flat_map(|n| {
                let order = Just((0..n * 8).collect::<Vec<_>>()).prop_shuffle();
                (order, prop::collection::vec(any::<u8>(), n), prop::collection::vec(any::<u8>(), n))
            })
        ) {
            let shuffle = |input: &[u8]| {
                let mut out = flips.clone();
                for (j, &i) in order.iter().enumerate() {
                    out[j / 8] ^= (input[i / 8] >> (i % 8) & 1) << (j % 8);
                }
                Some(out)
            };
            let learned = Rearrangement::learn(data.len(), shuffle).unwrap();
            prop_assert_eq!(learned.undo(&shuffle(&data).unwrap()), data);
        }
    }

    #[test]
    fn what_loses_or_mixes_bits_is_not_learned() {
        assert_eq!(Rearrangement::learn(4, |x| Some(vec![x[0], x[1], x[2], x[2]])), None);
        assert_eq!(Rearrangement::learn(4, |x| Some(vec![x[0], x[1], x[2], x[3] ^ (x[0] & x[1])])), None);
        assert_eq!(Rearrangement::learn(4, |_| None), None);
    }
}
