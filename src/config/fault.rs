//! `TRI_FAULT`: what is to fail, for tests.

use crate::engine::EngineKind;

/// A fault that a test asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The Nth slab allocation fails.
    Alloc(u64),
    /// The Nth graph fails.
    Compute(u64),
    /// The Nth graph panics inside the plugin.
    Panic(u64),
    /// The Nth allocation of the GPU's memory fails.
    GpuAlloc(u64),
    /// The GPU is lost in its Nth run.
    GpuLost(u64),
    /// An engine takes longer.
    Slow(Slow),
}

/// An engine that takes longer than it would.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slow {
    /// Which one.
    pub engine: EngineKind,
    /// How many times as long.
    pub factor: u32,
    /// In which graphs of the process: from the first number on, up to the second one.
    pub graphs: (u64, u64),
}

/// Reads a fault; the inner `None` is `off`.
pub(super) fn read(text: &str) -> Option<Option<Fault>> {
    if text == "off" {
        return Some(None);
    }
    let (kind, n) = text.split_once('@')?;
    if let Some(slow) = kind.strip_prefix("slow:") {
        let ((engine, factor), (from, to)) = (slow.split_once(':')?, n.split_once('-')?);
        let engine = [EngineKind::Cpu, EngineKind::Gpu].into_iter().find(|e| e.name() == engine)?;
        let factor = factor.parse().ok().filter(|f| (2..=100).contains(f))?;
        let graphs = (from.parse().ok().filter(|n| *n >= 1)?, to.parse().ok()?);
        return (graphs.0 <= graphs.1).then_some(Some(Fault::Slow(Slow { engine, factor, graphs })));
    }
    let n = n.parse().ok().filter(|n| *n >= 1)?;
    match kind {
        "alloc" => Some(Some(Fault::Alloc(n))),
        "compute" => Some(Some(Fault::Compute(n))),
        "panic" => Some(Some(Fault::Panic(n))),
        "vulkan:alloc" => Some(Some(Fault::GpuAlloc(n))),
        "vulkan:lost" => Some(Some(Fault::GpuLost(n))),
        _ => None,
    }
}
