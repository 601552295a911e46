//! What work costs on each engine: the chip's figures at first, what was measured later.
//!
//! A roofline whose terms have learned factors, and beside it a tiny neural predictor; for each class of work the one that
//! predicted better before it was told the answer is used.

mod beside;
mod entries;
mod filter;
mod net;
pub mod param;
mod prior;

use super::timing::Timing;
use super::work::Work;
use crate::chip::model::Chip;
use crate::engine::EngineKind;
pub use entries::{Entries, Entry, Score};
use filter::Filter;
use net::{Features, Net, features};
use param::{Key, Param};
pub use prior::FEW;
use prior::Terms;
use std::collections::BTreeMap;

/// The latest observations weigh this much in a measured error.
const RECENT: f64 = 0.1;
/// The net is used for a class after this many observations of it, and when its error is that much smaller.
const PROOF: (f64, f64) = (8.0, 0.85);

/// So many observations make a class known.
const ENOUGH: f64 = 3.0;

/// What is believed of the engines' costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    chip: Chip,
    filter: Filter,
    net: Net,
    scores: BTreeMap<Key, Score>,
    /// By how many standard deviations what is not known is believed to be faster.
    hope: f64,
}

/// The seconds of a work by the roofline, with the parts that each factor has in them.
struct Predicted {
    seconds: f64,
    /// (factor, derivative of `seconds` by its value).
    slopes: [(Param, f64); 4],
}

impl Costs {
    /// The chip's figures.
    pub fn new(chip: &Chip) -> Costs {
        Costs { chip: chip.clone(), filter: Filter::default(), net: Net::default(), scores: BTreeMap::new(), hope: 0.0 }
    }

    /// The same costs as an optimist reads them: what is not known yet may be faster. With these it is decided what to try.
    pub fn hopeful(&self) -> Costs {
        Costs { hope: 1.0, ..self.clone() }
    }

    /// The chip.
    pub fn chip(&self) -> &Chip {
        &self.chip
    }

    /// Seconds that an engine needs for a work when nothing else runs, without the launch of its step; infinite for an
    /// engine that the chip does not have.
    pub fn seconds(&self, engine: EngineKind, work: &Work) -> f64 {
        let Some(terms) = self.terms(engine, work) else { return f64::INFINITY };
        if self.hope > 0.0 {
            let sober = self.by_roofline(engine, work, &terms).seconds;
            return sober * (-self.hope * self.doubt(engine, work)).exp();
        }
        if self.scores.get(&Key::of(engine, work)).is_some_and(Score::prefers_net) {
            return self.by_net(&terms, &features(engine, work));
        }
        self.by_roofline(engine, work, &terms).seconds
    }

    /// Seconds that an engine needs to begin a step and to say that it is done.
    pub fn launch(&self, engine: EngineKind) -> f64 {
        let prior = self.chip.processor(engine).map_or(0.0, |p| p.launch.max(0.0));
        prior * self.filter.factor(Param::Launch(engine)) * self.hoped(Param::Launch(engine))
    }

    /// The same for a step whose engine was at work in the wave before, `warm`, or not.
    pub fn launch_after(&self, engine: EngineKind, warm: bool) -> f64 {
        let param = Param::Relaunch(engine);
        self.launch(engine) * if warm { self.filter.factor(param) * self.hoped(param) } else { 1.0 }
    }

    /// How an optimist reads a factor.
    fn hoped(&self, param: Param) -> f64 {
        if self.hope <= 0.0 {
            return 1.0;
        }
        (-self.hope * self.filter.variance(param).sqrt() / (1.0 + self.filter.weight(param))).exp()
    }

    /// Seconds that letting engines go on together costs after they ran side by side.
    pub fn join(&self) -> f64 {
        self.chip.join.max(0.0)
    }

    /// Doubts all that was learned about an engine, which has changed; the answer is how many factors that are.
    pub fn forget(&mut self, engine: EngineKind) -> usize {
        // What was learned of the old speed says nothing of which predictor is better at the new one.
        self.scores.iter_mut().filter(|s| s.0.engine == engine).for_each(|s| s.1.weight = s.1.weight.min(1.0));
        self.filter.forget(engine)
    }

    /// The standard deviation of the logarithm of [`Costs::seconds`]: how much is not known.
    pub fn doubt(&self, engine: EngineKind, work: &Work) -> f64 {
        let Some(terms) = self.terms(engine, work) else { return 0.0 };
        let predicted = self.by_roofline(engine, work, &terms);
        let variance = |(param, slope): (Param, f64)| self.filter.variance(param) * (slope / predicted.seconds).powi(2);
        // The filter's variances are independent, so a class that was measured itself is better known than their sum says.
        let seen = 1.0 + self.filter.weight(Param::Class(Key::of(engine, work)));
        predicted.slopes.into_iter().map(variance).sum::<f64>().sqrt() / seen
    }

    /// Whether works of this class were measured on an engine often enough to be relied on.
    pub fn known(&self, engine: EngineKind, work: &Work) -> bool {
        self.filter.weight(Param::Class(Key::of(engine, work))) >= ENOUGH
    }

