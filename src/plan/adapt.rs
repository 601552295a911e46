//! What to try and what to change: searches over what is known, and over what is hoped.

use super::assign::{Assignment, Share};
use super::costs::Costs;
use super::explore::{Probe, SURVEYS, Subject, TRIALS, engines};
use super::group::Group;
use super::options::{Mode, Options};
use super::problem::{Problem, Site, index};
use super::search::{Mix, Priced, Question};
use super::split::{forced, unit, wave};
use super::work::Work;
use crate::engine::EngineKind;
use std::sync::Arc;

/// A change must win by this part of the time of what it changes.
pub const MARGIN: f64 = 0.05;
/// And by this part of the graph's time, for less is not worth a line in the log.
pub const WORTH: f64 = 0.005;
/// Forced shares come in multiples of this many rows, whatever the engines could do.
const QUOTA_ROWS: u64 = 32;

/// What decisions are made from.
pub struct Weighing<'a> {
    /// What is believed of the costs.
    pub costs: &'a Costs,
    /// What the user wants.
    pub options: &'a Options,
    /// The engines that there are.
    pub engines: &'a [EngineKind],
    /// How much slower each looks than it is.
    pub strain: [f64; 3],
}

/// A better assignment.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The assignment.
    pub to: Assignment,
    /// The part of the graph's time or energy that it is expected to save.
    pub gain: f64,
}

/// The assignment with which a group begins: the best single engine, or better where everything that it takes was learned
/// before, with another model or in another process.
pub fn begin(costs: &Costs, options: &Options, engines: &[EngineKind], problem: &Arc<Problem>) -> Assignment {
    let mix = Mix { problems: vec![(Arc::clone(problem), 1.0)] };
    let weighing = Weighing { costs, options, engines, strain: [1.0; 3] };
    let single = weighing.priced(&mix, &|_, _| true, engines, |priced| priced.single().1);
    if let Some(quota) = &options.quota {
        let rows = unit(costs.chip(), engines).max(QUOTA_ROWS);
        let divided = |to: Assignment, site: &Site| match forced(site.m, rows, &quota.shares) {
            Some(parts) if site.divisible() => to.with(*site, Share::Split(parts)),
            _ => to,
        };
        return problem.sites.iter().fold(single, divided);
    }
    if options.mode == Mode::Off {
        return single;
    }
    let homes: Vec<EngineKind> =
        engines.iter().copied().filter(|e| *e == single.home || home_known(costs, &mix, *e)).collect();
    let allowed = |site: &Site, share: &Share| *share == Share::Whole(single.home) || known(costs, &mix, site, share);
    weighing.priced(&mix, &allowed, &homes, |priced| priced.best(Some(&single)).1)
}

impl Weighing<'_> {
    fn priced<T>(
        &self,
        mix: &Mix,
        allowed: &dyn Fn(&Site, &Share) -> bool,
        homes: &[EngineKind],
        then: impl FnOnce(&Priced) -> T,
    ) -> T {
        let (costs, objective, strain) = (self.costs, self.options.objective, self.strain);
        then(&Priced::new(&Question { costs, objective, strain, margin: MARGIN, allowed, homes }, mix))
    }

    /// A better assignment for a group, of what was tried or is known.
    pub fn change(&self, group: &Group) -> Option<Change> {
        let (mix, now) = (group.mix(), &group.assignment);
        let allowed = |site: &Site, share: &Share| {
            now.share(site) == *share
                || known(self.costs, &mix, site, share)
                || group.explore.knows(Subject::Site(*site), share)
        };
        let home = |e: &EngineKind| {
            *e == now.home || group.explore.knows(Subject::Rest, &Share::Whole(*e)) || home_known(self.costs, &mix, *e)
        };
        let homes: Vec<EngineKind> = self.engines.iter().copied().filter(home).collect();
        self.priced(&mix, &allowed, &homes, |priced| {
            let (before, (after, to)) = (priced.score(now), priced.best(Some(now)));
            let gain = (before - after) / before;
            let again = group.rejected.iter().any(|other| alike(other, &to, &priced.sites()));
            let moved = if to.home == now.home { 0.0 } else { MARGIN };
            (gain > WORTH.max(moved) && !again && to != *now).then_some(Change { to, gain })
        })
    }

    /// What must be measured before anything can be compared: each site by itself, as the plan has it. A graph's time alone
    /// does not tell what its parts take.
    fn surveys(&self, group: &Group) -> Vec<Probe> {
        let (mix, home) = (group.mix(), Share::Whole(group.assignment.home));
        let sites = mix.problems.iter().flat_map(|(problem, _)| &problem.sites);
        let mut sites: Vec<Site> = sites.filter(|site| group.assignment.share(site) == home).copied().collect();
        sites.sort_unstable();
        sites.dedup();
        sites.retain(|site| !known(self.costs, &mix, site, &home));
        let subjects = sites.into_iter().map(Subject::Site).chain([Subject::Rest]);
        let new = subjects.filter(|subject| !group.explore.tried(*subject, &home));
        new.map(|subject| Probe { subject, share: home.clone(), times: SURVEYS }).collect()
    }

    /// What is worth trying for a group: how the assignment differs from the best one that can be hoped for.
    pub fn probes(&self, group: &Group) -> Vec<Probe> {
        let (mix, now, hopeful) = (group.mix(), &group.assignment, self.costs.hopeful());
        let hoping = Weighing { costs: &hopeful, ..*self };
        // With one engine there is nothing to compare.
        let surveys = if self.engines.len() > 1 { self.surveys(group) } else { Vec::new() };
        if !surveys.is_empty() {
            return surveys;
        }
        hoping.priced(&mix, &|_, _| true, self.engines, |priced| {
            let (score, best) = priced.best(Some(now));
            if score > priced.score(now) * (1.0 - WORTH) {
                return Vec::new();
            }
            let mut probes = Vec::new();
            let home = Share::Whole(best.home);
            if best.home != now.home && !home_known(self.costs, &mix, best.home) {
                probes.push(Probe { subject: Subject::Rest, share: home, times: TRIALS });
            }
            for site in priced.sites() {
                let share = best.share(&site);
                if share != now.share(&site) && !known(self.costs, &mix, &site, &share) {
                    probes.push(Probe { subject: Subject::Site(site), share, times: TRIALS });
                }
            }
            probes.retain(|probe| !group.explore.knows(probe.subject, &probe.share));
            probes
        })
    }
}

