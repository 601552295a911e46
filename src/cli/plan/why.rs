//! Why each engine computes what it computes and not the rest, with the numbers.

use std::collections::BTreeMap;

use ggml_tri::chip::model::Chip;
use ggml_tri::engine::EngineKind;
use ggml_tri::graph::Graph;
use ggml_tri::plan::assign::Assignment;
use ggml_tri::plan::costs::Costs;
use ggml_tri::plan::problem::Problem;
use ggml_tri::plan::split::{fill, wave};
use ggml_tri::plan::waves::waves;
use ggml_tri::plan::work::Work;

use super::report::{Why, joules};
use super::settle::Accepts;
use super::sites::Site;
use super::timeline::Timeline;
use super::units::{percent, time};

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
    /// The plan.
    pub timeline: &'a Timeline,
    /// Which engine computes a node.
    pub accepts: Accepts<'a>,
    /// Whether joules matter.
    pub energy: bool,
}

/// The nodes of one name and size that one engine computes whole.
struct Case<'a> {
    name: &'static str,
    home: EngineKind,
    node: usize,
    work: &'a Work,
    count: usize,
    seconds: f64,
}

/// Sentences for each engine of the chip.
pub fn why(question: &Question) -> Vec<Why> {
    let costs = Costs::new(question.chip);
    let cases = cases(question);
    let of = |engine: EngineKind| {
        let mut sentences = vec![question.alone(&costs, engine)];
        let elsewhere = cases.iter().filter(|case| case.home != engine);
        sentences.extend(elsewhere.take(TOLD).map(|case| question.not_here(&costs, engine, case)));
        Why { engine: engine.name(), sentences }
    };
    question.chip.processors.iter().map(|p| of(p.kind)).collect()
}

/// Whole nodes by name and size, those that take longest together first.
fn cases<'a>(question: &Question<'a>) -> Vec<Case<'a>> {
    let mut cases: BTreeMap<(&str, Work, EngineKind), Case> = BTreeMap::new();
    for piece in question.timeline.pieces.iter().filter(|piece| piece.rows.is_none()) {
        let Some(site) = question.sites.get(piece.node).copied().flatten() else { continue };
        let new =
            Case { name: site.name, home: piece.engine, node: piece.node, work: &piece.work, count: 0, seconds: 0.0 };
        let case = cases.entry((site.name, piece.work, piece.engine)).or_insert(new);
        case.count += 1;
        case.seconds += piece.seconds;
    }
    let mut cases: Vec<_> = cases.into_values().collect();
    cases.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    cases
}

impl Question<'_> {
    /// What the engine has in the plan, and what the whole graph would take on it.
    fn alone(&self, costs: &Costs, engine: EngineKind) -> String {
        let kinds: Vec<_> = self.chip.processors.iter().map(|p| p.kind).collect();
        let problem = Problem::of(self.graph, &kinds, self.accepts);
        let alone = Timeline::of(costs, self.graph, &waves(&problem, &Assignment::single(engine)).waves);
        let joules_of = |timeline: &Timeline| format!(", {:.4} J", joules(self.chip, timeline));
        let watts = |timeline| if self.energy { joules_of(timeline) } else { String::new() };
        let (planned, only) = (self.timeline, self.timeline.steps.iter().all(|step| step.0 == engine));
        if only {
            return format!("It computes the whole pass: {}{}.", time(planned.seconds), watts(planned));
        }
        let what = match alone.steps.iter().all(|step| step.0 == engine) {
            true => "The whole pass on it",
            false => "With all that it takes on it and the rest on the cpu, the pass",
        };
        let (seconds, joules) = (time(alone.seconds), watts(&alone));
        let (plan, plan_joules) = (time(planned.seconds), watts(planned));
        format!("{what} would take {seconds}{joules}; the plan takes {plan}{plan_joules}.")
    }

    /// Why an engine does not compute what another one computes.
    fn not_here(&self, costs: &Costs, engine: EngineKind, case: &Case) -> String {
        let Case { name, home, work, count, .. } = case;
        let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
        if let Err(reason) = (self.accepts)(engine, &self.graph.nodes[case.node]) {
            return format!("Refused for {name} ({times}): {reason}.");
        }
        let there = costs.seconds(*home, work);
        let (launch, here, back) = (costs.launch(engine), costs.seconds(engine, work), costs.launch(*home));
        let whole = format!(
            "{name} ({times}) takes {} on the {}; here {}, and {} to begin and {} to go back",
            time(there),
            home.name(),
            time(here),
            time(launch),
            time(back)
        );
        let engines = [*home, engine];
        let divided = work.divisible().then(|| fill(costs, work, &engines)).flatten().map(|parts| {
            let seconds = wave(costs, work, &parts).seconds + back;
            let rows = parts.iter().find(|part| part.0 == engine).map_or(0, |part| part.1);
            let share = percent(rows as f64 / work.m.max(1) as f64);
            format!("; divided, with {share} of the rows here, {} with both launches and the join", time(seconds))
        });
        format!("{whole}{}.", divided.unwrap_or_default())
    }
}
