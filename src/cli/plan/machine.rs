//! Which chip is planned for: one of the catalogue by its name, or this machine as far as it is recognised.

use std::path::Path;

use ggml_tri::chip::catalog::{self, Entry};
use ggml_tri::chip::cpu::{self, Cpu};
use ggml_tri::chip::model::{Chip, Processor};
use ggml_tri::config::{Gpu, Npu};
use ggml_tri::engine::EngineKind;

use crate::gpu;
use crate::stop::Stop;

/// A chip and how well it is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// The chip.
    pub chip: Chip,
    /// Where its numbers come from, as the end of a sentence.
    pub origin: String,
    /// Every number with its place and source.
    pub sources: Vec<Source>,
    /// What else there is to say.
    pub notes: Vec<String>,
}

/// A number of a chip and where it comes from.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Source {
    /// Such as `gpu.bandwidth`.
    pub place: String,
    /// In SI units.
    pub value: f64,
    /// Nobody stands behind it.
    pub guess: bool,
    /// Who does, or why it was guessed.
    pub source: String,
}

/// The names of the catalogue.
pub fn names() -> Vec<&'static str> {
    catalog::chips().iter().map(|entry| entry.name.as_str()).collect()
}

/// A chip of the catalogue.
///
/// # Errors
/// There is none of that name, or several have it in theirs.
pub fn named(name: &str) -> Result<Chosen, Stop> {
    let entry = catalog::find(name).ok_or_else(|| {
        let known = names().join("; ");
        Stop::usage(format!("--chip '{name}' names none or more than one of the catalogue: {known}."))
    })?;
    Ok(of_entry(entry, "figures of the catalogue".to_owned()))
}

/// This machine, whose file system starts at `root`.
pub fn this(root: &Path, wish: Gpu) -> Chosen {
    let cards = gpu::examine(root, wish).0.vulkan.map_or_else(Vec::new, |answer| answer.devices);
    let cards: Vec<_> = cards.into_iter().filter(|device| !device.software).map(|device| device.name).collect();
    recognise(&cpu::read(root), &cards)
}

impl Chosen {
    /// Without the processors that a setting switches off; the CPU stays.
    pub fn without(mut self, gpu: Gpu, npu: Npu) -> Chosen {
        for (off, kind, setting) in
            [(gpu == Gpu::Off, EngineKind::Gpu, "TRI_GPU=off"), (npu == Npu::Off, EngineKind::Npu, "TRI_NPU=off")]
        {
            if off && self.chip.processor(kind).is_some() {
                self.chip.processors.retain(|p| p.kind != kind);
                self.sources.retain(|s| !s.place.starts_with(&format!("{}.", kind.name())));
                self.notes.push(format!("The {} is left out, as {setting} says.", kind.name()));
            }
        }
        if self.chip.processor(EngineKind::Npu).is_some() {
            let note =
                "No engine of this version drives an NPU; it is planned as if one did (TRI_NPU=off leaves it out).";
            self.notes.push(note.to_owned());
        }
        self
    }
}

/// The entry whose name is in the CPU's, or whose graphics card with a memory of its own is here; else a CPU of its size.
fn recognise(cpu: &Cpu, cards: &[String]) -> Chosen {
    let within = |text: &str, name: &str| text.to_lowercase().contains(&name.to_lowercase());
    let by_cpu = || catalog::chips().iter().find(|entry| within(&cpu.model, &entry.name));
    let card = |entry: &&Entry| {
        let own = entry.parts.iter().filter(|part| part.link.is_some());
        own.into_iter().any(|part| cards.iter().any(|card| within(card, &part.name)))
    };
    if let Some(entry) = by_cpu() {
        return of_entry(entry, "figures of the catalogue; it is this machine, by the name of its CPU".to_owned());
    }
    if let Some(entry) = catalog::chips().iter().find(card) {
        let mut chosen = of_entry(entry, "figures of the catalogue; this machine has its GPU".to_owned());
        chosen.notes.push(format!("This machine's CPU is another: {}, {} threads.", cpu.model, cpu.threads));
        return chosen;
    }
    let mut chosen = generic(cpu);
    if let Some(card) = cards.first() {
        chosen.notes.push(format!("The GPU '{card}' is not in the catalogue and is left out."));
    }
    chosen
}

fn of_entry(entry: &Entry, origin: String) -> Chosen {
    let source = |(place, number): (String, &catalog::Number)| {
        let (guess, source) = (number.guess(), number.source.clone());
        Source { place, value: number.value, guess, source }
    };
    let sources = entry.numbers().into_iter().map(source).collect();
    Chosen { chip: entry.chip(), origin, sources, notes: Vec::new() }
}

