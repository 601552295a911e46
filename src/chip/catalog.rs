//! Chips that the planner can be asked about without having one: figures of public sources, each named, or marked a guess.
//!
//! Pure: the catalogue is part of the program.

use super::model::{Chip, Processor};
use crate::engine::EngineKind;
use serde::Deserialize;
use std::sync::LazyLock;

/// A number with its source: `data sheet`, `measured`, `reported` or `guess`, a colon, and where or why.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Number {
    /// The value, in SI units: bytes, seconds, operations, watts, degrees.
    pub value: f64,
    /// Where it comes from.
    pub source: String,
}

impl Number {
    /// Whether nobody stands behind it.
    pub fn guess(&self) -> bool {
        self.source.starts_with("guess:")
    }
}

/// A processor of the catalogue; the fields of `model::Processor`, and what only the simulator asks.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// `cpu`, `gpu` or `npu`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Bytes per second when alone.
    pub bandwidth: Number,
    /// Operations per second in products of 1 to 16 columns.
    pub few: Number,
    /// Operations per second in wide products.
    pub many: Number,
    /// Seconds for each step.
    pub launch: Number,
    /// Seconds for each node of a step.
    pub node: Number,
    /// Rows of a product come in multiples of this.
    pub rows: Number,
    /// Watts while it computes.
    pub watts: Number,
    /// Cores, compute units or columns.
    pub units: Number,
    /// Bytes of its last cache.
    pub cache: Number,
    /// Bytes per second between its own memory and the CPU's; absent where it has no memory of its own.
    pub link: Option<Number>,
}

/// How a chip gets warm; only the simulator asks.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thermal {
    /// Degrees Celsius at which it slows down.
    pub limit: Number,
    /// Degrees above the room for each watt, in the long run.
    pub rise: Number,
    /// Seconds in which it gets 63 % of the way there.
    pub seconds: Number,
    /// Watts that the package may draw for long; a discrete GPU has its own.
    pub watts: Number,
}

/// A chip of the catalogue.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The name under which it is found.
    pub name: String,
    /// Bytes per second of the memory that its processors share.
    pub bus: Number,
    /// Seconds that a join of two engines takes.
    pub join: Number,
    /// Watts while nothing computes.
    pub idle: Number,
    /// How it gets warm.
    pub thermal: Thermal,
    /// The CPU, then what else there is.
    #[serde(rename = "processor")]
    pub parts: Vec<Part>,
}

impl Part {
    /// Which engine drives it.
    pub fn engine(&self) -> EngineKind {
        match self.kind.as_str() {
            "gpu" => EngineKind::Gpu,
            "npu" => EngineKind::Npu,
            _ => EngineKind::Cpu,
        }
    }

    /// Its numbers with their names.
    fn numbers(&self) -> Vec<(&'static str, &Number)> {
        let Part { bandwidth, few, many, launch, node, rows, watts, units, cache, link, .. } = self;
        let mut all = vec![
            ("bandwidth", bandwidth),
            ("few", few),
            ("many", many),
            ("launch", launch),
            ("node", node),
            ("rows", rows),
            ("watts", watts),
            ("units", units),
            ("cache", cache),
        ];
        all.extend(link.iter().map(|n| ("link", n)));
        all
    }
}

impl Entry {
    /// The chip as the planner sees it.
    pub fn chip(&self) -> Chip {
        let processor = |p: &Part| Processor {
            kind: p.engine(),
            name: p.name.clone(),
            bandwidth: p.bandwidth.value,
            few: p.few.value,
            many: p.many.value,
            launch: p.launch.value,
            node: p.node.value,
            rows: p.rows.value as u32,
            watts: p.watts.value,
        };
        Chip {
            name: self.name.clone(),
            bus: self.bus.value,
            shared: self.parts.iter().filter(|p| p.link.is_none()).map(Part::engine).collect(),
            join: self.join.value,
            idle: self.idle.value,
            processors: self.parts.iter().map(processor).collect(),
        }
    }

