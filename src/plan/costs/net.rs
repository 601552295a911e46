//! A tiny neural predictor of how far the chip's figures are off, for what a roofline cannot say: occupancy steps, caches,
//! cliffs between widths. 444 bytes of weights, one hidden layer, trained online.

use crate::engine::EngineKind;
use crate::plan::work::{Kind, Work};

const INPUTS: usize = 9;
const HIDDEN: usize = 10;
/// Weights into the hidden layer, its biases, weights out of it, the last bias.
pub const WEIGHTS: usize = INPUTS * HIDDEN + HIDDEN + HIDDEN + 1;
const _: () = assert!(WEIGHTS * size_of::<f32>() <= 512);

/// How much of an error one observation removes.
const RATE: f32 = 0.1;
/// Predictions stay within e^3 of the chip's figures.
const LIMIT: f32 = 3.0;

/// The predictor.
#[derive(Debug, Clone, PartialEq)]
pub struct Net {
    weights: [f32; WEIGHTS],
}

/// What the predictor sees of a work, each about -1 to 1.
pub type Features = [f32; INPUTS];

/// The features of a work on an engine.
pub fn features(engine: EngineKind, work: &Work) -> Features {
    let log = |x: f64| x.max(1.0).log2() as f32;
    let flag = |on: bool| if on { 1.0 } else { 0.0 };
    [
        flag(engine == EngineKind::Gpu),
        flag(engine == EngineKind::Npu),
        log(work.m as f64) / 8.0 - 1.5,
        log(work.k as f64) / 8.0 - 1.5,
        log(work.n as f64) / 4.0 - 1.0,
        log(work.operations() / work.bytes().max(1.0)) / 5.0 - 1.0,
        flag(work.kind == Kind::Other),
        flag(work.kind == Kind::Attention),
        work.ty.bytes() as f32 / work.ty.block() as f32 / 2.0,
    ]
}

impl Default for Net {
    /// Small weights from a fixed sequence, and an output of zero: the chip's figures as they are.
    fn default() -> Net {
        let mut state = 0x2545_f491_u32;
        let mut weights = [0.0; WEIGHTS];
        for w in &mut weights[..INPUTS * HIDDEN] {
            // The constants are those of Numerical Recipes' generator.
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *w = (state >> 8) as f32 / (1 << 23) as f32 - 1.0;
        }
        Net { weights }
    }
}

impl Net {
    /// The weights, for the profile.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// A predictor with these weights; `None` unless they are as many as there must be, and numbers.
    pub fn with_weights(weights: &[f32]) -> Option<Net> {
        let weights: [f32; WEIGHTS] = weights.try_into().ok()?;
        weights.iter().all(|w| w.is_finite()).then_some(Net { weights })
    }

    fn hidden(&self, input: &Features) -> [f32; HIDDEN] {
        std::array::from_fn(|h| {
            let row = &self.weights[h * INPUTS..(h + 1) * INPUTS];
            let sum: f32 = row.iter().zip(input).map(|(w, x)| w * x).sum();
            let sum = sum + self.weights[INPUTS * HIDDEN + h];
            // A leaky ramp: `tanh` differs between C libraries, and the same input must give the same plan everywhere.
            if sum > 0.0 { sum } else { 0.1 * sum }
        })
    }

    /// The logarithm of true over prior seconds.
    pub fn predict(&self, input: &Features) -> f64 {
        let hidden = self.hidden(input);
        let out = &self.weights[INPUTS * HIDDEN + HIDDEN..];
        let sum: f32 = hidden.iter().zip(out).map(|(h, w)| h * w).sum::<f32>() + out[HIDDEN];
        f64::from(sum.clamp(-LIMIT, LIMIT))
    }

    /// Learns that the logarithm of a step's seconds was `error` above its prediction, when each part of the step has its
    /// features and its share of the predicted seconds. A step towards the observation, normalised by the gradient's length.
    pub fn learn(&mut self, parts: &[(Features, f64)], error: f64) {
        let mut gradient = [0.0_f32; WEIGHTS];
        for (input, share) in parts {
            let (hidden, share) = (self.hidden(input), *share as f32);
            let (bias, out) = (INPUTS * HIDDEN, INPUTS * HIDDEN + HIDDEN);
            for h in 0..HIDDEN {
                gradient[out + h] += share * hidden[h];
                let back = share * self.weights[out + h] * if hidden[h] > 0.0 { 1.0 } else { 0.1 };
                gradient[bias + h] += back;
                for (g, x) in gradient[h * INPUTS..(h + 1) * INPUTS].iter_mut().zip(input) {
                    *g += back * x;
                }
            }
            gradient[out + HIDDEN] += share;
        }
        let length: f32 = gradient.iter().map(|g| g * g).sum();
        // One outlier moves the weights by no more than half a logarithm would.
        let step = RATE * (error as f32).clamp(-0.5, 0.5) / (length + 1e-3);
        for (w, g) in self.weights.iter_mut().zip(gradient) {
            *w += step * g;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Type;

    fn work(m: u64, n: u64) -> Work {
        Work { kind: Kind::Product, ty: Type::Q4_0, m, k: 2048, n, depth: 1, used: 1 }
    }

    #[test]
    fn an_untaught_net_believes_the_chip() {
        assert_eq!(Net::default().predict(&features(EngineKind::Gpu, &work(2048, 1))), 0.0);
    }

    #[test]
    fn a_cliff_between_widths_is_learned() {
        let mut net = Net::default();
        let truth = |n: u64| if n > 8 { 1.0 } else { 0.0 };
        for round in 0..4000 {
            let n = [1, 2, 4, 8, 9, 12, 16][round % 7];
            let input = features(EngineKind::Gpu, &work(1024 << (round % 3), n));
            let error = truth(n) - net.predict(&input);
            net.learn(&[(input, 1.0)], error);
        }
        for n in [1, 4, 12, 16] {
            let said = net.predict(&features(EngineKind::Gpu, &work(2048, n)));
            assert!((said - truth(n)).abs() < 0.3, "width {n}: {said}");
        }
    }

    #[test]
    fn weights_survive_a_profile_and_nonsense_is_refused() {
        let mut net = Net::default();
        net.learn(&[(features(EngineKind::Cpu, &work(64, 3)), 1.0)], 0.4);
        assert_eq!(Net::with_weights(net.weights()), Some(net.clone()));
        assert_eq!(Net::with_weights(&net.weights()[1..]), None);
        assert_eq!(Net::with_weights(&[f32::NAN; WEIGHTS]), None);
    }
}
