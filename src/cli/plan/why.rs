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

/// Nodes of one size that one engine computes whole.
struct Case<'a> {
    names: Vec<&'static str>,
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
        let (taken, refused): (Vec<_>, Vec<_>) = elsewhere.partition(|case| question.takes(engine, case.node).is_ok());
        sentences.extend(taken.into_iter().take(TOLD).map(|case| question.slower_here(&costs, engine, case)));
        sentences.extend(question.refused(engine, &refused));
        Why { engine: engine.name(), sentences }
    };
    question.chip.processors.iter().map(|p| of(p.kind)).collect()
}

/// Whole nodes by size, those that take longest together first.
fn cases<'a>(question: &Question<'a>) -> Vec<Case<'a>> {
    let mut cases: BTreeMap<(Work, EngineKind), Case> = BTreeMap::new();
    for piece in question.timeline.pieces.iter().filter(|piece| piece.rows.is_none()) {
        let Some(site) = question.sites.get(piece.node).copied().flatten() else { continue };
        let (home, work) = (piece.engine, &piece.work);
        let new = Case { names: Vec::new(), home, node: piece.node, work, count: 0, seconds: 0.0 };
        let case = cases.entry((*work, home)).or_insert(new);
        if !case.names.contains(&site.name) {
            case.names.push(site.name);
        }
        case.count += 1;
        case.seconds += piece.seconds;
    }
    let mut cases: Vec<_> = cases.into_values().collect();
    cases.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    cases
}

/// How often, in words.
fn times(count: usize) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
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

    /// Whether an engine computes a node.
    fn takes(&self, engine: EngineKind, node: usize) -> Result<(), String> {
        self.graph.nodes.get(node).map_or(Ok(()), |node| (self.accepts)(engine, node))
    }

    /// What an engine cannot compute, each reason once.
    fn refused(&self, engine: EngineKind, cases: &[&Case]) -> Vec<String> {
        let mut reasons: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut add = |what: String, node: usize, count: usize| {
            if let Err(reason) = self.takes(engine, node) {
                *reasons.entry((what, reason)).or_default() += count;
            }
        };
        cases.iter().for_each(|case| add(case.names.join(", "), case.node, case.count));
        // An NPU computes nothing but products, so that it refuses the rest says nothing.
        if engine != EngineKind::Npu {
            let rest =
                self.graph.nodes.iter().enumerate().filter(|(i, _)| self.sites.get(*i).is_some_and(Option::is_none));
            rest.for_each(|(i, node)| add(node.op.to_owned(), i, 1));
        }
        let sentence = |((what, reason), count)| format!("Refused for {what} ({}): {reason}.", times(count));
        reasons.into_iter().map(sentence).collect()
    }

    /// Why an engine does not compute what another one computes, though it could.
    fn slower_here(&self, costs: &Costs, engine: EngineKind, case: &Case) -> String {
        let Case { names, home, work, count, .. } = case;
        let (launch, here, back) = (costs.launch(engine), costs.seconds(engine, work), costs.launch(*home));
        let whole = format!(
            "{} ({}) takes {} on the {}; here {}, and {} to begin and {} to go back",
            names.join(", "),
            times(*count),
            time(costs.seconds(*home, work)),
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
            format!("; divided, with {share} of the rows here, {} with all launches and the join", time(seconds))
        });
        format!("{whole}{}.", divided.unwrap_or_default())
    }
}
