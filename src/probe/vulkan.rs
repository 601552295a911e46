//! Asks Vulkan for its devices. A broken driver may take the process with it that asks, so `tri` has a child ask.

use crate::config::{Config, Gpu};
use crate::engine::vulkan::caps::{MatrixShape, MemoryKind};
use crate::engine::vulkan::survey::{self, Found};
use serde::{Deserialize, Serialize};

/// What the child found, as it crosses to its parent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Every device that Vulkan offers.
    pub devices: Vec<Device>,
    /// The index of the one that `TRI_GPU` chooses now.
    pub chosen: Option<usize>,
    /// Why none is chosen.
    pub reason: Option<String>,
}

/// One device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// What `TRI_GPU` takes.
    pub index: usize,
    /// The name that the driver gives.
    pub name: String,
    /// Name and version of the driver.
    pub driver: String,
    /// A software device; used only when asked for.
    pub software: bool,
    /// PCI vendor.
    pub vendor: u32,
    /// `dddd:bb:dd.f`, where the driver tells.
    pub pci: Option<String>,
    /// Whether CPU and GPU have one memory.
    pub unified: bool,
    /// Why it cannot be used.
    pub unusable: Option<String>,
    /// Its heaps.
    pub heaps: Vec<Heap>,
    /// Its limits.
    pub limits: Limits,
    /// What is used where it is there: (what, whether it is there).
    pub features: Vec<(String, bool)>,
}

/// A heap of memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heap {
    /// Its size.
    pub bytes: u64,
    /// Whether the driver calls it the device's own.
    pub device: bool,
}

/// The limits that the engine decides by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Invocations of the subgroups that shaders run with.
    pub subgroup: u32,
    /// Bytes of shared memory of a workgroup.
    pub shared: u32,
    /// Invocations of a workgroup.
    pub invocations: u32,
    /// Bytes of the largest allocation.
    pub allocation: u64,
    /// Shapes of cooperative matrices: (type, m, n, k).
    pub matrices: Vec<(String, u32, u32, u32)>,
}

/// The devices of this machine and the one that the settings choose. A malformed `TRI_GPU` counts as `auto`: whoever shows
/// the settings says so.
///
/// # Errors
/// There is no Vulkan; the sentence says why.
pub fn ask() -> Result<Answer, String> {
    let found = survey::survey()?;
    let chosen = survey::choose(&found, Config::get().map_or(Gpu::Auto, |config| config.gpu));
    Ok(Answer {
        devices: found.iter().map(device).collect(),
        chosen: chosen.as_ref().ok().map(|found| found.index),
        reason: chosen.as_ref().err().cloned(),
    })
}

fn device(found: &Found) -> Device {
    let caps = &found.caps;
    let shape = |name: &str, s: Option<MatrixShape>| s.map(|s| (name.to_owned(), s.m, s.n, s.k));
    let matrices = [shape("f16", caps.matrix_f16), shape("bf16", caps.matrix_bf16), shape("int8", caps.matrix_i8)];
    Device {
        index: found.index,
        name: caps.name.clone(),
        driver: caps.driver.clone(),
        software: caps.software,
        vendor: caps.vendor,
        pci: caps.pci.clone(),
        unified: caps.memory == MemoryKind::Unified,
        unusable: found.unusable.clone(),
        heaps: found.heaps.iter().map(|&(bytes, device)| Heap { bytes, device }).collect(),
        limits: Limits {
            subgroup: caps.subgroup,
            shared: caps.shared,
            invocations: caps.invocations,
            allocation: caps.max_allocation,
            matrices: matrices.into_iter().flatten().collect(),
        },
        features: found.features.iter().map(|&(what, there)| (what.to_owned(), there)).collect(),
    }
}
