//! Who computes which sites, and what a graph then takes.

use super::costs::Costs;
use super::problem::{ENGINES, Problem, Site, index};
use super::split::{Measure, Parts, watts, wave};
use crate::engine::EngineKind;
use std::collections::BTreeMap;

/// Who computes a site.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Share {
    /// One engine.
    Whole(EngineKind),
    /// Several, each some rows, in the order of the rows.
    Split(Parts),
}

/// The choices of a plan; a function of sites alone, so that it serves all widths of a class.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Assignment {
    /// Who computes everything that is not listed.
    pub home: EngineKind,
    /// Sites that are computed elsewhere.
    pub shares: BTreeMap<Site, Share>,
}

impl Assignment {
    /// Everything on one engine, as far as it accepts it.
    pub fn single(home: EngineKind) -> Assignment {
        Assignment { home, shares: BTreeMap::new() }
    }

    /// Who computes a site.
    pub fn share(&self, site: &Site) -> Share {
        self.shares.get(site).cloned().unwrap_or(Share::Whole(self.home))
    }

    /// The same with another choice for a site.
    pub fn with(&self, site: Site, share: Share) -> Assignment {
        let mut other = self.clone();
        if share == Share::Whole(self.home) {
            other.shares.remove(&site);
        } else {
            other.shares.insert(site, share);
        }
        other
    }
}

/// What becomes of the items with one load.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// One engine computes them.
    Whole(EngineKind),
    /// Several engines compute the rows of a product side by side.
    Split(Parts),
    /// There is nothing to compute.
    Anywhere,
}

/// Applies an assignment to a load: what an engine refuses goes to the first one that does not, of which the CPU is asked first.
pub fn place(problem: &Problem, assignment: &Assignment, load: usize) -> Place {
    let load = &problem.loads[load];
    let accepts = |engine: EngineKind| load.accepted[index(engine)];
    let other = || ENGINES.into_iter().find(|e| accepts(*e)).unwrap_or(EngineKind::Cpu);
    let whole = |engine| Place::Whole(if accepts(engine) { engine } else { other() });
    let Some(site) = load.site else {
        return if load.parts.is_empty() { Place::Anywhere } else { whole(assignment.home) };
    };
    match assignment.shares.get(&problem.sites[site]) {
        Some(Share::Split(parts)) if parts.iter().all(|p| load.accepted[index(p.0)]) => Place::Split(parts.clone()),
        Some(Share::Whole(engine)) => whole(*engine),
        // Where only some of the engines accept it, the first of them that does.
        Some(Share::Split(parts)) => whole(parts.iter().map(|p| p.0).max().unwrap_or(assignment.home)),
        None => whole(assignment.home),
    }
}

/// What each load takes on each engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Prices {
    whole: Vec<[f64; 3]>,
    launch: [f64; 3],
    relaunch: [f64; 3],
    watts: [f64; 3],
    idle: f64,
}

/// What a placed load takes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Priced {
    Whole(usize, f64),
    /// With the engines that work on it.
    Split(Measure, [bool; 3]),
    Free,
}

impl Prices {
    /// The prices of a problem. `strain` makes an engine look slower: 2 for one that may work half of the time.
    pub fn of(costs: &Costs, problem: &Problem, strain: [f64; 3]) -> Prices {
        let works: Vec<[f64; 3]> = problem
            .works
            .iter()
            .map(|work| std::array::from_fn(|e| costs.seconds(ENGINES[e], work) * strain[e]))
            .collect();
        let sum = |load: &super::problem::Load, e: usize| -> f64 {
            load.parts.iter().map(|(work, count)| works[*work][e] * f64::from(*count)).sum()
        };
        let whole = problem.loads.iter().map(|load| std::array::from_fn(|e| sum(load, e))).collect();
        let chip = costs.chip();
        Prices {
            whole,
            launch: ENGINES.map(|e| costs.launch(e)),
            relaunch: ENGINES.map(|e| costs.launch_after(e, true)),
            watts: ENGINES.map(|e| watts(chip, e)),
            idle: chip.idle.max(0.0),
        }
    }

    /// Seconds of a load on an engine, without the launch of a step.
    pub fn seconds(&self, load: usize, engine: EngineKind) -> f64 {
        self.whole[load][index(engine)]
    }

    /// What the problem takes with an assignment: the seconds of its waves one after the other, and all joules.
    pub fn measure(&self, costs: &Costs, problem: &Problem, assignment: &Assignment) -> Measure {
        let priced: Vec<Priced> =
            (0..problem.loads.len()).map(|load| self.price(costs, problem, assignment, load)).collect();
        let (mut total, mut open, mut warm) = (Measure::default(), None, [false; 3]);
        for item in &problem.items {
            match priced[item.load] {
                Priced::Free => {}
                Priced::Whole(engine, seconds) => {
                    let launch = match open {
                        Some(last) if last == engine => 0.0,
                        _ if warm[engine] => self.relaunch[engine],
                        _ => self.launch[engine],
                    };
                    open = Some(engine);
                    warm = [false; 3];
                    warm[engine] = true;
                    total.seconds += launch + seconds;
                    total.joules += seconds * self.watts[engine];
                }
                Priced::Split(wave, engines) => {
                    (open, warm) = (None, engines);
                    total.seconds += wave.seconds;
                    total.joules += wave.joules;
                }
            }
        }
        total.joules += total.seconds * self.idle;
        total
    }

    fn price(&self, costs: &Costs, problem: &Problem, assignment: &Assignment, load: usize) -> Priced {
        match place(problem, assignment, load) {
            Place::Anywhere => Priced::Free,
            Place::Whole(engine) => Priced::Whole(index(engine), self.seconds(load, engine)),
            Place::Split(parts) => {
                let work = problem.loads[load].parts.first().map(|p| problem.works[p.0]);
                let engines = ENGINES.map(|e| parts.iter().any(|p| p.0 == e));
                Priced::Split(work.map_or(Measure::default(), |work| wave(costs, &work, &parts)), engines)
            }
        }
    }

    /// What all nodes of a site take by themselves, without launches that they share with others.
    pub fn site(&self, costs: &Costs, problem: &Problem, assignment: &Assignment, site: &Site) -> Measure {
        let mut total = Measure::default();
        let Ok(at) = problem.sites.binary_search(site) else { return total };
        for item in problem.items.iter().filter(|item| problem.loads[item.load].site == Some(at)) {
            let one = match self.price(costs, problem, assignment, item.load) {
                Priced::Whole(engine, seconds) => Measure { seconds, joules: seconds * self.watts[engine] },
                Priced::Split(wave, _) => wave,
                Priced::Free => Measure::default(),
            };
            total.seconds += one.seconds;
            total.joules += one.joules + one.seconds * self.idle;
        }
        total
    }
}
