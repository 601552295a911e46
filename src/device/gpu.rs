//! What the devices know of their GPU, and its memory for ggml's buffers.

use super::{Device, Facts};
use crate::chip;
use crate::config::Config;
use crate::engine::vulkan::caps::MemoryKind;
use crate::engine::vulkan::memory::{Memory, capacity};
use crate::engine::vulkan::{Gpu, Wish, ops, survey};
use crate::graph::Node;
use std::ffi::CString;
use std::sync::Arc;

/// The largest buffer that ggml is offered, in bytes: large pieces keep the page tables of an APU short, and a single
/// tensor (an embedding of 256k rows) may need more than 1 GiB.
const LARGEST_BUFFER: u64 = 2 << 30;

/// Opens the GPU that the settings ask for.
pub(super) fn open(config: &Config) -> Result<Gpu, String> {
    if config.gpu == crate::config::Gpu::Off {
        return Err("switched off by TRI_GPU=off".to_owned());
    }
    let found = survey::survey()?;
    let wish = Wish { fault: config.fault, trace: config.trace };
    Gpu::open(survey::choose(&found, config.gpu)?, config.cache.as_deref(), wish)
}

/// The name of the GPU with its driver; a software device is called one.
pub(super) fn describe(gpu: &Gpu) -> String {
    let caps = &gpu.device.caps;
    let software = if caps.software { ", a software device" } else { "" };
    format!("{}, {}{software}", caps.name, caps.driver)
}

/// TRI0, and TRI0-GPU when there is a GPU.
pub(super) fn facts(cpu: &str, gpu: Option<&Gpu>) -> Vec<Facts> {
    // Names of processors have no NUL; one that had would be shown as nothing.
    let c = |text: String| CString::new(text).unwrap_or_default();
    let Some(gpu) = gpu else {
        return vec![Facts { name: "TRI0", description: c(cpu.to_owned()), id: c("tri".to_owned()), gpu: false }];
    };
    // The same hardware has the same id, so llama.cpp never uses both unless it is told to.
    let id = c(gpu.device.caps.pci.clone().unwrap_or_else(|| "tri".to_owned()));
    let name = describe(gpu);
    vec![
        Facts { name: "TRI0", description: c(format!("{name} + {cpu}")), id: id.clone(), gpu: true },
        Facts { name: "TRI0-GPU", description: c(name), id, gpu: true },
    ]
}

/// (available, total) bytes for tensors: the GPU's heaps, and on unified memory no more than the machine has.
pub(super) fn memory(gpu: &Gpu, host: chip::memory::Memory) -> (u64, u64) {
    let (available, total) = capacity(&gpu.device);
    match gpu.device.caps.memory {
        MemoryKind::Unified => (available.min(host.available), total.min(host.total)),
        MemoryKind::Visible => (available, total),
    }
}

impl Device {
    /// The GPU, if there is one.
    pub fn gpu(&self) -> Option<&Gpu> {
        self.gpu.as_ref().ok()
    }

    /// Allocates memory of the GPU; a failure is reported with the sizes.
    pub fn gpu_memory(&self, size: u64) -> Option<Arc<Memory>> {
        let gpu = self.gpu()?;
        gpu.allocate(size)
            .inspect_err(|error| {
                log::error!("TRI0: no memory for a buffer on the GPU: {error}; use fewer layers (-ngl), a smaller context (-c) or model");
            })
            .ok()
    }

    /// Bytes of the largest buffer in memory of the GPU.
    pub fn gpu_largest(&self) -> u64 {
        self.gpu().map_or(0, |gpu| gpu.device.caps.max_allocation.min(LARGEST_BUFFER))
    }

    /// Whether the GPU computes such a node.
    pub fn gpu_can(&self, node: &Node) -> bool {
        // ggml asks before it has marked what it wants computed.
        let asked = Node { compute: true, ..*node };
        self.gpu().is_some_and(|gpu| ops::supports(&asked, &gpu.device.caps).is_ok())
    }

    /// Copies tensor memory of the GPU to the CPU.
    pub fn gpu_read(&self, host: u64, to: &mut [u8]) {
        let Some(gpu) = self.gpu() else { return };
        if let Err(error) = gpu.read(host, to) {
            // ggml cannot be told; such floats are no numbers, so nobody mistakes them for results.
            to.fill(0xff);
            log::error!("TRI0: {} bytes cannot be read from the GPU: {error}", to.len());
        }
    }

    /// Copies bytes of the CPU to tensor memory of the GPU.
    pub fn gpu_write(&self, host: u64, from: &[u8]) {
        let Some(gpu) = self.gpu() else { return };
        if let Err(error) = gpu.write(host, from) {
            log::error!("TRI0: {} bytes cannot be written to the GPU: {error}", from.len());
        }
    }
}
