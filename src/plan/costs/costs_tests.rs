use super::*;
use crate::graph::Type;
use crate::plan::testing::chip;
use crate::plan::work::Kind;

fn product(m: u64, n: u64) -> Work {
    Work { kind: Kind::Product, ty: Type::Q4_0, m, k: 4096, n, depth: 1, used: 1 }
}

fn timing(engine: EngineKind, parts: Vec<Work>, seconds: f64) -> Timing {
    Timing { engine, parts, seconds }
}

#[test]
fn the_prior_is_the_roofline_of_the_chip() {
    let (chip, gpu) = (chip(), EngineKind::Gpu);
    let (costs, processor) = (Costs::new(&chip), chip.processor(gpu).unwrap());
    let (thin, wide) = (product(4096, 1), product(4096, 512));
    assert_eq!(costs.seconds(gpu, &thin), thin.bytes() / processor.bandwidth + processor.node);
    assert_eq!(costs.seconds(gpu, &wide), wide.operations() / processor.many + processor.node);
    assert_eq!(costs.seconds(EngineKind::Npu, &thin), f64::INFINITY);
}

#[test]
fn a_slower_engine_is_learned_from_whole_steps_and_holds_for_other_shapes() {
    let mut costs = Costs::new(&chip());
    let (cpu, parts) = (EngineKind::Cpu, vec![product(4096, 1), product(2048, 1), product(4096, 1)]);
    let truth = |costs: &Costs, w: &Work| 1.6 * Costs::new(costs.chip()).seconds(cpu, w);
    for _ in 0..40 {
        let seconds = costs.launch(cpu) + parts.iter().map(|w| truth(&costs, w)).sum::<f64>();
        costs.observe(&timing(cpu, parts.clone(), seconds));
    }
    for work in [product(4096, 1), product(2048, 1), product(1024, 1), product(4096, 2)] {
        let error = (costs.seconds(cpu, &work) / truth(&costs, &work)).ln().abs();
        assert!(error < 0.15, "{work:?}: {error}");
    }
    let score = costs.score(cpu, &parts[0]).unwrap();
    assert!(score.roofline < 0.02 && score.weight > 5.0, "{score:?}");
}

#[test]
fn one_outlier_moves_little_and_what_is_forgotten_is_learned_fast() {
    let mut costs = Costs::new(&chip());
    let (gpu, work) = (EngineKind::Gpu, product(8192, 1));
    let seconds = costs.launch(gpu) + costs.seconds(gpu, &work);
    for _ in 0..30 {
        costs.observe(&timing(gpu, vec![work], seconds));
    }
    let before = costs.seconds(gpu, &work);
    costs.observe(&timing(gpu, vec![work], 50.0 * seconds));
    let moved = (costs.seconds(gpu, &work) / before).ln();
    assert!(moved.abs() < 0.1, "{moved}");
    assert!(costs.forget(gpu) > 0);
    for _ in 0..6 {
        costs.observe(&timing(gpu, vec![work], 1.3 * seconds));
    }
    let error = ((costs.launch(gpu) + costs.seconds(gpu, &work)) / (1.3 * seconds)).ln();
    assert!(error.abs() < 0.03, "{error}");
}

#[test]
fn engines_beside_each_other_share_the_bus_until_it_is_measured_what_they_do() {
    let (mut costs, work) = (Costs::new(&chip()), product(4096, 1));
    let parts = [(EngineKind::Cpu, work), (EngineKind::Gpu, work)];
    let bus = 2.0 * work.bytes() / costs.chip().bus;
    let slowest = costs.beside(&parts).into_iter().fold(0.0, f64::max);
    assert!(slowest >= bus && slowest < 1.1 * bus, "{slowest} {bus}");
    assert!(!costs.known_beside(&parts));
    for _ in 0..8 {
        costs.observe_beside(&parts, &[1.5 * bus, 1.2 * bus]);
    }
    assert!(costs.known_beside(&parts));
    let [cpu, gpu] = costs.beside(&parts)[..] else { panic!() };
    assert!((cpu / bus / 1.5).ln().abs() < 0.05 && (gpu / bus / 1.2).ln().abs() < 0.05, "{cpu} {gpu} {bus}");
}

#[test]
fn what_was_learned_is_taken_over_and_nonsense_is_left_out() {
    let mut costs = Costs::new(&chip());
    let (gpu, work) = (EngineKind::Gpu, product(8192, 1));
    for _ in 0..20 {
        costs.observe(&timing(gpu, vec![work], 1e-3));
    }
    let mut entries = costs.entries();
    let taught = entries.factors.len();
    entries.factors.push(Entry { name: "gpu warp".into(), value: 0.0, variance: 0.1, weight: 1.0, score: None });
    entries.factors.push(Entry { name: "cpu node".into(), value: f64::NAN, variance: 0.1, weight: 1.0, score: None });
    let mut other = Costs::new(&chip());
    assert_eq!(other.restore(&entries), taught);
    assert_eq!(other.seconds(gpu, &work), costs.seconds(gpu, &work));
    assert_eq!(other.entries(), costs.entries());
}

#[test]
fn impossible_timings_teach_nothing() {
    let mut costs = Costs::new(&chip());
    for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        costs.observe(&timing(EngineKind::Cpu, vec![product(64, 1)], seconds));
    }
    costs.observe(&timing(EngineKind::Npu, vec![product(64, 1)], 1.0));
    assert_eq!(costs, Costs::new(&chip()));
}
