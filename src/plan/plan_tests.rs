//! Properties of plans over random chips and graphs.

use super::adapt::begin;
use super::assign::{Assignment, Share};
use super::costs::Costs;
use super::problem::{ENGINES, Problem};
use super::search::{Mix, Priced, Question};
use super::split::{fill, wave};
use super::testing::{chip, model};
use super::waves::waves;
use super::work::{Kind, Work};
use super::*;
use crate::chip::model::{Chip, Processor};
use crate::graph::{Tensor, Type};
use proptest::prelude::*;
use std::sync::Arc;

fn processor(kind: EngineKind) -> impl Strategy<Value = Processor> {
    (1e9..500e9, 1e10..1e13, 1e11..1e14, 1e-6..5e-4, 1e-7..2e-5, prop::sample::select(vec![1, 16, 32, 256]), 1.0..200.0)
        .prop_map(move |(bandwidth, few, many, launch, node, rows, watts)| Processor {
            kind,
            name: kind.name().into(),
            bandwidth,
            few,
            many,
            launch,
            node,
            rows,
            watts,
        })
}

/// A chip with a CPU and up to two others.
fn chips() -> impl Strategy<Value = Chip> {
    let others = prop::collection::vec(any::<bool>(), 2);
    let all = ENGINES.map(processor);
    (all, others, 10e9..600e9, 1e-6..1e-4, any::<bool>()).prop_map(|(all, others, bus, join, apart)| {
        let keep = |p: &Processor| match p.kind {
            EngineKind::Cpu => true,
            EngineKind::Gpu => others[0],
            EngineKind::Npu => others[1],
        };
        let processors: Vec<Processor> = all.into_iter().filter(keep).collect();
        let kinds = processors.iter().map(|p| p.kind);
        let shared = kinds.filter(|k| !(apart && *k == EngineKind::Gpu)).collect();
        Chip { name: "random".into(), bus, shared, join, idle: 3.0, processors }
    })
}

fn graphs() -> impl Strategy<Value = Graph> {
    (1..4_u64, prop::sample::select(vec![1, 2, 7, 16, 17, 300]), prop::sample::select(vec![256, 4096]))
        .prop_map(|(layers, width, depth)| model(1, layers, width, depth))
}

/// Refuses about a third of what it is asked, by a fixed rule.
fn picky(seed: u64) -> impl Fn(EngineKind, &Node) -> Result<(), String> {
    move |engine, node| {
        let n = seed
            .wrapping_add(engine as u64)
            .wrapping_mul(31)
            .wrapping_add(node.op.len() as u64 * 7 + node.dst.ne[0] as u64);
        if n.is_multiple_of(3) { Err("no".into()) } else { Ok(()) }
    }
}

/// Each node once, each row of a divided product once, no engine twice in a wave, nothing where it was refused.
fn check(plan: &Plan, graph: &Graph, accepts: &dyn Fn(EngineKind, &Node) -> Result<(), String>) {
    let mut next = 0;
    for wave in &plan.waves {
        let first = &wave.steps[0];
        assert_eq!(first.first, next, "waves follow each other");
        let mut engines: Vec<_> = wave.steps.iter().map(|s| s.engine).collect();
        engines.sort_unstable();
        engines.dedup();
        assert_eq!(engines.len(), wave.steps.len(), "an engine is twice in a wave");
        let mut row = 0;
        for step in &wave.steps {
            let nodes = &graph.nodes[step.first..step.first + step.count];
            assert_eq!(step.computed, nodes.iter().filter(|n| n.compute).count() as u64);
            let refused = |n: &&Node| n.compute && step.engine != EngineKind::Cpu && accepts(step.engine, n).is_err();
            assert!(!nodes.iter().any(|n| refused(&n)), "{step:?} was refused");
            if let Some(rows) = step.rows {
                assert_eq!((step.first, step.count, rows.first), (next, 1, row));
                assert!(rows.count > 0);
                row += rows.count;
            }
        }
        if first.rows.is_some() {
            assert_eq!(row, graph.nodes[next].dst.ne[0] as u64, "all rows are computed");
        } else {
            assert_eq!(wave.steps.len(), 1);
        }
        next += first.count;
    }
    assert_eq!(next, graph.nodes.len());
}

fn best(costs: &Costs, problem: &Arc<Problem>, objective: Objective) -> (f64, f64, Assignment) {
    let engines: Vec<EngineKind> = costs.chip().processors.iter().map(|p| p.kind).collect();
    let strain = [1.0; 3];
    let question = Question { costs, objective, strain, margin: 0.0, allowed: &|_, _| true, homes: &engines };
    let mix = Mix { problems: vec![(Arc::clone(problem), 1.0)] };
    let priced = Priced::new(&question, &mix);
    let (score, assignment) = priced.best(None);
    (priced.single().0, score, assignment)
}

