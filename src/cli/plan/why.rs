//! Why each engine computes what it computes and not the rest: the planner's reasons, with the names of the model.

use std::collections::BTreeSet;
use std::sync::Arc;

use ggml_tri::chip::model::Chip;
use ggml_tri::engine::EngineKind;
use ggml_tri::graph::Graph;
use ggml_tri::plan::Objective;
use ggml_tri::plan::assign::{Assignment, Share};
use ggml_tri::plan::costs::Costs;
use ggml_tri::plan::explain::{Explanation, Line, explain};
use ggml_tri::plan::problem::{self, Problem};
use ggml_tri::plan::split::watts;
use ggml_tri::plan::waves::waves;
use ggml_tri::plan::work::Work;

use super::report::joules;
use super::settle::Accepts;
use super::sites::Site;
use super::timeline::Timeline;
use super::units::{joule, time};

/// How many sites are told of for each engine: those that take longest.
const TOLD: usize = 3;

/// A plan on its chip, and who may compute what.
pub struct Question<'a> {
    /// The chip.
    pub chip: &'a Chip,
    /// The graph.
    pub graph: &'a Graph,
    /// The names of its nodes.
    pub sites: &'a [Option<Site>],
    /// The choices of the plan.
    pub assignment: &'a Assignment,
    /// The plan in time.
    pub timeline: &'a Timeline,
    /// Which engine computes a node.
    pub accepts: Accepts<'a>,
    /// What the plan is good for.
    pub objective: Objective,
}

/// Sentences about each engine, and about dividing rows.
pub fn why(question: &Question) -> Vec<String> {
    let costs = Costs::new(question.chip);
    let engines: Vec<_> = question.chip.processors.iter().map(|p| p.kind).collect();
    let problem = Arc::new(Problem::of(question.graph, &engines, question.accepts));
    let name = |site: &problem::Site| question.name(&problem, site);
    let mut explanation = explain(&costs, question.graph, &problem, question.assignment, question.accepts, &name);
    explanation.lines.sort_by(|a, b| (b.seconds * b.nodes as f64).total_cmp(&(a.seconds * a.nodes as f64)));
    let mut sentences = Vec::new();
    for engine in engines {
        sentences.push(question.alone(&costs, &problem, engine));
        sentences.extend(question.reasons(&costs, &explanation, engine, &name));
    }
    // Fall-backs repeat for each node.
    let fallbacks = problem.fallbacks.iter().map(|f| format!("gpu refused for {}: {}.", f.op, f.reason));
    sentences.extend(fallbacks.collect::<BTreeSet<_>>());
    if question.objective != Objective::Energy {
        let divided = explanation.lines.iter().flat_map(|line| &line.reasons);
        sentences.extend(divided.filter(|r| r.starts_with("no division")).take(TOLD).map(|r| format!("{r}.")));
    }
    sentences
}

impl Question<'_> {
    /// The names of the nodes that the planner treats alike.
    fn name(&self, problem: &Problem, site: &problem::Site) -> String {
        let alike = |item: &&problem::Item| problem.loads[item.load].site.is_some_and(|at| problem.sites[at] == *site);
        let mut names: Vec<&str> = Vec::new();
        for item in problem.items.iter().filter(alike) {
            let name = self.sites.get(item.first).copied().flatten().map(|site| site.name);
            names.extend(name.filter(|name| !names.contains(name)));
        }
        if names.is_empty() { site.words() } else { names.join(", ") }
    }

    /// What the engine has in the plan, and what the whole graph would take on it.
    fn alone(&self, costs: &Costs, problem: &Problem, engine: EngineKind) -> String {
        let alone = Timeline::of(costs, self.graph, &waves(problem, &Assignment::single(engine)).waves);
        let with_joules = |timeline: &Timeline| match self.objective {
            Objective::Energy => format!("{}, {}", time(timeline.seconds), joule(joules(self.chip, timeline))),
            _ => time(timeline.seconds),
        };
        let (name, planned) = (engine.name(), with_joules(self.timeline));
        if self.timeline.steps.iter().all(|step| step.0 == engine) {
            return format!("{name} computes the whole pass: {planned}.");
        }
        let what = match alone.steps.iter().all(|step| step.0 == engine) {
            true => "the whole pass on it",
            false => "with all that it takes on it, and the rest on the cpu, the pass",
        };
        format!("{name}: {what} would take {}; the plan takes {planned}.", with_joules(&alone))
    }

    /// Why an engine does not compute the sites that take longest.
    fn reasons(
        &self,
        costs: &Costs,
        all: &Explanation,
        engine: EngineKind,
        name: &dyn Fn(&problem::Site) -> String,
    ) -> Vec<String> {
        let begin = format!("{} refused for ", engine.name());
        let elsewhere = all.lines.iter().filter(|line| line.share != Share::Whole(engine));
        let sentence = |line: &Line| {
            let refused = self.graph.nodes.get(line.node).is_some_and(|node| (self.accepts)(engine, node).is_err());
            if self.objective == Objective::Energy && !refused {
                return self
                    .energy(costs, line, engine)
                    .map(|reason| format!("{begin}{}: {reason}.", name(&line.site)));
            }
            line.reasons.iter().find(|reason| reason.starts_with(&begin)).map(|reason| format!("{reason}."))
        };
        elsewhere.filter_map(sentence).take(TOLD).collect()
    }

    /// The planner's reasons are seconds; for the fewest joules these are what counts.
    fn energy(&self, costs: &Costs, line: &Line, engine: EngineKind) -> Option<String> {
        let Share::Whole(home) = line.share else { return None };
        let work = self.graph.nodes.get(line.node).and_then(Work::of)?;
        let of = |engine: EngineKind, seconds: f64| joule(seconds * (watts(self.chip, engine) + self.chip.idle));
        let there = of(engine, costs.launch(engine) + costs.seconds(engine, &work));
        Some(format!("it takes {there} there with its launch, {} on the {}", of(home, line.seconds), home.name()))
    }
}
