//! When each engine does what, if the costs are right: the plan laid out in time.

use ggml_tri::engine::EngineKind;
use ggml_tri::graph::Graph;
use ggml_tri::plan::costs::Costs;
use ggml_tri::plan::work::Work;
use ggml_tri::plan::{Rows, Step, Wave};

/// One node, or an engine's rows of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// Who computes it.
    pub engine: EngineKind,
    /// Its index in the graph.
    pub node: usize,
    /// The rows, if others compute the rest.
    pub rows: Option<Rows>,
    /// What it consists of.
    pub work: Work,
    /// Seconds from the begin of the graph.
    pub begin: f64,
    /// How many seconds it takes.
    pub seconds: f64,
}

/// A graph laid out in time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// What is computed, by wave and engine.
    pub pieces: Vec<Piece>,
    /// When each step begins, launch included, and ends, in the order of the plan.
    pub steps: Vec<(EngineKind, f64, f64)>,
    /// When all is done.
    pub seconds: f64,
}

impl Timeline {
    /// Lays waves out one after the other, as the planner counts: a step costs a launch, a wave of several engines lasts as
    /// long as the slowest of them and costs a join.
    pub fn of(costs: &Costs, graph: &Graph, waves: &[Wave]) -> Timeline {
        let mut timeline = Timeline::default();
        for wave in waves {
            match &wave.steps[..] {
                [step] => timeline.alone(costs, graph, step),
                steps => timeline.beside(costs, graph, steps),
            }
        }
        timeline
    }

    fn alone(&mut self, costs: &Costs, graph: &Graph, step: &Step) {
        let begin = self.seconds;
        for (node, work) in works(graph, step) {
            if self.seconds == begin {
                self.seconds += costs.launch(step.engine);
            }
            let seconds = costs.seconds(step.engine, &work);
            let (engine, rows) = (step.engine, step.rows);
            self.pieces.push(Piece { engine, node, rows, work, begin: self.seconds, seconds });
            self.seconds += seconds;
        }
        self.steps.push((step.engine, begin, self.seconds));
    }

    /// The engines of a wave divide one node, so that each step has one work.
    fn beside(&mut self, costs: &Costs, graph: &Graph, steps: &[Step]) {
        let begin = self.seconds;
        let parts: Vec<_> =
            steps.iter().filter_map(|step| works(graph, step).next().map(|first| (step, first))).collect();
        let asked: Vec<(EngineKind, Work)> = parts.iter().map(|(step, (_, work))| (step.engine, *work)).collect();
        for ((step, (node, work)), seconds) in parts.into_iter().zip(costs.beside(&asked)) {
            let (engine, rows, launch) = (step.engine, step.rows, costs.launch(step.engine));
            self.pieces.push(Piece { engine, node, rows, work, begin: begin + launch, seconds: seconds - launch });
            self.steps.push((engine, begin, begin + seconds));
            self.seconds = self.seconds.max(begin + seconds);
        }
        self.seconds += costs.join();
    }

    /// Seconds during which an engine has a step.
    pub fn busy(&self, engine: EngineKind) -> f64 {
        // Adding to 0, since the sum of nothing is -0.
        self.steps.iter().filter(|step| step.0 == engine).fold(0.0, |sum, step| sum + (step.2 - step.1))
    }
}

/// The works of a step with the indices of their nodes.
pub fn works<'a>(graph: &'a Graph, step: &'a Step) -> impl Iterator<Item = (usize, Work)> + 'a {
    let nodes = graph.nodes.iter().enumerate().skip(step.first).take(step.count);
    nodes.filter_map(|(i, node)| {
        let work = Work::of(node)?;
        Some((i, step.rows.map_or(work, |rows| work.with_rows(rows.count))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ggml_tri::chip::catalog;
    use ggml_tri::graph::shapes::Model;

    fn step(engine: EngineKind, first: usize, count: usize, rows: Option<Rows>) -> Step {
        Step { engine, first, count, computed: count as u64, rows }
    }

    #[test]
    fn one_engine_takes_the_sum_of_its_nodes_and_one_launch() {
        let costs = Costs::new(&catalog::find("8840U").unwrap().chip());
        let graph = Model::smollm2_135m().graph(1, 256);
        let wave = Wave { steps: vec![step(EngineKind::Gpu, 0, graph.nodes.len(), None)] };
        let timeline = Timeline::of(&costs, &graph, &[wave]);
        let sum: f64 = graph.nodes.iter().filter_map(Work::of).map(|w| costs.seconds(EngineKind::Gpu, &w)).sum();
        assert!((timeline.seconds - sum - costs.launch(EngineKind::Gpu)).abs() < 1e-12);
        assert_eq!((timeline.busy(EngineKind::Gpu), timeline.busy(EngineKind::Cpu)), (timeline.seconds, 0.0));
        assert_eq!(timeline.pieces.len() as u64, graph.computed());
    }

    #[test]
    fn engines_side_by_side_end_with_the_slower_one_or_with_the_memory() {
        let chip = catalog::find("8840U").unwrap().chip();
        let costs = Costs::new(&chip);
        let graph = Model::llama_8b().graph(1, 256);
        let node = graph.nodes.iter().position(|n| n.op == "MUL_MAT").unwrap();
        let m = graph.nodes[node].dst.ne[0] as u64;
        let rows = |first, count| Some(Rows { first, count });
        let (cpu, gpu) = (EngineKind::Cpu, EngineKind::Gpu);
        let wave = |half: u64| Wave {
            steps: vec![step(cpu, node, 1, rows(0, half)), step(gpu, node, 1, rows(half, m - half))],
        };
        let timeline = Timeline::of(&costs, &graph, &[wave(m - 32)]);
        assert_eq!(timeline.seconds, timeline.busy(cpu) + costs.join());
        assert_eq!(timeline.pieces.iter().map(|p| p.work.m).collect::<Vec<_>>(), [m - 32, 32]);
        let narrow = Costs::new(&ggml_tri::chip::model::Chip { bus: chip.bus / 1000.0, ..chip });
        let timeline = Timeline::of(&narrow, &graph, &[wave(m / 2)]);
        let ends = timeline.steps.iter().map(|step| step.2).fold(0.0, f64::max);
        assert!((timeline.seconds - ends - costs.join()).abs() < 1e-9 * ends, "both wait for the memory");
        assert!(timeline.seconds > 100.0 * Timeline::of(&costs, &graph, &[wave(m / 2)]).seconds);
    }
}
