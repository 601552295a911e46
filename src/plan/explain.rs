//! Why each engine computes a site or does not: words with numbers.

use super::assign::{Assignment, Share};
use super::costs::{Costs, FEW};
use super::notice::{time, who};
use super::options::Objective;
use super::problem::{Problem, Site, index};
use super::search::{Mix, Priced, Question};
use super::split::{fill, wave};
use super::work::Work;
use crate::engine::EngineKind;
use crate::graph::Graph;
use std::sync::Arc;

/// One site of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The site.
    pub site: Site,
    /// One of its nodes.
    pub node: usize,
    /// How many nodes of the graph it stands for.
    pub nodes: usize,
    /// Who computes them.
    pub share: Share,
    /// Seconds of each, launches and joins of its own included.
    pub seconds: f64,
    /// For each engine that computes some of it: the part of its peak bandwidth and of its peak rate that is used.
    pub peak: Vec<(EngineKind, f64, f64)>,
    /// A sentence for each other way.
    pub reasons: Vec<String>,
}

/// A plan in words.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Predicted seconds of the graph.
    pub seconds: f64,
    /// Predicted joules.
    pub joules: f64,
    /// Predicted seconds of everything on one engine, as far as it accepts it.
    pub singles: Vec<(EngineKind, f64)>,
    /// Who computes what belongs to no site, and seconds of it.
    pub home: (EngineKind, f64),
    /// The sites.
    pub lines: Vec<Line>,
}

/// Explains an assignment. `name` gives a site its name in the model; `accepts` is asked why an engine refuses a node.
pub fn explain(
    costs: &Costs,
    graph: &Graph,
    problem: &Arc<Problem>,
    assignment: &Assignment,
    accepts: super::problem::AcceptsOf,
    name: &dyn Fn(&Site) -> String,
) -> Explanation {
    let engines: Vec<EngineKind> = costs.chip().processors.iter().map(|p| p.kind).collect();
    let mix = Mix { problems: vec![(Arc::clone(problem), 1.0)] };
    let (objective, strain) = (Objective::Speed, [1.0; 3]);
    let question = Question { costs, objective, strain, margin: 0.0, allowed: &|_, _| true, homes: &engines };
    let priced = Priced::new(&question, &mix);
    let measure = priced.measure(assignment);
    let singles = engines.iter().map(|&e| (e, priced.measure(&Assignment::single(e)).seconds)).collect();
    let mut lines = Vec::new();
    for (at, site) in problem.sites.iter().enumerate() {
        let nodes: Vec<usize> =
            problem.items.iter().filter(|i| problem.loads[i.load].site == Some(at)).map(|i| i.first).collect();
        let Some((&node, work)) = nodes.first().and_then(|n| Some((n, Work::of(graph.nodes.get(*n)?)?))) else {
            continue;
        };
        let mut share = assignment.share(site);
        if let Share::Whole(engine) = &share
            && *engine != EngineKind::Cpu
            && accepts(*engine, &graph.nodes[node]).is_err()
        {
            share = Share::Whole(EngineKind::Cpu);
        }
        let case = Case { costs, work, share: &share, name: name(site), priced: &priced, assignment, site: *site };
        let seconds = case.seconds(&share);
        let mut reasons = Vec::new();
        for &engine in &engines {
            let refusal = if engine == EngineKind::Cpu { Ok(()) } else { accepts(engine, &graph.nodes[node]) };
            match refusal {
                Err(reason) => reasons.push(format!("{} refused for {}: {reason}", engine.name(), case.name)),
                Ok(()) => reasons.extend(case.why_not(engine, nodes.len())),
            }
        }
        let accepted: Vec<EngineKind> = engines
            .iter()
            .copied()
            .filter(|e| *e == EngineKind::Cpu || accepts(*e, &graph.nodes[node]).is_ok())
            .collect();
        reasons.extend(case.why_not_divided(&accepted));
        let peak = case.peak();
        lines.push(Line { site: *site, node, nodes: nodes.len(), share, seconds, peak, reasons });
    }
    let rest = problem.works.iter().enumerate().map(|(i, work)| {
        let loads = problem.items.iter().map(|item| &problem.loads[item.load]).filter(|l| l.site.is_none());
        let seconds = |on: EngineKind| costs.seconds(on, work);
        loads
            .map(|l| {
                let home = if l.accepted[index(assignment.home)] { assignment.home } else { EngineKind::Cpu };
                l.parts.iter().filter(|p| p.0 == i).map(|p| f64::from(p.1) * seconds(home)).sum::<f64>()
            })
            .sum::<f64>()
    });
    let home = (assignment.home, rest.sum());
    Explanation { seconds: measure.seconds, joules: measure.joules, singles, home, lines }
}

/// One site and what is decided about it.
struct Case<'a> {
    costs: &'a Costs,
    work: Work,
    share: &'a Share,
    name: String,
    priced: &'a Priced<'a>,
    assignment: &'a Assignment,
    site: Site,
}