/// A CPU of which only the number of threads and the instructions are known.
fn generic(cpu: &Cpu) -> Chosen {
    let threads = cpu.threads.max(1) as f64;
    let wide = cpu.features.iter().any(|feature| ["avx2", "asimddp"].contains(feature));
    // 0.05 T a thread is what the catalogue has for two cores of an EPYC with AVX2 and for the Xeon beside an H200.
    let many = threads * if wide { 0.05e12 } else { 0.015e12 };
    let bandwidth = (threads * 13e9).min(40e9);
    let why = |text: &str| format!("guess: {text}");
    let numbers = [
        ("bus", bandwidth, why("what the threads read, at most 40 GB/s")),
        (
            "cpu.bandwidth",
            bandwidth,
            why("13 GB/s a thread, as on the catalogue's EPYC, at most 40 GB/s as two slow modules give"),
        ),
        ("cpu.few", many / 2.0, why("half of the wide rate, since each row is unpacked for few columns")),
        ("cpu.many", many, why("0.05e12 a thread with AVX2 or its like, as on the catalogue's EPYC; 0.015e12 without")),
        ("cpu.launch", 5e-6, why("waking sleeping threads")),
        ("cpu.node", 2e-6, why("a spinning barrier of the threads")),
        ("cpu.rows", 16.0, why("a chunk of ggml-cpu")),
        ("cpu.watts", 4.0 * threads, why("4 W a thread")),
        ("join", 5e-6, why("nothing to join with, and so never paid")),
        ("idle", 5.0, why("a quiet machine")),
    ];
    let name = if cpu.model.is_empty() { "an unknown CPU".to_owned() } else { cpu.model.clone() };
    let chip = Chip {
        name: format!("{name}, {} threads", cpu.threads),
        bus: bandwidth,
        shared: vec![EngineKind::Cpu],
        join: 5e-6,
        idle: 5.0,
        processors: vec![Processor {
            kind: EngineKind::Cpu,
            name,
            bandwidth,
            few: many / 2.0,
            many,
            launch: 5e-6,
            node: 2e-6,
            rows: 16,
            watts: 4.0 * threads,
        }],
    };
    let source =
        |(place, value, source): (&str, f64, String)| Source { place: place.to_owned(), value, guess: true, source };
    let origin = "guesses from this machine's threads and instructions, since it is not in the catalogue".to_owned();
    Chosen { chip, origin, sources: numbers.into_iter().map(source).collect(), notes: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(model: &str) -> Cpu {
        Cpu { model: model.to_owned(), threads: 8, features: vec!["avx2"] }
    }

    #[test]
    fn a_machine_is_recognised_by_its_cpu() {
        for (model, name) in [
            ("AMD Ryzen 7 PRO 250 w/ Radeon 780M Graphics", "Ryzen 7 PRO 250"),
            ("AMD Ryzen 7 8840U w/ Radeon 780M Graphics", "Ryzen 7 8840U"),
            ("AMD Ryzen AI 9 HX 370 w/ Radeon 890M", "Ryzen AI 9 HX 370"),
            ("AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", "Ryzen AI Max+ 395"),
        ] {
            assert_eq!(recognise(&cpu(model), &[]).chip.name, name);
        }
    }

    #[test]
    fn a_machine_is_recognised_by_its_discrete_gpu() {
        let chosen = recognise(&cpu("Intel(R) Xeon(R) Platinum 8468"), &["NVIDIA H200".to_owned()]);
        assert!(chosen.chip.name.contains("H200") && chosen.notes[0].contains("CPU is another"), "{chosen:?}");
        // The GPU of an APU does not tell which chip it is.
        let apu = recognise(&cpu("AMD Ryzen 5 7640U"), &["AMD Radeon 780M (RADV PHOENIX)".to_owned()]);
        assert_eq!(apu.chip.processors.len(), 1);
        assert!(apu.notes[0].contains("'AMD Radeon 780M (RADV PHOENIX)' is not in the catalogue"), "{:?}", apu.notes);
    }

    #[test]
    fn an_unknown_machine_is_all_guesses() {
        let chosen = recognise(&cpu("AMD EPYC"), &[]);
        assert!(
            chosen.sources.iter().all(|s| s.guess && s.source.starts_with("guess: "))
                && chosen.origin.contains("guesses")
        );
        assert_eq!((chosen.chip.name.as_str(), chosen.chip.bus), ("AMD EPYC, 8 threads", 40e9));
        let nothing = recognise(&Cpu { model: String::new(), threads: 0, features: vec![] }, &[]);
        assert_eq!((nothing.chip.processors[0].name.as_str(), nothing.chip.bus), ("an unknown CPU", 13e9));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_names() {
        let stop = named("6502").unwrap_err();
        assert!(stop.code == 2 && stop.message.contains("Ryzen AI 9 HX 370"), "{stop}");
        assert!(named("Ryzen").is_err());
        let chosen = named("hx 370").unwrap().without(Gpu::Auto, Npu::Off);
        assert!(chosen.chip.processors.len() == 2 && chosen.notes[0].contains("TRI_NPU=off"), "{:?}", chosen.notes);
        assert!(!chosen.sources.iter().any(|s| s.place.starts_with("npu.")));
        assert!(chosen.sources.iter().any(|s| s.guess) && chosen.sources.iter().any(|s| !s.guess));
    }
}
