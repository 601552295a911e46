//! Chips of the catalogue and random ones.

use super::Truth;
use super::processor::Processor;
use super::random::Random;
use super::weather::{Heat, Noise};
use crate::chip::catalog::{Entry, Part};
use crate::chip::model::{self, Chip};
use crate::engine::EngineKind;
use std::collections::HashMap;

/// How much longer passes of some columns take on a GPU than their bytes and operations say, from 0 columns on: as measured
/// on an H200 (docs/measurements.md), the outliers of two rounds aside.
const WIDTHS: [f64; 17] = [1.0, 1.0, 1.01, 1.02, 1.04, 1.15, 1.08, 1.1, 1.12, 1.5, 1.5, 1.5, 1.35, 1.4, 1.4, 1.45, 1.4];

/// Passes of a processor: GPUs have bad widths, each another.
fn cliffs(kind: EngineKind, random: &mut Random) -> [f64; 17] {
    let mut all = if kind == EngineKind::Gpu { WIDTHS } else { [1.0; 17] };
    for factor in &mut all[2..] {
        *factor *= random.between(0.95, 1.08);
        if kind == EngineKind::Gpu && random.unit() < 0.15 {
            *factor *= random.between(1.3, 2.5);
        }
    }
    all
}

impl Truth {
    /// A chip of the catalogue as it might really be: its figures are off by what is usual between data sheets and machines.
    pub fn of(entry: &Entry) -> Truth {
        let mut random = Random::named(&entry.name);
        let bus = entry.bus.value * random.between(0.95, 1.05);
        let mut real = |p: &Part| Processor {
            kind: p.engine(),
            bandwidth: (p.bandwidth.value * random.between(0.9, 1.08)).min(if p.link.is_none() {
                bus
            } else {
                f64::MAX
            }),
            few: p.few.value * random.between(0.7, 1.4),
            many: p.many.value * random.between(0.7, 1.4),
            launch: p.launch.value * random.between(0.7, 1.5),
            node: p.node.value * random.between(0.6, 1.5),
            rows: p.rows.value as u64,
            watts: p.watts.value * random.between(0.92, 1.08),
            units: p.units.value,
            cache: p.cache.value,
            link: p.link.as_ref().map(|l| l.value),
            cliffs: cliffs(p.engine(), &mut random),
            speed: 1.0,
            dead: false,
        };
        let processors = entry.parts.iter().map(&mut real).collect();
        let [limit, rise, seconds] =
            [&entry.thermal.limit, &entry.thermal.rise, &entry.thermal.seconds].map(|n| n.value);
        let (join, package) = (entry.join.value * random.between(0.7, 1.5), entry.thermal.watts.value);
        let heat = Heat { limit, rise, seconds, room: 25.0, degrees: 35.0, most: package + entry.idle.value };
        Truth::new(entry.chip(), processors, (bus, join), (entry.idle.value, package), heat, random)
    }

    /// A random chip: most are APUs, some have a discrete GPU, few have a CPU alone.
    pub fn random(seed: u64) -> Truth {
        let mut r = Random::new(seed);
        let (kind, npu) = (r.unit(), r.unit() < 0.5);
        let bus = r.between(30e9, 400e9);
        let cores = r.between(2.0, 24.0).round();
        let mut processors = vec![Processor {
            kind: EngineKind::Cpu,
            bandwidth: bus * r.between(0.4, 0.95),
            few: cores * r.between(0.02e12, 0.08e12),
            many: cores * r.between(0.05e12, 0.15e12),
            launch: r.between(2e-6, 15e-6),
            node: r.between(1e-6, 8e-6),
            rows: 16,
            watts: cores * r.between(1.5, 6.0),
            units: cores,
            cache: cores * 2e6,
            link: None,
            cliffs: cliffs(EngineKind::Cpu, &mut r),
            speed: 1.0,
            dead: false,
        }];
        if kind < 0.9 {
            let units = if kind < 0.7 { r.between(4.0, 48.0) } else { r.between(16.0, 140.0) }.round();
            let link = (kind >= 0.7).then(|| r.between(10e9, 60e9));
            processors.push(Processor {
                kind: EngineKind::Gpu,
                bandwidth: if link.is_some() { r.between(200e9, 3000e9) } else { bus * r.between(0.6, 0.95) },
                few: units * r.between(0.1e12, 0.3e12),
                many: units * r.between(0.2e12, 1.0e12),
                launch: r.between(8e-6, 80e-6),
                node: r.between(2e-6, 8e-6),
                rows: 32,
                watts: units * r.between(1.0, 4.0),
                units,
                cache: r.between(1e6, 50e6),
                link,
                cliffs: cliffs(EngineKind::Gpu, &mut r),
                speed: 1.0,
                dead: false,
            });
        }
        if kind < 0.7 && npu {
            processors.push(Processor {
                kind: EngineKind::Npu,
                bandwidth: bus * r.between(0.15, 0.6),
                few: r.between(0.2e12, 1.5e12),
                many: r.between(1e12, 20e12),
                launch: r.between(60e-6, 400e-6),
                node: r.between(30e-6, 150e-6),
                rows: 256,
                watts: r.between(3.0, 12.0),
                units: 8.0,
                cache: 4e6,
                link: None,
                cliffs: cliffs(EngineKind::Npu, &mut r),
                speed: 1.0,
                dead: false,
            });
        }
        let sum: f64 = processors.iter().filter(|p| p.link.is_none()).map(|p| p.watts).sum();
        let (package, idle) = (sum * r.between(0.5, 1.0), r.between(3.0, 40.0));
        // What one processor draws when it works alone is within its package's limit.
        processors.iter_mut().filter(|p| p.link.is_none()).for_each(|p| p.watts = p.watts.min(package));
        let (rise, seconds) = (55.0 / (package + idle), r.between(20.0, 80.0));
        let heat = Heat { limit: 95.0, rise, seconds, room: 25.0, degrees: 35.0, most: package + idle };
        let join = r.between(4e-6, 40e-6);
        let chip = told(&format!("random {seed}"), &processors, bus, join, idle, &mut r);
        Truth::new(chip, processors, (bus, join), (idle, package), heat, r)
    }

    fn new(
        chip: Chip,
        processors: Vec<Processor>,
        (bus, join): (f64, f64),
        (idle, package): (f64, f64),
        heat: Heat,
        random: Random,
    ) -> Truth {
        let (noise, known) = (Noise::new(random), HashMap::new());
        Truth { chip, processors, bus, join, idle, package, heat, noise, clock: 0.0, trials: 0, known }
    }
}

/// What a planner would be told of a random chip: each figure off by up to half.
fn told(name: &str, processors: &[Processor], bus: f64, join: f64, idle: f64, r: &mut Random) -> Chip {
    let mut off = |value: f64| value * r.between(0.67, 1.5);
    let mut told = |p: &Processor| model::Processor {
        kind: p.kind,
        name: format!("simulated {}", p.kind.name()),
        bandwidth: off(p.bandwidth),
        few: off(p.few),
        many: off(p.many),
        launch: off(p.launch),
        node: off(p.node),
        rows: p.rows as u32,
        watts: p.watts,
    };
    let shared = processors.iter().filter(|p| p.link.is_none()).map(|p| p.kind).collect();
    let processors = processors.iter().map(&mut told).collect();
    Chip { name: name.to_owned(), bus: bus.max(0.0), shared, join: off(join), idle, processors }
}
