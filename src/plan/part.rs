//! A part of a plan.

use super::{Plan, Step, Wave};
use crate::graph::Graph;
use std::ops::Range;

impl Plan {
    /// As [`part`], of the whole plan.
    pub fn part(&self, graph: &Graph, range: Range<usize>) -> Vec<Wave> {
        part(&self.waves, graph, range)
    }
}

/// The waves of the nodes in a range: steps that reach beyond it are cut.
pub fn part(waves: &[Wave], graph: &Graph, range: Range<usize>) -> Vec<Wave> {
    let cut = |step: &Step| {
        let (first, end) = (step.first.max(range.start), (step.first + step.count).min(range.end));
        let nodes = graph.nodes.get(first..end).filter(|nodes| !nodes.is_empty())?;
        let computed = nodes.iter().filter(|n| n.compute).count() as u64;
        Some(Step { first, count: end - first, computed, ..*step })
    };
    let waves = waves.iter().map(|wave| Wave { steps: wave.steps.iter().filter_map(cut).collect() });
    waves.filter(|wave| !wave.steps.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Rows;
    use super::*;
    use crate::engine::EngineKind;
    use crate::graph::{Node, Tensor, Type};

    #[test]
    fn parts_are_the_whole_together() {
        let node =
            |i: usize| Node { compute: i % 3 != 1, ..Node::new("ADD", Tensor::new(Type::F32, [4, 1, 1, 1]), &[]) };
        let graph = Graph { uid: 1, nodes: (0..9).map(node).collect() };
        let step = |engine, first: usize, count: usize, rows| {
            let computed = graph.nodes[first..first + count].iter().filter(|n| n.compute).count() as u64;
            Step { engine, first, count, computed, rows }
        };
        let half = |first| Some(Rows { first, count: 2 });
        let (cpu, gpu) = (EngineKind::Cpu, EngineKind::Gpu);
        let waves = vec![
            Wave { steps: vec![step(gpu, 0, 5, None)] },
            Wave { steps: vec![step(cpu, 5, 1, half(0)), step(gpu, 5, 1, half(2))] },
            Wave { steps: vec![step(gpu, 6, 3, None)] },
        ];
        let plan = Plan { waves, fallbacks: Vec::new() };
        assert_eq!(plan.part(&graph, 0..9), plan.waves);
        for cut in 0..=9 {
            let parts = [plan.part(&graph, 0..cut), plan.part(&graph, cut..9)].concat();
            let nodes = |waves: &[Wave], rows: bool| -> Vec<(usize, Option<Rows>)> {
                let steps = waves.iter().flat_map(|w| &w.steps).filter(|s| s.rows.is_some() == rows);
                steps.flat_map(|s| (s.first..s.first + s.count).map(|i| (i, s.rows))).collect()
            };
            assert_eq!(nodes(&parts, false), nodes(&plan.waves, false), "cut at {cut}");
            assert_eq!(nodes(&parts, true), nodes(&plan.waves, true), "cut at {cut}");
            let computed: u64 = parts.iter().flat_map(|w| &w.steps).map(|s| s.computed).sum();
            assert_eq!(computed, plan.steps().map(|s| s.computed).sum::<u64>());
        }
    }
}