    /// Every number with where it stands, such as `gpu.bandwidth`.
    pub fn numbers(&self) -> Vec<(String, &Number)> {
        let Thermal { limit, rise, seconds, watts } = &self.thermal;
        let own = [("bus", &self.bus), ("join", &self.join), ("idle", &self.idle)];
        let heat =
            [("thermal.limit", limit), ("thermal.rise", rise), ("thermal.seconds", seconds), ("thermal.watts", watts)];
        let parts =
            self.parts.iter().flat_map(|p| p.numbers().into_iter().map(|(n, v)| (format!("{}.{n}", p.kind), v)));
        own.into_iter().chain(heat).map(|(n, v)| (n.to_owned(), v)).chain(parts).collect()
    }
}

const FILES: &[&str] = &[
    include_str!("catalog/ryzen-7-pro-250.toml"),
    include_str!("catalog/ryzen-7-8840u.toml"),
    include_str!("catalog/ryzen-ai-9-hx-370.toml"),
    include_str!("catalog/ryzen-ai-max-395.toml"),
    include_str!("catalog/epyc-2.toml"),
    include_str!("catalog/xeon-h200.toml"),
];

static CATALOGUE: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    FILES.iter().map(|text| toml::from_str(text).expect("a test parses the built-in catalogue")).collect()
});

/// Every chip of the catalogue.
pub fn chips() -> &'static [Entry] {
    &CATALOGUE
}

/// The chip whose name contains `name`, letter case aside; `None` when there is none, or when more than one do and none is
/// called so exactly.
pub fn find(name: &str) -> Option<&'static Entry> {
    let wanted = name.to_lowercase();
    if let Some(exact) = chips().iter().find(|e| e.name.to_lowercase() == wanted) {
        return Some(exact);
    }
    let mut hits = chips().iter().filter(|e| e.name.to_lowercase().contains(&wanted));
    hits.next().filter(|_| hits.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_source_or_is_marked_a_guess() {
        assert_eq!(chips().len(), FILES.len());
        for entry in chips() {
            for (place, number) in entry.numbers() {
                let (kind, text) = number.source.split_once(": ").unwrap_or_default();
                let known = ["data sheet", "measured", "reported", "guess"].contains(&kind);
                assert!(known && text.len() >= 8, "{}: {place} has the source {:?}", entry.name, number.source);
                assert!(number.value.is_finite() && number.value > 0.0, "{}: {place}", entry.name);
            }
        }
    }

    #[test]
    fn every_chip_begins_with_its_cpu_and_has_each_processor_once() {
        for entry in chips() {
            assert_eq!(entry.parts[0].kind, "cpu", "{}", entry.name);
            let mut kinds: Vec<_> = entry.parts.iter().map(|p| p.kind.as_str()).collect();
            assert!(kinds.iter().all(|k| ["cpu", "gpu", "npu"].contains(k)), "{}: {kinds:?}", entry.name);
            kinds.sort_unstable();
            kinds.dedup();
            assert_eq!(kinds.len(), entry.parts.len(), "{}", entry.name);
            assert!(entry.parts[0].link.is_none() && entry.chip().shared.contains(&EngineKind::Cpu), "{}", entry.name);
            // No processor of shared memory reads faster than that memory.
            let fits = |p: &Part| p.link.is_some() || p.bandwidth.value <= entry.bus.value;
            assert!(entry.parts.iter().all(fits), "{}", entry.name);
        }
    }

    #[test]
    fn a_chip_is_found_by_a_part_of_its_name_that_only_it_has() {
        assert_eq!(find("hx 370").unwrap().name, "Ryzen AI 9 HX 370");
        assert_eq!(find("ryzen 7 8840u").unwrap().name, "Ryzen 7 8840U");
        assert!(find("Ryzen").is_none());
        assert!(find("6502").is_none());
    }
}
