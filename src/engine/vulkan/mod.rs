//! The GPU engine: own shaders over Vulkan.
//!
//! Unsafe room, but for `ops/`, which is plain code: what the GPU does is decided there, and done here.
#![allow(unsafe_code)]

pub mod caps;
pub mod device;
pub mod memory;
pub mod ops;
mod pipelines;
pub mod recording;
#[cfg(test)]
pub mod testing;

use crate::graph::Node;
use ash::vk;
use device::{Device, Found};
use memory::{Buffers, Memory, MemoryError, Role};
use ops::{Lowering, Reject};
use pipelines::Pipelines;
use recording::Recording;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// What went wrong on the GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// The device is gone; everything in its memory too, unless that is the host's.
    #[error("the device is lost")]
    Lost,
    /// No memory.
    #[error("no memory: {0}")]
    Memory(#[from] MemoryError),
    /// The driver refuses something.
    #[error("{0}")]
    Driver(String),
    /// A node that cannot be lowered was given to the engine.
    #[error("{0}")]
    Reject(#[from] Reject),
}

impl From<vk::Result> for GpuError {
    fn from(result: vk::Result) -> GpuError {
        match result {
            vk::Result::ERROR_DEVICE_LOST => GpuError::Lost,
            other => GpuError::Driver(format!("the driver says: {other}")),
        }
    }
}

/// The most operations of one submission before its speed is known: 0.1 s of the slowest GPU in question (about 0.5 TFLOPS).
const WORK_LIMIT: f64 = 50e9;

/// An open GPU with everything that its streams share.
pub struct Gpu {
    /// Where ggml's buffers lie.
    pub buffers: Buffers,
    /// Staging for reads of memory that the CPU reads slowly; made when first needed.
    readback: Mutex<Option<Memory>>,
    pipelines: Pipelines,
    /// The open device; dropped last.
    pub device: Arc<Device>,
}

impl Gpu {
    /// Opens a device. `cache`: the folder for compiled shaders.
    ///
    /// # Errors
    /// The driver refuses; the sentence says what it said.
    pub fn open(found: &Found, cache: Option<&Path>) -> Result<Gpu, String> {
        let device = Arc::new(Device::open(found)?);
        let pipelines = Pipelines::new(&device, cache, 0).map_err(|e| e.to_string())?;
        Ok(Gpu { buffers: Buffers::default(), readback: Mutex::default(), pipelines, device })
    }

    /// Allocates memory for ggml's tensors and makes it known.
    ///
    /// # Errors
    /// There is no room.
    pub fn allocate(&self, size: u64) -> Result<Arc<Memory>, MemoryError> {
        let memory = Arc::new(Memory::new(&self.device, Role::Tensors, size)?);
        self.buffers.add(memory.clone());
        Ok(memory)
    }

    /// Lowers nodes and records them.
    ///
    /// # Errors
    /// A node cannot be lowered, or there is no memory for its intermediate data.
    pub fn record(&self, nodes: &[Node]) -> Result<Recording, GpuError> {
        self.record_with(|cx| nodes.iter().try_for_each(|node| ops::lower(node, cx)))
    }

    /// Records the dispatches that `lower` makes; it is called twice and must do the same both times.
    ///
    /// # Errors
    /// `lower` fails, or there is no memory for intermediate data.
    pub fn record_with(&self, lower: impl Fn(&mut Lowering) -> Result<(), Reject>) -> Result<Recording, GpuError> {
        // The first time tells how much memory parameters and scratch need.
        let mut first = Lowering::new(&self.device.caps, &self.buffers, 0, 0);
        lower(&mut first)?;
        let params = Memory::new(&self.device, Role::Tensors, first.params.len() as u64)?;
        let scratch = Memory::new(&self.device, Role::Tensors, first.scratch_peak)?;
        let mut cx = Lowering::new(&self.device.caps, &self.buffers, params.gpu, scratch.gpu);
        lower(&mut cx)?;
        params.write(0, &cx.params);
        Recording::new(&self.device, &self.pipelines, &cx.dispatches, None, vec![params, scratch], WORK_LIMIT)
    }

    /// Copies tensor memory to the CPU; `host` is an address inside a buffer.
    ///
    /// # Errors
    /// The device is lost.
    pub fn read(&self, host: u64, to: &mut [u8]) -> Result<(), GpuError> {
        let (memory, offset) =
            self.buffers.find(host).ok_or_else(|| GpuError::Driver(format!("{host:#x} is in no buffer")))?;
        if memory.cached || to.len() < 64 {
            memory.read(offset, to);
            return Ok(());
        }
        let mut slot = self.readback.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_none_or(|m| m.size < to.len() as u64) {
            *slot = None;
            *slot = Some(Memory::new(&self.device, Role::Readback, (to.len() as u64).next_power_of_two())?);
        }
        let Some(staging) = slot.as_ref() else { return Ok(()) };
        let copy = recording::Copy { from: memory.buffer, from_offset: offset, to_offset: 0, size: to.len() as u64 };
        let copies = Some((&[copy][..], staging.buffer));
        Recording::new(&self.device, &self.pipelines, &[], copies, Vec::new(), WORK_LIMIT)?.run()?;
        staging.read(0, to);
        Ok(())
    }
}