fn engines(chip: &Chip) -> Vec<EngineKind> {
    chip.processors.iter().map(|p| p.kind).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_best_plan_is_whole_is_repeated_and_is_never_predicted_worse_than_one_engine(
        chip in chips(), graph in graphs(), seed in 0_u64..100, energy: bool,
    ) {
        let (accepts, costs) = (picky(seed), Costs::new(&chip));
        let objective = if energy { Objective::Energy } else { Objective::Speed };
        let problem = Arc::new(Problem::of(&graph, &engines(&chip), &accepts));
        let (single, score, assignment) = best(&costs, &problem, objective);
        prop_assert!(score <= single, "{score} {single}");
        let plan = waves(&problem, &assignment);
        check(&plan, &graph, &accepts);
        let again = Arc::new(Problem::of(&graph.clone(), &engines(&chip), &accepts));
        prop_assert_eq!(&waves(&again, &best(&costs, &again, objective).2), &plan);
    }

    #[test]
    fn without_another_engine_everything_is_one_step_of_the_cpu(chip in chips(), graph in graphs()) {
        let mut planner = Planner::new(chip, Options::default());
        let plan = planner.next(&graph, &|_, _| Err("no".into()), true).plan;
        prop_assert_eq!(plan.waves.len(), 1);
        prop_assert_eq!(plan.waves[0].steps[0].engine, EngineKind::Cpu);
    }

    #[test]
    fn an_engine_that_is_faster_in_everything_gets_no_fewer_rows(chip in chips(), m in 64_u64..9000, n in 1_u64..40) {
        let costs = Costs::new(&chip);
        let work = Work { kind: Kind::Product, ty: Type::Q4_0, m, k: 2048, n, depth: 1, used: 1 };
        let all = engines(&chip);
        let unit = chip.processors.iter().map(|p| u64::from(p.rows)).max().unwrap();
        let Some(parts) = fill(&costs, &work, &all) else { return Ok(()) };
        prop_assert_eq!(parts.iter().map(|p| p.1).sum::<u64>(), m);
        prop_assert!(parts[..parts.len() - 1].iter().all(|p| p.1 % unit == 0));
        let rows = |e: EngineKind| parts.iter().find(|p| p.0 == e).map_or(0, |p| p.1);
        // Apart in memory, engines are slowed differently by each other.
        let alike = |a: EngineKind, b: EngineKind| chip.shared.contains(&a) == chip.shared.contains(&b);
        for &a in &all {
            for &b in all.iter().filter(|b| alike(a, **b)) {
                let faster = costs.launch(a) <= costs.launch(b)
                    && [unit, m / 2, m].iter().all(|r| {
                        let part = work.with_rows(*r);
                        costs.seconds(a, &part) <= costs.seconds(b, &part)
                    });
                // Rows come in units, and the last engine has what is left over.
                prop_assert!(!faster || rows(a) + unit >= rows(b), "{a:?} {b:?} {parts:?}");
            }
        }
    }

    #[test]
    fn forced_shares_are_obeyed(graph in graphs(), cpu in 0.05..0.95_f64) {
        let quota = Quota { shares: vec![(EngineKind::Cpu, cpu), (EngineKind::Gpu, 1.0 - cpu)] };
        let mut planner = Planner::new(chip(), Options { quota: Some(quota), ..Options::default() });
        let plan = planner.next(&graph, &|_, _| Ok(()), true).plan;
        check(&plan, &graph, &|_, _| Ok(()));
        for wave in plan.waves.iter().filter(|w| w.steps[0].computed > 0) {
            let node = &graph.nodes[wave.steps[0].first];
            if node.op != "MUL_MAT" {
                prop_assert!(wave.steps.len() == 1 && wave.steps[0].rows.is_none());
                continue;
            }
            let Some(rows) = wave.steps[0].rows else { panic!("{} is not divided", node.op) };
            prop_assert_eq!(rows.count % 32, 0);
            prop_assert!((rows.count as f64 - cpu * node.dst.ne[0] as f64).abs() <= 16.0);
        }
    }
}

#[test]
fn one_assignment_serves_all_widths_up_to_16() {
    let mut planner = Planner::new(chip(), Options::default());
    let place = |plan: &Plan| -> Vec<_> { plan.steps().map(|s| (s.engine, s.first, s.rows)).collect() };
    let first = place(&planner.next(&model(1, 3, 1, 256), &|_, _| Ok(()), true).plan);
    for width in 2..=16 {
        let graph = model(width as u64, 3, width, 256 * width);
        assert_eq!(place(&planner.next(&graph, &|_, _| Ok(()), true).plan), first, "width {width}");
    }
}

