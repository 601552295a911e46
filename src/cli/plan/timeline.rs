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
    /// Lays waves out one after the other. A wave of several engines lasts as long as the slowest of them and as long as
    /// the memory that they share needs, and costs a join; so the planner counts too.
    pub fn of(costs: &Costs, graph: &Graph, waves: &[Wave]) -> Timeline {
        let mut timeline = Timeline::default();
        for wave in waves {
            let begin = timeline.seconds;
            let (pieces, steps) = (timeline.pieces.len(), timeline.steps.len());
            for step in &wave.steps {
                timeline.step(costs, graph, step, begin);
            }
            let slowest = timeline.steps[steps..].iter().fold(begin, |end, step| end.max(step.2));
            timeline.seconds = slowest;
            if wave.steps.len() > 1 {
                let end = begin + shared(costs, graph, wave);
                if end > slowest {
                    timeline.stretch(pieces, steps, begin, (end - begin) / (slowest - begin));
                }
                timeline.seconds = slowest.max(end) + costs.join();
            }
        }
        timeline
    }

    /// Engines that wait for the memory that they share all become slower.
    fn stretch(&mut self, pieces: usize, steps: usize, begin: f64, factor: f64) {
        let later = |at: f64| begin + (at - begin) * factor;
        for piece in &mut self.pieces[pieces..] {
            (piece.begin, piece.seconds) = (later(piece.begin), piece.seconds * factor);
        }
        for step in &mut self.steps[steps..] {
            step.2 = later(step.2);
        }
    }

    fn step(&mut self, costs: &Costs, graph: &Graph, step: &Step, begin: f64) {
        let mut at = begin;
        for (node, work) in works(graph, step) {
            if at == begin {
                at += costs.launch(step.engine);
            }
            let seconds = costs.seconds(step.engine, &work);
            self.pieces.push(Piece { engine: step.engine, node, rows: step.rows, work, begin: at, seconds });
            at += seconds;
        }
        self.steps.push((step.engine, begin, at));
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

/// Seconds that the shared memory needs for all steps of a wave, from the first launch on.
fn shared(costs: &Costs, graph: &Graph, wave: &Wave) -> f64 {
    let first = wave.steps.iter().map(|s| costs.launch(s.engine)).fold(f64::INFINITY, f64::min);
    let works: Vec<_> = wave.steps.iter().flat_map(|s| works(graph, s).map(|(_, work)| (s.engine, work))).collect();
    first + costs.bus(&works)
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
        let narrow = Costs::new(&ggml_tri::chip::model::Chip { bus: chip.bus / 1000.0, ..chip });
        let timeline = Timeline::of(&narrow, &graph, &[wave(m / 2)]);
        let ends = timeline.steps.iter().map(|step| step.2).fold(0.0, f64::max);
        assert!((timeline.seconds - ends - costs.join()).abs() < 1e-9 * ends, "both wait for the memory");
        assert!(timeline.seconds > 100.0 * Timeline::of(&costs, &graph, &[wave(m / 2)]).seconds);
    }
}