impl Case<'_> {
    /// Seconds of one node by itself.
    fn seconds(&self, share: &Share) -> f64 {
        match share {
            Share::Whole(engine) => self.costs.seconds(*engine, &self.work),
            Share::Split(parts) => wave(self.costs, &self.work, parts).seconds,
        }
    }

    fn where_it_is(&self) -> String {
        match self.share {
            Share::Whole(engine) => format!("on the {}", engine.name()),
            Share::Split(parts) => {
                let names: Vec<&str> = parts.iter().map(|p| p.0.name()).collect();
                format!("on {} together", names.join(" and "))
            }
        }
    }

    /// Why an engine that could compute the site whole does not.
    fn why_not(&self, engine: EngineKind, nodes: usize) -> Option<String> {
        if *self.share == Share::Whole(engine) {
            return None;
        }
        let (here, there) = (self.seconds(self.share), self.seconds(&Share::Whole(engine)));
        let (launch, place) = (self.costs.launch(engine), self.where_it_is());
        let what = if self.site.divisible() { "product" } else { "attention" };
        let reason = if launch >= here {
            format!("one dispatch costs {}, the whole {what} takes {} {place}", time(launch), time(here))
        } else if there >= here {
            format!("it takes {} there, {} {place}", time(there), time(here))
        } else {
            let other = self.assignment.with(self.site, Share::Whole(engine));
            let lost = self.priced.measure(&other).seconds - self.priced.measure(self.assignment).seconds;
            if lost > 0.0 {
                let way = lost / nodes.max(1) as f64 + (here - there);
                format!(
                    "it takes {} there and {} {place}, but going there and back costs {}",
                    time(there),
                    time(here),
                    time(way)
                )
            } else {
                format!(
                    "it would take {} there instead of {} {place}, which is too little or not measured yet",
                    time(there),
                    time(here)
                )
            }
        };
        Some(format!("{} refused for {}: {reason}", engine.name(), self.name))
    }

    /// Why the rows are not divided among all engines that could.
    fn why_not_divided(&self, engines: &[EngineKind]) -> Option<String> {
        if !self.site.divisible() || engines.len() < 2 || matches!(self.share, Share::Split(_)) {
            return None;
        }
        let here = self.seconds(self.share);
        let Some(parts) = fill(self.costs, &self.work, engines) else {
            let rows = self.work.m;
            return Some(format!("no division of {}: its {rows} rows are too few to gain by it", self.name));
        };
        let there = wave(self.costs, &self.work, &parts).seconds;
        let how = who(&Share::Split(parts));
        let verdict =
            if there >= here { "with launches and the join" } else { "before what it costs the nodes around" };
        Some(format!(
            "no division of {}: {how} take {} {verdict}, {} {}",
            self.name,
            time(there),
            time(here),
            self.where_it_is()
        ))
    }

    /// Which part of its peaks each engine reaches.
    fn peak(&self) -> Vec<(EngineKind, f64, f64)> {
        let parts = match self.share {
            Share::Whole(engine) => vec![(*engine, self.work.m)],
            Share::Split(parts) => parts.clone(),
        };
        let one = |(engine, rows): (EngineKind, u64)| {
            let (work, processor) = (self.work.with_rows(rows), self.costs.chip().processor(engine)?);
            let seconds = self.costs.seconds(engine, &work).max(1e-12);
            let rate = if work.n > FEW { processor.many } else { processor.few };
            Some((engine, work.bytes() / seconds / processor.bandwidth, work.operations() / seconds / rate))
        };
        parts.into_iter().filter_map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Node;
    use crate::plan::testing::{chip, model};

    fn words(change: impl Fn(&mut crate::chip::model::Chip), accepts: super::super::problem::AcceptsOf) -> Explanation {
        let mut chip = chip();
        change(&mut chip);
        let (costs, graph) = (Costs::new(&chip), model(1, 2, 1, 256));
        let engines = [EngineKind::Cpu, EngineKind::Gpu];
        let problem = Arc::new(Problem::of(&graph, &engines, accepts));
        explain(&costs, &graph, &problem, &Assignment::single(EngineKind::Gpu), accepts, &|site| site.words())
    }

    fn reasons(explanation: &Explanation) -> String {
        explanation.lines.iter().flat_map(|line| &line.reasons).map(|r| format!("{r}\n")).collect()
    }

    #[test]
    fn a_dispatch_that_costs_more_than_the_product_is_named_with_both_numbers() {
        let slow = |chip: &mut crate::chip::model::Chip| chip.processors[0].launch = 110e-6;
        let text = reasons(&words(slow, &|_, _| Ok(())));
        let wanted = "cpu refused for q4_K product 1024x1024: one dispatch costs 110 us, the whole product takes 14 us on the gpu";
        assert!(text.contains(wanted), "{text}");
    }

    #[test]
    fn what_an_engine_refuses_is_said_in_its_own_words_and_goes_to_the_cpu() {
        let accepts = |_: EngineKind, node: &Node| match node.op {
            "FLASH_ATTN_EXT" => Err("a head of 64 is too small".to_owned()),
            _ => Ok(()),
        };
        let explanation = words(|_| {}, &accepts);
        let text = reasons(&explanation);
        assert!(text.contains("gpu refused for f16 attention of 16 heads of 64: a head of 64 is too small"), "{text}");
        let attention = explanation.lines.iter().find(|l| !l.site.divisible()).unwrap();
        assert_eq!((&attention.share, attention.nodes), (&Share::Whole(EngineKind::Cpu), 2));
    }

    #[test]
    fn every_site_says_why_not_for_each_engine_that_does_not_compute_it() {
        let explanation = words(|_| {}, &|_, _| Ok(()));
        assert_eq!(explanation.lines.len(), 5);
        for line in &explanation.lines {
            assert!(line.reasons.iter().any(|r| r.starts_with("cpu refused")), "{line:?}");
            assert!(line.peak.iter().all(|p| p.1 > 0.0 && p.1 <= 1.0 && p.2 <= 1.0), "{line:?}");
        }
        let single = explanation.singles.iter().find(|s| s.0 == EngineKind::Gpu).unwrap();
        assert_eq!(explanation.seconds, single.1);
    }
}
