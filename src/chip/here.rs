//! The chip that the engines of this process run on, as far as it is known before anything was measured.
//!
//! Pure: names in, figures out. The figures only decide with which engine a model begins; then measured times replace them.

use super::catalog;
use super::model::{Chip, Processor};
use crate::engine::EngineKind;

/// What is known of the GPU that is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Card {
    /// Shares the memory of the CPU.
    Integrated,
    /// A software device: it is the CPU that computes.
    Software,
}

/// This machine: the entry of the catalogue that its CPU is named in, without the processors that no engine drives; else a
/// CPU of its size, and a GPU of its kind.
pub fn here(cpu: &str, threads: u32, card: Option<Card>) -> Chip {
    let within = |text: &str, name: &str| text.to_lowercase().contains(&name.to_lowercase());
    let known = catalog::chips().iter().find(|entry| within(cpu, &entry.name)).map(catalog::Entry::chip);
    let mut chip = known.unwrap_or_else(|| Chip {
        name: cpu.to_owned(),
        bus: 40e9,
        shared: vec![EngineKind::Cpu, EngineKind::Gpu],
        join: 20e-6,
        idle: 5.0,
        processors: vec![generic_cpu(cpu, threads)],
    });
    chip.processors
        .retain(|p| p.kind == EngineKind::Cpu || p.kind == EngineKind::Gpu && card == Some(Card::Integrated));
    if let Some(card) = card
        && chip.processor(EngineKind::Gpu).is_none()
    {
        chip.processors.push(generic_gpu(card));
    }
    chip
}

/// A CPU of which only the number of threads is known: guesses, from two cores of an EPYC with AVX2 (docs/measurements.md).
fn generic_cpu(name: &str, threads: u32) -> Processor {
    let threads = f64::from(threads.max(1));
    Processor {
        kind: EngineKind::Cpu,
        name: name.to_owned(),
        bandwidth: (threads * 13e9).min(40e9),
        few: threads * 0.025e12,
        many: threads * 0.05e12,
        launch: 5e-6,
        node: 2e-6,
        rows: 16,
        watts: 4.0 * threads,
    }
}

/// A GPU of which only the kind is known: guesses. Those of a software device are from SmolLM2 on lavapipe with two cores
/// (docs/measurements.md): about a second for a token of 0.1 GB and 400 nodes, and 45 for a prompt of 0.14 T operations.
fn generic_gpu(card: Card) -> Processor {
    let (bandwidth, few, many, launch, node, watts) = match card {
        Card::Integrated => (50e9, 1e12, 4e12, 50e-6, 5e-6, 15.0),
        Card::Software => (0.3e9, 0.5e9, 3e9, 200e-6, 1e-3, 30.0),
    };
    let (kind, name) = (EngineKind::Gpu, "a GPU".to_owned());
    Processor { kind, name, bandwidth, few, many, launch, node, rows: 32, watts }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_cpu_has_the_figures_of_the_catalogue_and_no_npu() {
        let entry = catalog::chips().iter().find(|e| e.chip().processor(EngineKind::Npu).is_some()).unwrap();
        let name = format!("AMD {} w/ Radeon Graphics", entry.name);
        let chip = here(&name, 16, Some(Card::Integrated));
        assert_eq!(chip.processor(EngineKind::Gpu), entry.chip().processor(EngineKind::Gpu));
        assert!(chip.processor(EngineKind::Npu).is_none());
        assert!(here(&name, 16, None).processor(EngineKind::Gpu).is_none());
        let software = here(&name, 16, Some(Card::Software));
        assert_ne!(software.processor(EngineKind::Gpu), entry.chip().processor(EngineKind::Gpu));
    }

    #[test]
    fn an_unknown_machine_has_its_cpu_first() {
        for card in [None, Some(Card::Integrated), Some(Card::Software)] {
            let chip = here("Some CPU", 8, card);
            assert_eq!(chip.processors[0].kind, EngineKind::Cpu);
            assert_eq!(chip.processor(EngineKind::Gpu).is_some(), card.is_some());
        }
    }
}
