//! Where the planner ends on a chip that is exactly as its figures say: its own learning, played through in virtual time.
//!
//! A planner begins with the best single engine and moves only what won a trial. Playing it, instead of asking for the
//! best plan outright, shows what TRI0 would really do, margins and all.

use std::sync::Arc;

use ggml_tri::chip::model::Chip;
use ggml_tri::engine::EngineKind;
use ggml_tri::graph::{Graph, Node};
use ggml_tri::plan::assign::Assignment;
use ggml_tri::plan::costs::Costs;
use ggml_tri::plan::timing::{Report, Timing, TrialTiming};
use ggml_tri::plan::{Decision, Options, Plan, Planner, Step, Trial, Wave};

use super::timeline::{Timeline, works};

/// Passes that are played: as many tokens as the planner may use for trials.
const PASSES: usize = 512;

/// Whether an engine computes a node; an error says why not.
pub type Accepts<'a> = &'a dyn Fn(EngineKind, &Node) -> Result<(), String>;

/// The plan that stays, and how it came to be.
pub struct Settled {
    /// The plan with which the planner begins.
    pub first: Arc<Plan>,
    /// The one that it has in the end.
    pub plan: Arc<Plan>,
    /// The choices behind it.
    pub assignment: Assignment,
    /// After how many passes it had that one.
    pub passes: usize,
    /// What the planner said meanwhile.
    pub notices: Vec<String>,
    /// Seconds that it rests before each pass in the end.
    pub rest: f64,
}

/// Plays a planner.
pub fn settle(chip: &Chip, options: Options, graph: &Graph, accepts: Accepts) -> Settled {
    let costs = Costs::new(chip);
    let mut planner = Planner::new(chip.clone(), options);
    let mut decision = planner.next(graph, accepts, true);
    let (first, mut plan) = (Arc::clone(&decision.plan), Arc::clone(&decision.plan));
    let (mut passes, mut notices) = (0, std::mem::take(&mut decision.notices));
    for pass in 1..=PASSES {
        planner.observe(graph, &played(&costs, graph, &decision));
        decision = planner.next(graph, accepts, true);
        notices.append(&mut decision.notices);
        if decision.plan != plan {
            (plan, passes) = (Arc::clone(&decision.plan), pass);
        }
    }
    // The graph has a uid, so that the planner knows it; nothing else is asked for.
    let assignment = planner.assignment(graph).cloned().unwrap_or(Assignment::single(EngineKind::Cpu));
    Settled { first, plan, assignment, passes, notices, rest: decision.rest }
}

/// What the executor would measure if the costs were exact.
fn played(costs: &Costs, graph: &Graph, decision: &Decision) -> Report {
    let timeline = Timeline::of(costs, graph, &decision.plan.waves);
    Report {
        seconds: timeline.seconds,
        steps: timings(graph, &decision.plan.waves, &timeline),
        trial: decision.trial.as_ref().map(|trial| tried(costs, graph, &decision.plan, trial)),
    }
}

fn tried(costs: &Costs, graph: &Graph, plan: &Plan, trial: &Trial) -> TrialTiming {
    let candidate = Timeline::of(costs, graph, &trial.waves);
    let current = Timeline::of(costs, graph, &plan.part(graph, trial.first..trial.first + trial.count));
    let steps = timings(graph, &trial.waves, &candidate);
    TrialTiming { candidate: candidate.seconds, current: current.seconds, steps, spent: candidate.seconds }
}

fn timings(graph: &Graph, waves: &[Wave], timeline: &Timeline) -> Vec<Timing> {
    let steps = waves.iter().flat_map(|wave| &wave.steps).zip(&timeline.steps);
    let timing = |(step, (engine, begin, end)): (&Step, &(EngineKind, f64, f64))| Timing {
        engine: *engine,
        parts: works(graph, step).map(|(_, work)| work).collect(),
        seconds: end - begin,
    };
    // Steps without work are not timed.
    steps.map(timing).filter(|timing| !timing.parts.is_empty()).collect()
}
