//! TRI0: what all its streams share, and one stream of graphs.
//!
//! llama.cpp opens a backend for each model of a process (target, draft, projector); the engines' state is one.

mod readback;
mod stream;

pub use stream::Stream;

use crate::config::{Config, Fault};
use crate::ggml::{CpuFeatures, Host, Weight};
use crate::memory::slab::Slab;
use crate::plan::layout::hold_repacked;
use readback::Readback;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// The one device of a process.
pub struct Device {
    host: Host,
    cpu: CpuFeatures,
    config: &'static Config,
    allocations: AtomicU64,
    graphs: AtomicU64,
    /// The number of threads that a stream was last told; 0 before that.
    threads: AtomicI32,
    readback: Readback,
}

impl Device {
    /// Makes the device of a checked host.
    pub fn new(host: Host, config: &'static Config) -> Device {
        let cpu = CpuFeatures::read(&host);
        let (allocations, graphs) = (AtomicU64::new(0), AtomicU64::new(0));
        Device { host, cpu, config, allocations, graphs, threads: AtomicI32::new(0), readback: Readback::default() }
    }

    /// One line: which engines there are, and which there are not and why.
    pub fn describe(&self) -> String {
        let isa = self.cpu.isa.first().copied().unwrap_or("no SIMD that ggml-cpu names");
        let layouts = if self.cpu.layouts.is_empty() { "none".to_owned() } else { self.cpu.layouts.join(", ") };
        let commit = match self.host.commit().as_str() {
            "" | "unknown" => String::new(),
            commit => format!(" (commit {commit})"),
        };
        format!(
            "TRI0: engines: cpu ({}, {isa}, repacked layouts: {layouts}); no gpu and no npu: this version has no engine for \
             them; ggml {}{commit}",
            self.cpu.description,
            Host::built_version(),
        )
    }

    /// Memory that TRI0 can use and the total, in bytes: what is really available, cgroup limits included.
    pub fn memory(&self) -> (u64, u64) {
        let memory = crate::chip::memory::available(std::path::Path::new("/"));
        // Zero available of some total would mean "unknown" to llama.cpp, and divides by zero in its memory fit.
        (memory.available.max(memory.total.min(1 << 20)), memory.total)
    }

    /// Allocates a slab; a failure is reported with the sizes.
    pub fn slab(&self, size: u64) -> Option<Slab> {
        let n = self.allocations.fetch_add(1, Ordering::Relaxed) + 1;
        let faulty = self.config.fault == Some(Fault::Alloc(n));
        let slab = usize::try_from(size).ok().filter(|_| !faulty).and_then(Slab::new);
        if slab.is_none() {
            let (available, total) = self.memory();
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

    /// Opens a stream; `None` when ggml-cpu gives no backend.
    pub fn stream(&'static self) -> Option<Stream> {
        Stream::new(self)
    }
}
