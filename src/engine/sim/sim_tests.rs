use super::best::Measure;
use super::*;
use crate::chip::catalog;
use crate::graph::shapes::Model;
use crate::graph::{Graph, Tensor, Type};
use crate::plan::{Rows, Wave};

fn halo() -> Truth {
    Truth::of(catalog::find("Max+ 395").unwrap())
}

/// Norm, product, sum, product: small enough to try everything.
fn small(width: i64) -> Graph {
    let leaf = |id, ty, ne| Tensor { id, root: id, ..Tensor::new(ty, ne) };
    let x = leaf(1, Type::F32, [2048, width, 1, 1]);
    let mut nodes = vec![Node::new("RMS_NORM", leaf(2, Type::F32, x.ne), &[x])];
    let w = leaf(3, Type::Q4_K, [2048, 4096, 1, 1]);
    let y = leaf(4, Type::F32, [4096, width, 1, 1]);
    nodes.push(Node::new("MUL_MAT", y, &[w, nodes[0].dst]));
    nodes.push(Node::new("ADD", leaf(5, Type::F32, y.ne), &[y, y]));
    let w = leaf(6, Type::Q6_K, [4096, 512, 1, 1]);
    nodes.push(Node::new("MUL_MAT", leaf(7, Type::F32, [512, width, 1, 1]), &[w, nodes[2].dst]));
    Graph { uid: 0, nodes }
}

