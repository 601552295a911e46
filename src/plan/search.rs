//! The best assignment by what is believed of the costs: from each single engine, one site after the other is moved or
//! divided while that helps.

use super::assign::{Assignment, Prices, Share};
use super::costs::Costs;
use super::options::Objective;
use super::problem::{ENGINES, Problem, Site, index};
use super::split::{Measure, fill};
use crate::engine::EngineKind;
use std::sync::Arc;

/// Graphs of one model that have one assignment, and how much each counts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mix {
    /// (problem, weight).
    pub problems: Vec<(Arc<Problem>, f64)>,
}

/// What is asked of a search.
pub struct Question<'a> {
    /// What is believed.
    pub costs: &'a Costs,
    /// What is good.
    pub objective: Objective,
    /// How much slower each engine looks than it is, by index.
    pub strain: [f64; 3],
    /// By which part of a site's seconds a change of it must win.
    pub margin: f64,
    /// Whether a choice may be made for a site.
    pub allowed: &'a dyn Fn(&Site, &Share) -> bool,
    /// The engines that may be home.
    pub homes: &'a [EngineKind],
}

/// A problem mix with its prices.
pub struct Priced<'a> {
    question: &'a Question<'a>,
    mix: &'a Mix,
    prices: Vec<Prices>,
}

impl<'a> Priced<'a> {
    /// Looks up all prices.
    pub fn new(question: &'a Question, mix: &'a Mix) -> Priced<'a> {
        let prices = mix.problems.iter().map(|(p, _)| Prices::of(question.costs, p, question.strain)).collect();
        Priced { question, mix, prices }
    }

    /// What the mix takes with an assignment.
    pub fn measure(&self, assignment: &Assignment) -> Measure {
        let mut total = Measure::default();
        for ((problem, weight), prices) in self.mix.problems.iter().zip(&self.prices) {
            let one = prices.measure(self.question.costs, problem, assignment);
            total.seconds += weight * one.seconds;
            total.joules += weight * one.joules;
        }
        total
    }

    /// What is to be small.
    pub fn score(&self, assignment: &Assignment) -> f64 {
        let measure = self.measure(assignment);
        match self.question.objective {
            Objective::Speed | Objective::Quiet => measure.seconds,
            Objective::Energy => measure.joules,
        }
    }

    /// The best single engine.
    pub fn single(&self) -> (f64, Assignment) {
        let all = self.question.homes.iter().map(|&home| Assignment::single(home));
        let scored = all.map(|a| (self.score(&a), a));
        // The first of equals; without a home there is still the CPU.
        scored
            .reduce(|best, next| if next.0 < best.0 { next } else { best })
            .unwrap_or_else(|| (f64::INFINITY, Assignment::single(EngineKind::Cpu)))
    }

    /// The best assignment that was found, with its score: never worse than the best single engine, nor than `from`.
    pub fn best(&self, from: Option<&Assignment>) -> (f64, Assignment) {
        let starts = self.question.homes.iter().map(|&home| Assignment::single(home)).chain(from.cloned());
        let found = starts.map(|start| self.climb(start));
        found.reduce(|best, next| if next.0 < best.0 { next } else { best }).unwrap_or_else(|| self.single())
    }

    /// Changes one site at a time while that helps.
    fn climb(&self, start: Assignment) -> (f64, Assignment) {
        let mut best = (self.score(&start), start);
        let options: Vec<(Site, Vec<Share>)> = self.sites().into_iter().map(|s| (s, self.options(&s))).collect();
        for _ in 0..3 {
            let before = best.0;
            for (site, shares) in &options {
                for share in shares {
                    if best.1.share(site) == *share {
                        continue;
                    }
                    let other = best.1.with(*site, share.clone());
                    let score = self.score(&other);
                    // A hair is no gain: the sum's rounding differs by order.
                    let gain = (self.question.margin * self.site_score(site, &best.1)).max(1e-9 * best.0);
                    if score < best.0 - gain {
                        best = (score, other);
                    }
                }
            }
            if best.0 >= before {
                break;
            }
        }
        best
    }

    /// What a site has in the score of an assignment.
    fn site_score(&self, site: &Site, assignment: &Assignment) -> f64 {
        let mut total = Measure::default();
        for ((problem, weight), prices) in self.mix.problems.iter().zip(&self.prices) {
            let one = prices.site(self.question.costs, problem, assignment, site);
            total.seconds += weight * one.seconds;
            total.joules += weight * one.joules;
        }
        match self.question.objective {
            Objective::Speed | Objective::Quiet => total.seconds,
            Objective::Energy => total.joules,
        }
    }

    /// The sites of the mix, each once.
    pub fn sites(&self) -> Vec<Site> {
        let mut sites: Vec<Site> = self.mix.problems.iter().flat_map(|(p, _)| p.sites.iter().copied()).collect();
        sites.sort_unstable();
        sites.dedup();
        sites
    }

    /// What may be chosen for a site.
    pub fn options(&self, site: &Site) -> Vec<Share> {
        // The work by which it is divided: that of the problem with the largest weight.
        let holds = |problem: &Problem| {
            let at = problem.sites.binary_search(site).ok()?;
            let load = problem.loads.iter().find(|l| l.site == Some(at))?;
            Some((problem.works[load.parts.first()?.0], load.accepted))
        };
        let found = self.mix.problems.iter().filter_map(|(p, weight)| Some((holds(p)?, *weight)));
        let Some(((work, accepted), _)) = found.reduce(|a, b| if b.1 > a.1 { b } else { a }) else { return Vec::new() };
        let chip = self.question.costs.chip();
        let engines: Vec<EngineKind> =
            ENGINES.into_iter().filter(|e| accepted[index(*e)] && chip.processor(*e).is_some()).collect();
        let mut shares: Vec<Share> = engines.iter().map(|&e| Share::Whole(e)).collect();
        if site.divisible() {
            for set in 0..1_u32 << engines.len() {
                let some: Vec<EngineKind> =
                    engines.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, e)| *e).collect();
                if some.len() > 1 {
                    shares.extend(fill(self.question.costs, &work, &some).map(Share::Split));
                }
            }
        }
        shares.retain(|share| (self.question.allowed)(site, share));
        shares.dedup();
        shares
    }
}
