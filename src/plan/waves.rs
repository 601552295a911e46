//! From choices to the waves of a plan.

use super::assign::{Assignment, Place, place};
use super::problem::Problem;
use super::split::Parts;
use super::{Plan, Rows, Step, Wave};
use crate::engine::EngineKind;

/// The plan of a problem: runs of nodes on one engine are one step, so that launches and joins are few.
pub fn waves(problem: &Problem, assignment: &Assignment) -> Plan {
    let places: Vec<Place> = (0..problem.loads.len()).map(|load| place(problem, assignment, load)).collect();
    let mut plan = Plan { waves: Vec::new(), fallbacks: problem.fallbacks.clone() };
    // Nodes without work before the first step that can take them.
    let mut waiting: Option<Step> = None;
    for item in &problem.items {
        let step = |engine| Step { engine, first: item.first, count: item.count, computed: item.computed, rows: None };
        match &places[item.load] {
            Place::Whole(engine) => {
                let step = match waiting.take() {
                    Some(before) => Step { engine: *engine, ..joined(before, &step(*engine)) },
                    None => step(*engine),
                };
                push(&mut plan, step);
            }
            Place::Anywhere => match open(&mut plan) {
                Some(last) if waiting.is_none() => *last = joined(last.clone(), &step(last.engine)),
                _ => waiting = Some(step(EngineKind::Cpu)),
            },
            Place::Split(parts) => {
                plan.waves.extend(waiting.take().map(|step| Wave { steps: vec![step] }));
                plan.waves.push(Wave { steps: split(parts, item.first) });
            }
        }
    }
    plan.waves.extend(waiting.map(|step| Wave { steps: vec![step] }));
    plan
}

/// The steps of a divided node.
pub fn split(parts: &Parts, node: usize) -> Vec<Step> {
    let mut first = 0;
    let step = |&(engine, count): &(EngineKind, u64)| {
        let rows = Some(Rows { first, count });
        first += count;
        Step { engine, first: node, count: 1, computed: 1, rows }
    };
    parts.iter().map(step).collect()
}

/// The last step, if more nodes can be added to it.
fn open(plan: &mut Plan) -> Option<&mut Step> {
    match &mut plan.waves.last_mut()?.steps[..] {
        [step] if step.rows.is_none() => Some(step),
        _ => None,
    }
}

fn joined(step: Step, next: &Step) -> Step {
    Step { count: step.count + next.count, computed: step.computed + next.computed, ..step }
}

fn push(plan: &mut Plan, step: Step) {
    match open(plan) {
        Some(last) if last.engine == step.engine => *last = joined(last.clone(), &step),
        _ => plan.waves.push(Wave { steps: vec![step] }),
    }
}