#[test]
fn the_same_seed_gives_the_same_times_and_another_gives_others() {
    let graph = Model::llama_1b().graph(1, 256);
    let times = |seed| {
        let mut truth = Truth::random(seed);
        let (waves, _) = truth.single(&graph, EngineKind::Cpu).unwrap();
        (0..5).map(|_| truth.run(&graph, &waves, None).seconds.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(times(7), times(7));
    assert_ne!(times(7), times(8));
}

#[test]
fn times_are_of_the_size_that_others_report_of_the_chip() {
    let (truth, graph) = (halo(), Model::llama_8b().graph(1, 512));
    let gpu = truth.single(&graph, EngineKind::Gpu).unwrap().1.seconds;
    let cpu = truth.single(&graph, EngineKind::Cpu).unwrap().1.seconds;
    // Reported of a model of 4.5 GB on this chip: 19 to 28 ms a token on the GPU; the CPU takes about twice that.
    assert!((0.018..0.035).contains(&gpu), "{gpu}");
    assert!((1.3..3.5).contains(&(cpu / gpu)), "{cpu} {gpu}");
    let prompt = Model::llama_8b().graph(512, 512);
    let rate = 512.0 / truth.single(&prompt, EngineKind::Gpu).unwrap().1.seconds;
    assert!((450.0..1300.0).contains(&rate), "{rate} tokens a second");
}

#[test]
fn the_search_finds_what_trying_everything_finds() {
    for width in [1, 512] {
        let (truth, graph) = (halo(), small(width));
        for measure in [Measure::Seconds, Measure::Joules] {
            let (waves, cost) = truth.best(std::slice::from_ref(&graph), measure);
            let (found, mut least) = (measure.of(cost), f64::INFINITY);
            // Each node on the CPU, on the GPU, or (products) a number of 32nds of it on the CPU and the rest on the GPU.
            let ways: Vec<u64> = vec![2, 33, 2, 33];
            for mut code in 0..ways.iter().product::<u64>() {
                let mut plan: Vec<Wave> = Vec::new();
                for (i, n) in ways.iter().enumerate() {
                    let choice = code % n;
                    code /= n;
                    let m = graph.nodes[i].dst.ne[0] as u64;
                    let step = |engine, rows| Step { engine, first: i, count: 1, computed: 1, rows };
                    let kind = if choice == 0 { EngineKind::Cpu } else { EngineKind::Gpu };
                    if choice < 2 {
                        match plan.last_mut() {
                            Some(w) if w.steps.len() == 1 && w.steps[0].engine == kind => {
                                w.steps[0].count += 1;
                                w.steps[0].computed += 1;
                            }
                            _ => plan.push(Wave { steps: vec![step(kind, None)] }),
                        }
                    } else {
                        let part = m / 32 * (choice - 1);
                        let [a, b] = [(0, part), (part, m - part)].map(|(first, count)| Some(Rows { first, count }));
                        plan.push(Wave { steps: vec![step(EngineKind::Cpu, a), step(EngineKind::Gpu, b)] });
                    }
                }
                least = least.min(measure.of(truth.cost(&graph, &plan)));
            }
            assert!(found <= least * 1.000_001, "{measure:?} {width}: found {found}, least {least}\n{waves:?}");
        }
    }
}

#[test]
fn the_best_plan_covers_each_node_once_and_is_no_worse_than_any_single_engine() {
    for (truth, width) in [(halo(), 1), (halo(), 512), (Truth::random(3), 4), (Truth::random(5), 512)] {
        let graph = Model::llama_1b().graph(width, 512);
        let (waves, cost) = truth.best(std::slice::from_ref(&graph), Measure::Seconds);
        let mut next = 0;
        for wave in &waves {
            let first = &wave.steps[0];
            assert_eq!(first.first, next);
            assert!(wave.steps.iter().all(|s| (s.first, s.count) == (first.first, first.count)));
            if first.rows.is_some() {
                let sum: u64 = wave.steps.iter().map(|s| s.rows.unwrap().count).sum();
                assert_eq!(sum, graph.nodes[first.first].dst.ne[0] as u64);
            }
            next += first.count;
        }
        assert_eq!(next, graph.nodes.len());
        for kind in [EngineKind::Cpu, EngineKind::Gpu, EngineKind::Npu] {
            assert!(truth.single(&graph, kind).is_none_or(|(_, c)| cost.seconds <= c.seconds * 1.000_001), "{kind:?}");
        }
    }
}

#[test]
fn one_plan_for_two_widths_is_between_the_best_of_each_and_either_for_both() {
    let truth = halo();
    let graphs = [1, 16].map(|width| Model::llama_1b().graph(width, 512));
    let price = |waves: &[Wave]| graphs.iter().map(|g| truth.cost(g, waves).seconds).sum::<f64>();
    let alone = [0, 1].map(|i| truth.best(&graphs[i..=i], Measure::Seconds));
    let (_, both) = truth.best(&graphs, Measure::Seconds);
    assert!(both.seconds >= 0.999_999 * (alone[0].1.seconds + alone[1].1.seconds));
    assert!(alone.iter().all(|(waves, _)| both.seconds <= 1.000_001 * price(waves)));
}

#[test]
fn a_step_takes_longer_with_another_beside_it_on_the_same_memory() {
    let (truth, graph) = (halo(), small(1));
    let part =
        |engine, first, count| Step { engine, first: 1, count: 1, computed: 1, rows: Some(Rows { first, count }) };
    let time = |steps: Vec<Step>| {
        let done = truth.wave(&graph, &Wave { steps }, &[], &mut |_| 1.0);
        done.steps.iter().map(|s| s.2).fold(0.0, f64::max)
    };
    let (cpu, gpu) = (part(EngineKind::Cpu, 0, 1024), part(EngineKind::Gpu, 1024, 3072));
    let alone = time(vec![cpu.clone()]).max(time(vec![gpu.clone()]));
    assert!(time(vec![cpu, gpu]) > alone);
}

#[test]
fn events_change_what_they_name() {
    let graph = Model::llama_1b().graph(1, 256);
    let seconds = |t: &Truth, kind| t.single(&graph, kind).unwrap().1.seconds;
    let (plain, mut truth) = (halo(), halo());
    truth.happen(Event::Driver(EngineKind::Gpu, 0.5));
    assert!(seconds(&truth, EngineKind::Gpu) > 1.5 * seconds(&plain, EngineKind::Gpu));
    assert_eq!(seconds(&truth, EngineKind::Cpu), seconds(&plain, EngineKind::Cpu));
    truth.happen(Event::Busy(0.5));
    assert!(seconds(&truth, EngineKind::Cpu) > 1.5 * seconds(&plain, EngineKind::Cpu));
    assert!(truth.single(&graph, EngineKind::Npu).is_some());
    truth.happen(Event::Dies(EngineKind::Npu));
    let node = graph.nodes.iter().find(|n| n.op == "MUL_MAT").unwrap();
    assert!(truth.accepts(EngineKind::Npu, node).unwrap_err().contains("died"));
}

#[test]
fn a_chip_in_a_hot_room_gets_slower_as_it_works_and_one_in_a_cool_room_does_not() {
    let graph = Model::llama_8b().graph(512, 512);
    let last = |degrees| {
        let mut truth = Truth::of(catalog::find("8840U").unwrap());
        truth.happen(Event::Warmer(degrees));
        let (waves, _) = truth.single(&graph, EngineKind::Cpu).unwrap();
        let times: Vec<_> = (0..40).map(|_| truth.run(&graph, &waves, None).seconds).collect();
        times[39] / times[0]
    };
    let (hot, cool) = (last(45.0), last(0.0));
    assert!(hot > 1.15 && (0.85..1.15).contains(&cool), "{hot} {cool}");
}

#[test]
fn a_trial_passes_virtual_time_and_gives_both_times() {
    let (mut truth, graph) = (halo(), Model::llama_1b().graph(1, 256));
    let (waves, _) = truth.single(&graph, EngineKind::Gpu).unwrap();
    let report = truth.run(&graph, &waves, None);
    assert!(report.trial.is_none() && (truth.clock() - report.seconds).abs() < 1e-9);
    let before = truth.clock();
    let candidate = Wave { steps: vec![Step { engine: EngineKind::Cpu, first: 2, count: 1, computed: 1, rows: None }] };
    let report = truth.run(&graph, &waves, Some((2, 1, &[candidate])));
    let trial = report.trial.unwrap();
    assert!(truth.clock() - before > report.seconds + 0.9 * trial.candidate);
    assert_eq!((trial.steps.len(), trial.steps[0].parts.len(), trial.steps[0].engine), (1, 1, EngineKind::Cpu));
    assert!(trial.current > 0.0);
}
