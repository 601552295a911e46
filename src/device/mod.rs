//! The devices, what all their streams share, and one stream of graphs.
//!
//! llama.cpp opens a backend for each model of a process (target, draft, projector); the engines' state is one.

mod gpu;
mod kept;
mod planning;
mod readback;
mod stream;

pub use stream::Stream;

use crate::config::{Config, Fault};
use crate::engine::vulkan::Gpu;
use crate::ggml::{CpuFeatures, Host, Weight};
use crate::memory::slab::Slab;
use crate::plan::layout::hold_repacked;
use crate::plan::{Mode, Objective};
use planning::Planning;
use readback::Readback;
use std::ffi::CString;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// What ggml shows of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// `TRI0`, or `TRI0-GPU` for the pinned GPU.
    pub name: &'static str,
    /// Processors.
    pub description: CString,
    /// The PCI address of the GPU; equal for devices that are the same hardware.
    pub id: CString,
    /// Whether tensors lie in memory of the GPU.
    pub gpu: bool,
}

/// The devices of a process: TRI0, and beside it the pinned TRI0-GPU when a GPU is used.
pub struct Device {
    host: Host,
    cpu: CpuFeatures,
    config: &'static Config,
    /// The GPU, or why there is none.
    gpu: Result<Gpu, String>,
    /// The planner of TRI0, where there is a choice.
    planning: Option<Planning>,
    facts: Vec<Facts>,
    allocations: AtomicU64,
    graphs: AtomicU64,
    /// The number of threads that a stream was last told; 0 before that.
    threads: AtomicI32,
    readback: Readback,
}

impl Device {
    /// Makes the devices of a checked host.
    pub fn new(host: Host, config: &'static Config) -> Device {
        let cpu = CpuFeatures::read(&host);
        let gpu = gpu::open(config);
        let planning = gpu.as_ref().ok().and_then(|gpu| Planning::new(&cpu.description, gpu, config));
        let asked = config.mode != Mode::Off || config.quota.is_some() || config.objective != Objective::Speed;
        if planning.is_none() && asked {
            log::warn!(
                "TRI0: TRI_MODE, TRI_OBJECTIVE and TRI_QUOTA have no effect: no GPU shares the memory of the CPU"
            );
        }
        let facts = gpu::facts(&cpu.description, gpu.as_ref().ok());
        let (allocations, graphs) = (AtomicU64::new(0), AtomicU64::new(0));
        let readback = Readback::default();
        Device { host, cpu, config, gpu, planning, facts, allocations, graphs, threads: AtomicI32::new(0), readback }
    }

    /// The devices, in the order of their numbers.
    pub fn facts(&self) -> &[Facts] {
        &self.facts
    }

    /// One line: which engines there are, and which there are not and why.
    pub fn describe(&self) -> String {
        let isa = self.cpu.isa.first().copied().unwrap_or("no SIMD that ggml-cpu names");
        let layouts = if self.cpu.layouts.is_empty() { "none".to_owned() } else { self.cpu.layouts.join(", ") };
        let commit = match self.host.commit().as_str() {
            "" | "unknown" => String::new(),
            commit => format!(" (commit {commit})"),
        };
        let cpu = format!("cpu ({}, {isa}, repacked layouts: {layouts})", self.cpu.description);
        let engines = match &self.gpu {
            Ok(gpu) => format!("gpu ({}), {cpu}; no npu", gpu::describe(gpu)),
            Err(reason) => format!("{cpu}; no gpu: {reason}; no npu"),
        };
        format!("TRI0: engines: {engines}: this version has no engine for it; ggml {}{commit}", Host::built_version())
    }

    /// Memory that a device can use and the total, in bytes: what is really available, cgroup limits included.
    pub fn memory(&self, device: usize) -> (u64, u64) {
        let host = crate::chip::memory::available(std::path::Path::new("/"));
        let (available, total) = match &self.gpu {
            Ok(gpu) if self.facts.get(device).is_some_and(|f| f.gpu) => gpu::memory(gpu, host),
            _ => (host.available, host.total),
        };
        // Zero available of some total would mean "unknown" to llama.cpp, and divides by zero in its memory fit.
        (available.max(total.min(1 << 20)), total)
    }

    /// Allocates a slab; a failure is reported with the sizes.
    pub fn slab(&self, size: u64) -> Option<Slab> {
        let n = self.allocations.fetch_add(1, Ordering::Relaxed) + 1;
        let faulty = self.config.fault == Some(Fault::Alloc(n));
        let slab = usize::try_from(size).ok().filter(|_| !faulty).and_then(Slab::new);
        if slab.is_none() {
            let (available, total) = self.memory(0);
            let cause = if faulty { " (asked for by TRI_FAULT)" } else { "" };
            log::error!(
                "TRI0: no memory for a buffer of {} MiB{cause}; {} of {} MiB are available; use a smaller context (-c) or model",
                size >> 20,
                available >> 20,
                total >> 20
            );
        }
        slab
    }

    /// Whether a weight that ggml-cpu can hold repacked is held so.
    pub fn hold_repacked(&self, weight_type: &str) -> bool {
        hold_repacked(self.config.layout, &self.cpu.isa, weight_type)
    }

    /// Notes where the bytes of a repacked weight came from.
    pub fn weight_written(&self, weight: &Weight, from: usize) {
        self.readback.note(weight, from);
    }

    /// Forgets the weights of a buffer that is freed.
    pub fn weights_freed(&self, base: usize, size: u64) {
        self.readback.forget(base, size);
    }

    /// Fills `to` with the bytes of the file's layout from `offset` on. Where that is impossible an error says so and `to`
    /// holds only 0xff: ggml has no way to report it, and such floats are no numbers, so nobody mistakes them for weights.
    pub fn weight_read(&self, weight: &Weight, offset: usize, to: &mut [u8]) {
        if let Err(reason) = self.readback.read(weight, offset, to) {
            to.fill(0xff);
            log::error!(
                "TRI0: the weight {} cannot be read back: {reason}; load with TRI_LAYOUT=plain",
                weight.describe()
            );
        }
    }

    /// Opens a stream of a device; `None` when ggml-cpu gives no backend.
    pub fn stream(&'static self, device: usize) -> Option<Stream> {
        Stream::new(self, self.facts.get(device)?)
    }
}
