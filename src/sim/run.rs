//! Doing what a plan says, in virtual time.

use super::bus::together;
use super::processor::{Item, Processor};
use super::{Known, Truth};
use crate::engine::EngineKind;
use crate::graph::{Graph, Node};
use crate::plan::part::part as cut;
use crate::plan::timing::{Report, Timing, TrialTiming};
use crate::plan::work::Work;
use crate::plan::{Step, Wave, runs};

/// What something costs without noise.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// Seconds.
    pub seconds: f64,
    /// Joules of the whole chip in that time.
    pub joules: f64,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.seconds += other.seconds;
        self.joules += other.joules;
    }
}

/// Share of the launch that is left when the engine was busy just before, and of its watts while it is launched.
pub const WARM: f64 = 0.7;
pub const WAITING: f64 = 0.3;
/// What a second look at the same weights takes less.
const SECOND: f64 = 0.985;

/// One wave as it was done.
pub struct Done {
    /// What it cost.
    pub cost: Cost,
    /// Seconds of each step with work, launch included, and who did it.
    pub steps: Vec<(usize, EngineKind, f64)>,
}

/// The nodes of a step that have work.
fn nodes<'a>(graph: &'a Graph, step: &Step) -> impl Iterator<Item = &'a Node> {
    graph.nodes.iter().skip(step.first).take(step.count).filter(|n| n.compute)
}

/// What a step consists of, as the planner counts it.
fn parts(graph: &Graph, step: &Step) -> Vec<Work> {
    let work = |n: &Node| Work::of(n).map(|w| step.rows.map_or(w, |r| w.with_rows(r.count)));
    nodes(graph, step).filter_map(work).collect()
}

impl Truth {
    /// The items of a step, one for each node with work.
    fn items(&self, graph: &Graph, step: &Step) -> Vec<Item> {
        let (p, rows, mut before) = (self.worker(step.engine), step.rows.map(|r| r.count), None);
        nodes(graph, step).map(|n| p.alone(n, rows, before.replace(n))).collect()
    }

    /// One wave, after one in which the engines of `previous` worked. `noise` gives each step's factor.
    pub fn wave(
        &self,
        graph: &Graph,
        wave: &Wave,
        previous: &[EngineKind],
        noise: &mut dyn FnMut(EngineKind) -> f64,
    ) -> Done {
        let worked: Vec<usize> = (0..wave.steps.len()).filter(|i| wave.steps[*i].computed > 0).collect();
        let working: Vec<&Processor> = worked.iter().map(|i| self.worker(wave.steps[*i].engine)).collect();
        let slow = self.share_of_power(&working);
        let mut lanes = Vec::with_capacity(worked.len());
        let mut launches = Vec::with_capacity(worked.len());
        for (i, p) in worked.iter().zip(&working) {
            let step = &wave.steps[*i];
            let warm = if previous.contains(&step.engine) { WARM } else { 1.0 };
            let speed = self.pace(p, slow);
            let factor = noise(step.engine);
            launches.push(p.launch * warm * factor);
            let known = self.known.get(&(graph.uid, step.clone())).filter(|_| worked.len() == 1 && graph.uid != 0);
            lanes.push(match known {
                Some(known) => vec![Item { seconds: known.seconds * factor / speed, bytes: 0.0 }],
                None => self.items(graph, step),
            });
            if known.is_none() {
                lanes.last_mut().into_iter().flatten().for_each(|item| item.seconds *= factor / speed);
            }
            lanes
                .last_mut()
                .into_iter()
                .for_each(|l| l.insert(0, Item { seconds: p.launch * warm * factor, bytes: 0.0 }));
        }
        let ends = match &lanes[..] {
            [lane] => vec![lane.iter().map(|i| i.seconds).sum()],
            lanes => together(self.bus, lanes),
        };
        let last = ends.iter().copied().fold(0.0, f64::max);
        let seconds = last + if worked.len() > 1 { self.join } else { 0.0 };
        let drawn =
            |(i, (end, launch)): (usize, (&f64, &f64))| self.watts(working[i], slow) * (end - launch * (1.0 - WAITING));
        let joules = self.idle * seconds + ends.iter().zip(&launches).enumerate().map(drawn).sum::<f64>();
        let steps =
            worked.iter().zip(&ends).map(|(i, end)| (*i, self.worker(wave.steps[*i].engine).kind, *end)).collect();
        Done { cost: Cost { seconds, joules }, steps }
    }

    /// The speed of a processor: `slow` is its share of the package's power, and heat takes from it too.
    pub fn pace(&self, p: &Processor, slow: f64) -> f64 {
        if p.link.is_none() { slow * self.heat.speed() } else { 1.0 }
    }