    /// Whether an engine was measured at all, so that its figures are more than a data sheet.
    pub fn acquainted(&self, engine: EngineKind, work: &Work) -> bool {
        let sides = [Param::Memory(engine), Param::Arithmetic(engine, work.n > FEW)];
        sides.into_iter().map(|side| self.filter.weight(side)).sum::<f64>() >= ENOUGH
    }

    /// The measured errors of the predictors for a work.
    pub fn score(&self, engine: EngineKind, work: &Work) -> Option<Score> {
        self.scores.get(&Key::of(engine, work)).copied()
    }

    /// Learns from a step that ran alone; the answer is the logarithm of measured over predicted seconds.
    pub fn observe(&mut self, timing: &Timing) -> Option<f64> {
        self.observe_parts(timing.engine, &counted(&timing.parts), timing.seconds, false)
    }

    /// Learns from a step that ran alone, whose works come with how often each is in it, `warm` if its engine
    /// was at work in the wave before; the answer is that of
    /// [`Costs::observe`].
    pub fn observe_parts(
        &mut self,
        engine: EngineKind,
        parts: &[(Work, u32)],
        seconds: f64,
        warm: bool,
    ) -> Option<f64> {
        if !(seconds.is_finite() && seconds > 0.0) {
            return None;
        }
        let mut slopes: BTreeMap<Param, f64> = BTreeMap::new();
        let launch = self.launch_after(engine, warm);
        let (mut total, mut total_net) = (launch, launch);
        let mut shares: Vec<(Key, Features, f64, f64)> = Vec::with_capacity(parts.len());
        for (work, count) in parts {
            let terms = self.terms(engine, work)?;
            let (times, input) = (f64::from(*count), features(engine, work));
            let predicted = self.by_roofline(engine, work, &terms);
            let by_net = self.by_net(&terms, &input) * times;
            total += predicted.seconds * times;
            total_net += by_net;
            for (param, slope) in predicted.slopes {
                *slopes.entry(param).or_default() += slope * times;
            }
            shares.push((Key::of(engine, work), input, predicted.seconds * times, by_net));
        }
        *slopes.entry(Param::Launch(engine)).or_default() += launch;
        if warm {
            *slopes.entry(Param::Relaunch(engine)).or_default() += launch;
        }
        if total <= 0.0 || total_net <= 0.0 {
            return None;
        }
        let (error, error_net) = ((seconds / total).ln(), (seconds / total_net).ln());
        for (key, _, by_roofline, _) in &shares {
            let score = self.scores.entry(*key).or_default();
            let share = by_roofline / total;
            let step =
                if score.weight < 1.0 / RECENT { share / (score.weight + share).max(1e-9) } else { share * RECENT };
            score.roofline += step * (error.abs() - score.roofline);
            score.net += step * (error_net.abs() - score.net);
            score.weight += share;
        }
        let taught: Vec<(Features, f64)> = shares.iter().map(|s| (s.1, s.3 / total_net)).collect();
        self.net.learn(&taught, error_net);
        let slopes: Vec<(Param, f64)> = slopes.into_iter().map(|(p, slope)| (p, slope / total)).collect();
        self.filter.learn(&slopes, error);
        Some(error)
    }

    fn terms(&self, engine: EngineKind, work: &Work) -> Option<Terms> {
        self.chip.processor(engine).map(|p| prior::terms(p, work))
    }

    fn by_net(&self, terms: &Terms, input: &Features) -> f64 {
        (terms.memory.max(terms.arithmetic) + terms.node) * self.net.predict(input).exp()
    }

    fn by_roofline(&self, engine: EngineKind, work: &Work, terms: &Terms) -> Predicted {
        let many = work.n > FEW;
        let sides = [Param::Memory(engine), Param::Arithmetic(engine, many)];
        let kernel = Param::Kernel(engine, work.kind, work.ty, many);
        let (class, node) = (Param::Class(Key::of(engine, work)), Param::Node(engine));
        let memory = terms.memory * self.filter.factor(sides[0]);
        let arithmetic = terms.arithmetic * self.filter.factor(sides[1]);
        let side = if memory >= arithmetic { sides[0] } else { sides[1] };
        let own = self.filter.factor(kernel) * self.filter.factor(class);
        let (busy, overhead) = (memory.max(arithmetic) * own, terms.node * self.filter.factor(node));
        // A kernel's factor is that of its work; a class is right about everything that its nodes cost.
        let overhead = overhead * self.filter.factor(class);
        let seconds = busy + overhead;
        Predicted { seconds, slopes: [(side, busy), (kernel, busy), (node, overhead), (class, seconds)] }
    }
}

/// The distinct works, and how often each is there.
pub fn counted(works: &[Work]) -> Vec<(Work, u32)> {
    let mut counts: BTreeMap<Work, u32> = BTreeMap::new();
    for work in works {
        *counts.entry(*work).or_default() += 1;
    }
    counts.into_iter().collect()
}

#[cfg(test)]
#[path = "costs_tests.rs"]
mod tests;
