//! WHO computes which part of a graph, and in which layout weights are held.
//!
//! Pure room: same input, same plan. Planning cannot fail: the worst plan is "everything on the CPU".

pub mod layout;

use crate::engine::EngineKind;
use crate::graph::Graph;

/// One engine's share: the nodes `first .. first + count` of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Who computes.
    pub engine: EngineKind,
    /// Index of the first node.
    pub first: usize,
    /// Number of nodes in graph order.
    pub count: usize,
    /// How many of them compute something.
    pub computed: u64,
}

/// The steps of one graph, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The steps; together they are the whole graph, each node once.
    pub steps: Vec<Step>,
}

/// Plans a graph. This version has one engine, so the plan is one step.
pub fn plan(graph: &Graph) -> Plan {
    let step = Step { engine: EngineKind::Cpu, first: 0, count: graph.nodes.len(), computed: graph.computed() };
    Plan { steps: vec![step] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Node, Tensor, Type};
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
        fn every_node_is_in_exactly_one_step_and_in_order(nodes in nodes(), uid: u64) {
            let graph = Graph { uid, nodes };
            let plan = plan(&graph);
            let mut next = 0;
            for step in &plan.steps {
                prop_assert_eq!(step.first, next);
                let part = &graph.nodes[step.first..step.first + step.count];
                prop_assert_eq!(step.computed, part.iter().filter(|n| n.compute).count() as u64);
                next += step.count;
            }
            prop_assert_eq!(next, graph.nodes.len());
        }

        #[test]
        fn the_same_graph_gives_the_same_plan(nodes in nodes()) {
            let graph = Graph { uid: 1, nodes };
            prop_assert_eq!(plan(&graph), plan(&graph.clone()));
        }
    }
}