/// A trial of a watched engine: the cheapest product of the graph.
pub fn watch(problem: &Problem, engine: EngineKind) -> Option<Probe> {
    let loads = problem.loads.iter().filter(|load| load.accepted[index(engine)]);
    let sites = loads.filter_map(|load| load.site).map(|at| problem.sites[at]).filter(|s| s.divisible());
    let site = sites.min_by_key(|s| s.m.saturating_mul(s.k))?;
    Some(Probe { subject: Subject::Site(site), share: Share::Whole(engine), times: TRIALS })
}

/// Seconds that a trial takes beside the graph: itself, and that the plan's own step is cut in three for it.
pub fn price(costs: &Costs, home: EngineKind, probe: &Probe, works: &[Work]) -> f64 {
    let cut = 2.0 * costs.launch(home);
    cut + match &probe.share {
        Share::Whole(engine) => {
            costs.launch(*engine) + works.iter().map(|work| costs.seconds(*engine, work)).sum::<f64>()
        }
        Share::Split(parts) => works.iter().map(|work| wave(costs, work, parts).seconds).sum(),
    }
}

/// Whether every work of a site was measured as a choice would have it done.
fn known(costs: &Costs, mix: &Mix, site: &Site, share: &Share) -> bool {
    let works = mix.problems.iter().flat_map(|(problem, _)| {
        let at = problem.sites.binary_search(site).ok();
        let loads = problem.loads.iter().filter(move |load| at.is_some() && load.site == at);
        loads.flat_map(|load| &load.parts).map(|part| problem.works[part.0])
    });
    let mut works = works.peekable();
    works.peek().is_some()
        && works.all(|work| match share {
            Share::Whole(engine) => costs.known(*engine, &work),
            Share::Split(parts) => costs.known_beside(&super::split::works(&work, parts)),
        })
}

/// Whether most of what goes home was measured on an engine.
fn home_known(costs: &Costs, mix: &Mix, engine: EngineKind) -> bool {
    let (mut all, mut measured) = (0.0, 0.0);
    for (problem, _) in &mix.problems {
        for (work, count) in problem.loads.iter().filter(|l| l.site.is_none()).flat_map(|l| &l.parts) {
            let work = &problem.works[*work];
            let seconds = f64::from(*count) * costs.seconds(engine, work);
            all += seconds;
            measured += if costs.known(engine, work) { seconds } else { 0.0 };
        }
    }
    measured >= 0.5 * all
}

/// Whether two assignments differ in nothing but numbers of rows.
fn alike(a: &Assignment, b: &Assignment, sites: &[Site]) -> bool {
    a.home == b.home && sites.iter().all(|site| engines(&a.share(site)) == engines(&b.share(site)))
}
