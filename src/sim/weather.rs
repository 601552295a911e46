//! What changes while a chip runs: noise that comes in spells, heat, and events.

use super::random::Random;
use crate::engine::EngineKind;

/// Deviations of times. A spell lasts some thirty graphs, so that neighbours are wrong together.
#[derive(Debug, Clone)]
pub struct Noise {
    random: Random,
    common: f64,
    own: [f64; 3],
    /// Factor of all noise: 0 for none, 1 for a quiet machine.
    pub strength: f64,
}

/// What is left of a spell after one graph.
const LASTING: f64 = 0.97;

impl Noise {
    /// The noise of a seed.
    pub fn new(random: Random) -> Noise {
        Noise { random, common: 0.0, own: [0.0; 3], strength: 1.0 }
    }

    /// Goes on to the next graph.
    pub fn next(&mut self) {
        let fresh = (1.0 - LASTING * LASTING).sqrt();
        for spell in self.own.iter_mut().chain([&mut self.common]) {
            *spell = LASTING * *spell + fresh * self.random.normal();
        }
    }

    /// The factor of one step's time.
    pub fn factor(&mut self, kind: EngineKind) -> f64 {
        let white = if kind == EngineKind::Cpu { 0.025 } else { 0.012 };
        let sum = 0.01 * self.common + 0.012 * self.own[kind as usize] + white * self.random.normal();
        // Now and then something else runs for a while.
        let pushed = if self.random.unit() < 0.002 { 0.3 * self.random.unit() } else { 0.0 };
        (self.strength * sum).exp() + self.strength * pushed
    }
}

/// The temperature of a package.
#[derive(Debug, Clone)]
pub struct Heat {
    /// Degrees Celsius at which it slows down.
    pub limit: f64,
    /// Degrees above the room for each watt in the long run.
    pub rise: f64,
    /// Seconds in which it gets 63 % of the way there.
    pub seconds: f64,
    /// Degrees Celsius around it.
    pub room: f64,
    /// Its temperature.
    pub degrees: f64,
    /// Watts of the package at work, all of it.
    pub most: f64,
}

impl Heat {
    /// Lets `watts` work for `seconds`.
    pub fn pass(&mut self, watts: f64, seconds: f64) {
        let end = self.room + self.rise * watts;
        self.degrees += (end - self.degrees) * (1.0 - (-seconds / self.seconds).exp());
    }

    /// What is left of the speed. Near the limit the firmware goes down to the watts that the cooler can take away for ever;
    /// watts rise with the third power of the clock.
    pub fn speed(&self) -> f64 {
        let sustained = ((self.limit - self.room) / self.rise / self.most).clamp(0.06, 1.0).cbrt();
        let near = ((self.degrees - self.limit) / NEAR + 1.0).clamp(0.0, 1.0);
        1.0 - near * (1.0 - sustained)
    }
}

/// Degrees below the limit at which slowing down begins.
const NEAR: f64 = 5.0;

/// Something that happens to a chip.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    /// A driver update: the processor is so many times as fast from now on.
    Driver(EngineKind, f64),
    /// The room, or a blocked fan, makes it so many degrees warmer, so that it slows down when it works.
    Warmer(f64),
    /// Another program takes this share of the CPU, and disturbs.
    Busy(f64),
    /// The processor dies.
    Dies(EngineKind),
}