#[test]
fn a_split_is_found_where_it_wins_and_the_faster_engine_has_more() {
    let mut chip = chip();
    (chip.bus, chip.join) = (200e9, 1e-6);
    chip.processors[1].launch = 1e-6;
    let (costs, graph) = (Costs::new(&chip), model(1, 2, 1, 256));
    let problem = Arc::new(Problem::of(&graph, &engines(&chip), &|_, _| Ok(())));
    let (single, score, assignment) = best(&costs, &problem, Objective::Speed);
    assert!(score < 0.8 * single, "{score} {single}");
    let head = problem.sites.iter().find(|s| s.m == 32000).unwrap();
    let Share::Split(parts) = assignment.share(head) else { panic!("{assignment:?}") };
    assert!(parts[1].1 > parts[0].1, "{parts:?}");
    let work = Work { kind: Kind::Product, ty: Type::Q6_K, m: 32000, k: 1024, n: 1, depth: 1, used: 1 };
    let ends = costs.beside(&super::split::works(&work, &parts));
    assert!((ends[0] / ends[1]).ln().abs() < 0.05, "both end together: {ends:?}");
    assert!(wave(&costs, &work, &parts).seconds < costs.seconds(EngineKind::Gpu, &work));
}

#[test]
fn products_with_a_cache_or_a_result_are_not_divided() {
    let t = |id, root, ne| Tensor { id, root, ..Tensor::new(Type::F16, ne) };
    let q = t(2, 2, [64, 8, 1, 1]);
    let scores = Node::new("MUL_MAT", t(5, 5, [256, 8, 1, 1]), &[t(3, 1, [64, 256, 1, 1]), q]);
    let squared = Node::new("MUL_MAT", t(6, 6, [256, 8, 1, 1]), &[t(5, 5, [8, 256, 1, 1]), q]);
    let graph = Graph { uid: 1, nodes: vec![scores, squared] };
    let problem = Problem::of(&graph, &[EngineKind::Cpu, EngineKind::Gpu], &|_, _| Ok(()));
    assert!(problem.sites.is_empty() && problem.items.len() == 1, "{problem:?}");
}

#[test]
fn off_and_unlearned_plans_are_the_best_single_engine() {
    let (chip, graph) = (chip(), model(1, 4, 1, 256));
    let problem = Arc::new(Problem::of(&graph, &engines(&chip), &|_, _| Ok(())));
    for mode in [Mode::Adaptive, Mode::Frozen, Mode::Off] {
        let options = Options { mode, ..Options::default() };
        let assignment = begin(&Costs::new(&chip), &options, &engines(&chip), &problem);
        assert_eq!(assignment, Assignment::single(EngineKind::Gpu));
    }
}

#[test]
fn a_hint_about_the_weights_forbids_division() {
    let quota = Quota { shares: vec![(EngineKind::Cpu, 0.5), (EngineKind::Gpu, 0.5)] };
    let divided = |graph: &Graph| {
        let mut planner = Planner::new(chip(), Options { quota: Some(quota.clone()), ..Options::default() });
        let plan = planner.next(graph, &|_, _| Ok(()), true).plan;
        plan.steps().filter(|s| s.rows.is_some()).map(|s| s.first).collect::<std::collections::BTreeSet<_>>().len()
    };
    let mut graph = model(1, 1, 1, 256);
    let products = graph.nodes.iter().filter(|n| n.op == "MUL_MAT").count();
    assert_eq!(divided(&graph), products);
    // As llama.cpp marks the rotation of a quantised cache.
    graph.nodes.iter_mut().find(|n| n.op == "MUL_MAT").unwrap().params[1] = 1;
    assert_eq!(divided(&graph), products - 1);
}

#[test]
fn what_the_cpu_refuses_goes_to_who_accepts_it() {
    let (graph, shares) = (model(1, 1, 1, 256), vec![(EngineKind::Cpu, 1.0)]);
    let options = Options { quota: Some(Quota { shares }), ..Options::default() };
    let engines = |gpu: bool| {
        let accepts = |engine: EngineKind, node: &Node| match engine {
            EngineKind::Cpu if node.op == "MUL_MAT" => Err("no".to_owned()),
            EngineKind::Gpu if !gpu => Err("no".to_owned()),
            _ => Ok(()),
        };
        let plan = Planner::new(chip(), options.clone()).next(&graph, &accepts, true).plan;
        let of = |s: &Step| graph.nodes[s.first..s.first + s.count].iter().any(|n| n.op == "MUL_MAT");
        plan.steps().filter(|s| of(s)).map(|s| s.engine).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(engines(true).into_iter().collect::<Vec<_>>(), [EngineKind::Gpu]);
    assert_eq!(engines(false).into_iter().collect::<Vec<_>>(), [EngineKind::Cpu], "somebody must");
}