    /// The watts that it draws then: they rise with the third power of the clock.
    pub fn watts(&self, p: &Processor, slow: f64) -> f64 {
        p.watts * self.pace(p, slow).powi(3)
    }

    /// Clocks of processors that together would draw more than the package may.
    pub fn share_of_power(&self, working: &[&Processor]) -> f64 {
        let watts: f64 = working.iter().filter(|p| p.link.is_none()).map(|p| p.watts).sum();
        (self.package / watts.max(self.package)).cbrt()
    }

    /// What waves cost without noise, as warm as the chip is now.
    pub fn cost(&self, graph: &Graph, waves: &[Wave]) -> Cost {
        let (mut sum, mut previous) = (Cost::default(), Vec::new());
        for wave in waves {
            let done = self.wave(graph, wave, &previous, &mut |_| 1.0);
            sum += done.cost;
            previous = wave.steps.iter().map(|s| s.engine).collect();
        }
        sum
    }

    /// What everything on one engine costs, but what it refuses, which the CPU does; `None` when it computes nothing.
    pub fn single(&self, graph: &Graph, kind: EngineKind) -> Option<(Vec<Wave>, Cost)> {
        let able = |n: &Node| if self.accepts(kind, n).is_ok() { kind } else { EngineKind::Cpu };
        let waves = runs(graph, |node| node.compute.then(|| able(node)));
        let cost = self.cost(graph, &waves);
        waves.iter().flat_map(|w| &w.steps).any(|s| s.engine == kind && s.computed > 0).then_some((waves, cost))
    }

    /// Does a graph, and beside it the trial `(first, count, waves)` of some of its nodes.
    pub fn run(&mut self, graph: &Graph, waves: &[Wave], trial: Option<(usize, usize, &[Wave])>) -> Report {
        self.noise.next();
        self.learn_steps(graph, waves);
        let (cost, steps) = self.perform(graph, waves);
        let trial = trial.map(|(first, count, candidate)| self.beside(graph, waves, (first, count), candidate));
        Report { seconds: cost.seconds, steps, trial }
    }

    /// Remembers steps for the next time that the graph comes.
    fn learn_steps(&mut self, graph: &Graph, waves: &[Wave]) {
        if graph.uid == 0 {
            return;
        }
        for step in waves.iter().flat_map(|w| &w.steps) {
            let key = (graph.uid, step.clone());
            if !self.known.contains_key(&key) {
                let seconds = self.items(graph, step).iter().map(|i| i.seconds).sum();
                self.known.insert(key, Known { seconds, parts: parts(graph, step) });
            }
        }
    }

    /// Lets waves pass in virtual time.
    fn perform(&mut self, graph: &Graph, waves: &[Wave]) -> (Cost, Vec<Timing>) {
        let (mut sum, mut timings, mut previous) = (Cost::default(), Vec::new(), Vec::new());
        let mut noise = self.noise.clone();
        for wave in waves {
            let done = self.wave(graph, wave, &previous, &mut |kind| noise.factor(kind));
            for (i, engine, seconds) in done.steps {
                let step = &wave.steps[i];
                let known = self.known.get(&(graph.uid, step.clone())).filter(|_| graph.uid != 0);
                let parts = known.map_or_else(|| parts(graph, step), |k| k.parts.clone());
                timings.push(Timing { engine, parts, seconds });
            }
            sum += done.cost;
            previous = wave.steps.iter().map(|s| s.engine).collect();
        }
        self.noise = noise;
        self.clock += sum.seconds;
        self.heat.pass(sum.joules / sum.seconds.max(1e-9), sum.seconds);
        (sum, timings)
    }

    /// Some nodes twice: as the plan has them and as the trial has them. The second finds warm caches.
    fn beside(&mut self, graph: &Graph, waves: &[Wave], part: (usize, usize), candidate: &[Wave]) -> TrialTiming {
        self.trials += 1;
        let mut current = cut(waves, graph, part.0..part.0 + part.1);
        // What only renames memory takes no time.
        current.iter_mut().for_each(|w| w.steps.retain(|s| s.computed > 0));
        current.retain(|w| !w.steps.is_empty());
        let before = self.clock;
        let (plan, _) = self.perform(graph, &current);
        let (other, mut steps) = self.perform(graph, candidate);
        // The plan's own pass over these nodes is in the graph's time already; only its steps were cut, which costs launches.
        let launches: f64 = current.iter().flat_map(|w| &w.steps).map(|s| self.worker(s.engine).launch).sum();
        let spent = other.seconds + 2.0 * launches;
        self.clock = before + spent;
        let (first, second) = if self.trials.is_multiple_of(2) { (SECOND, 1.0) } else { (1.0, SECOND) };
        steps.iter_mut().for_each(|s| s.seconds *= first);
        TrialTiming { candidate: other.seconds * first, current: plan.seconds * second, steps, spent }
    }
}
