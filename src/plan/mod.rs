//! WHO computes which part of a graph, and in which layout weights are held.
//!
//! Pure room: same input, same plan. Planning cannot fail: the worst plan is "everything on the CPU".

mod adapt;
pub mod assign;
pub mod costs;
mod drift;
pub mod explain;
mod explore;
mod group;
pub mod layout;
pub mod learn;
mod notice;
mod observe;
mod options;
pub mod part;
pub mod problem;
mod rest;
pub mod search;
pub mod split;
#[cfg(test)]
mod testing;
pub mod timing;
pub mod waves;
pub mod work;

pub use learn::Planner;
pub use options::{Decision, Mode, Objective, Options, Quota, Trial};

use crate::engine::EngineKind;
use crate::graph::{Graph, Node};

/// Rows of a product: `first .. first + count` of the rows of its weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rows {
    /// The first row.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// One engine's share: the nodes `first .. first + count` of the graph, or some rows of one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Step {
    /// Who computes.
    pub engine: EngineKind,
    /// Index of the first node.
    pub first: usize,
    /// Number of nodes in graph order.
    pub count: usize,
    /// How many of them compute something.
    pub computed: u64,
    /// The rows of the only node, a product, if others compute the rest.
    pub rows: Option<Rows>,
}

/// Steps that may run at once; the next wave begins when all are done.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Wave {
    /// The steps, each of another engine.
    pub steps: Vec<Step>,
}

/// A node that was planned on the CPU though a GPU is there, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// ggml's name of the operation.
    pub op: &'static str,
    /// A sentence with the numbers.
    pub reason: String,
}

/// The waves of one graph, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The waves; together they are the whole graph, each node, or each row of a divided one, once.
    pub waves: Vec<Wave>,
    /// What the GPU does not compute.
    pub fallbacks: Vec<Fallback>,
}

impl Plan {
    /// Whether an engine has a step.
    pub fn uses(&self, engine: EngineKind) -> bool {
        self.steps().any(|s| s.engine == engine)
    }

    /// All steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.waves.iter().flat_map(|w| &w.steps)
    }
}

/// Whether an engine computes a node; an error says why not.
pub type Accepts<'a> = &'a dyn Fn(&Node) -> Result<(), String>;

/// Waves of one step each, as long as possible: each node on the engine that `choose` says. A node of which it says nothing
/// goes wherever its neighbours go.
pub fn runs(graph: &Graph, mut choose: impl FnMut(&Node) -> Option<EngineKind>) -> Vec<Wave> {
    let mut waves: Vec<Wave> = Vec::new();
    for (first, node) in graph.nodes.iter().enumerate() {
        let (engine, computed) = (choose(node), u64::from(node.compute));
        match waves.last_mut().and_then(|w| w.steps.last_mut()) {
            Some(step) if engine.is_none_or(|e| e == step.engine) => {
                step.count += 1;
                step.computed += computed;
            }
            _ => {
                let engine = engine.unwrap_or(EngineKind::Cpu);
                waves.push(Wave { steps: vec![Step { engine, first, count: 1, computed, rows: None }] });
            }
        }
    }
    waves
}

/// Plans a graph: each node on the GPU that `gpu` accepts, all others on the CPU, in graph order.
/// Without a GPU the plan is one step.
pub fn plan(graph: &Graph, gpu: Option<Accepts>) -> Plan {
    let mut fallbacks = Vec::new();
    let waves = runs(graph, |node| match gpu.filter(|_| node.compute).map(|accepts| accepts(node)) {
        Some(Ok(())) => Some(EngineKind::Gpu),
        Some(Err(reason)) => {
            fallbacks.push(Fallback { op: node.op, reason });
            Some(EngineKind::Cpu)
        }
        None if gpu.is_some() => None,
        None => Some(EngineKind::Cpu),
    });
    Plan { waves, fallbacks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Tensor, Type};
    use proptest::prelude::*;

    fn nodes() -> impl Strategy<Value = Vec<Node>> {
        let node = (prop::sample::select(vec!["MUL_MAT", "ADD", "VIEW"]), any::<bool>(), 1..64_i64);
        prop::collection::vec(
            node.prop_map(|(op, compute, n)| Node {
                compute,
                ..Node::new(op, Tensor::new(Type::F32, [n, 1, 1, 1]), &[])
            }),
            0..50,
        )
    }

    proptest! {
        #[test]
        fn every_node_is_in_exactly_one_step_and_in_order(nodes in nodes(), uid: u64, gpu: bool) {
            let graph = Graph { uid, nodes };
            let accepts = |n: &Node| if n.op == "ADD" { Err("no".to_owned()) } else { Ok(()) };
            let plan = plan(&graph, gpu.then_some(&accepts));
            let mut next = 0;
            for step in plan.steps() {
                prop_assert_eq!(step.first, next);
                let part = &graph.nodes[step.first..step.first + step.count];
                prop_assert_eq!(step.computed, part.iter().filter(|n| n.compute).count() as u64);
                let on_gpu = gpu && step.engine == EngineKind::Gpu;
                prop_assert!(part.iter().filter(|n| n.compute).all(|n| on_gpu == (gpu && n.op != "ADD")));
                next += step.count;
            }
            prop_assert_eq!(next, graph.nodes.len());
        }

        #[test]
        fn the_same_graph_gives_the_same_plan(nodes in nodes()) {
            let graph = Graph { uid: 1, nodes };
            prop_assert_eq!(plan(&graph, None), plan(&graph.clone(), None));
        }
    }
}

#[cfg(test)]
mod learn_tests;
#[cfg(test)]
mod plan_tests;
