//! The GPU engine: own shaders over Vulkan.
//!
//! Unsafe room, but for `ops/`, which is plain code: what the GPU does is decided there, and done here.
#![allow(unsafe_code)]

pub mod caps;
mod check;
pub mod device;
mod engine;
pub mod memory;
pub mod mirror;
pub mod ops;
mod pipelines;
pub mod recording;
pub mod survey;
#[cfg(test)]
pub mod testing;
mod trace;

use crate::config::Fault;
use crate::graph::Node;
use ash::vk;
use check::Check;
use device::Device;
pub use engine::Vulkan;
use memory::{Buffers, Memory, MemoryError, Role};
use mirror::Mirror;
use ops::{Lowering, Reject};
use pipelines::Pipelines;
use recording::Recording;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use survey::Found;
use trace::Sums;

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

/// What a caller may want besides computing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish {
    /// What is to fail.
    pub fault: Option<Fault>,
    /// Whether times are measured on the GPU.
    pub trace: bool,
}

/// An open GPU with everything that its streams share.
pub struct Gpu {
    /// Set when the device was lost: nothing is computed on it any more.
    retired: AtomicBool,
    /// Where ggml's buffers lie.
    pub buffers: Buffers,
    /// Results that were copied to the CPU with their graph.
    mirror: Mirror,
    /// Staging for reads of memory that the CPU reads slowly; made when first needed.
    readback: Mutex<Option<Memory>>,
    pipelines: Pipelines,
    /// Times measured on the GPU.
    times: Sums,
    /// The table of a checking build.
    check: Option<Check>,
    /// The open device; dropped last.
    pub device: Arc<Device>,
}

impl Gpu {
    /// Opens a device. `cache`: the folder for compiled shaders. `wish`: what is wanted besides computing.
    ///
    /// # Errors
    /// The driver refuses; the sentence says what it said.
    pub fn open(found: &Found, cache: Option<&Path>, wish: Wish) -> Result<Gpu, String> {
        let device = Arc::new(Device::open(found, wish.fault, wish.trace)?);
        let check = if pipelines::CHECKED { Some(Check::new(&device).map_err(|e| e.to_string())?) } else { None };
        let table = check.as_ref().map_or(0, Check::address);
        let pipelines = Pipelines::new(&device, cache, table).map_err(|e| e.to_string())?;
        Ok(Gpu {
            retired: AtomicBool::new(false),
            buffers: Buffers::default(),
            mirror: Mirror::default(),
            readback: Mutex::default(),
            pipelines,
            times: Sums::default(),
            check,
            device,
        })
    }

    /// Stops using the device for good. True for the first call.
    pub fn retire(&self) -> bool {
        !self.retired.swap(true, Ordering::Relaxed)
    }

    /// Whether the device may still be used.
    pub fn alive(&self) -> bool {
        !self.retired.load(Ordering::Relaxed)
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

    /// Lowers nodes and records them. Results that the host reads are copied to the CPU with them, where that is faster.
    ///
    /// # Errors
    /// A node cannot be lowered, or there is no memory for its intermediate data.
    pub fn record(&self, nodes: &[Node]) -> Result<Recording, GpuError> {
        let outputs = mirror::Outputs::of(nodes, &self.buffers, &self.device)?;
        self.record_with(outputs, |cx| ops::lower_all(nodes, cx))
    }

    /// Records the dispatches that `lower` makes, and then the copies of `outputs`. `lower` is called twice and must do the
    /// same both times.
    ///
    /// # Errors
    /// `lower` fails, or there is no memory for intermediate data.
    pub fn record_with(
        &self,
        outputs: Option<mirror::Outputs>,
        lower: impl Fn(&mut Lowering) -> Result<(), Reject>,
    ) -> Result<Recording, GpuError> {
        // The first time tells how much memory parameters and scratch need.
        let mut first = Lowering::new(&self.device.caps, &self.buffers, 0, 0);
        lower(&mut first)?;
        let params = Memory::new(&self.device, Role::Tensors, first.params.len() as u64)?;
        let scratch = Memory::new(&self.device, Role::Tensors, first.scratch_peak)?;
        let mut cx = Lowering::new(&self.device.caps, &self.buffers, params.gpu, scratch.gpu);
        lower(&mut cx)?;
        params.write(0, &cx.params);
        let dispatches = ops::schedule::by_level(cx.dispatches);
        let copies = outputs.as_ref().map(|o| (&o.copies[..], o.memory.buffer));
        let memory = vec![params, scratch];
        let mut recording = Recording::new(&self.device, &self.pipelines, &dispatches, copies, memory, WORK_LIMIT)?;
        recording.outputs = outputs;
        Ok(recording)
    }

    /// Runs a recording and makes its results readable.
    ///
    /// # Errors
    /// The device is lost.
    pub fn run(&self, recording: &Recording) -> Result<(), GpuError> {
        self.begin(recording)?;
        self.finish(recording)
    }

    /// Begins to run a recording.
    ///
    /// # Errors
    /// The device is lost.
    pub fn begin(&self, recording: &Recording) -> Result<(), GpuError> {
        self.mirror.clear();
        if let Some(check) = &self.check {
            check.allow(&[self.buffers.ranges(), recording.memory()].concat());
        }
        recording.submit()
    }

    /// Waits for the end of what was begun, and makes its results readable.
    ///
    /// # Errors
    /// The device is lost.
    pub fn finish(&self, recording: &Recording) -> Result<(), GpuError> {
        recording.wait()?;
        if let Some((count, address)) = self.check.as_ref().and_then(Check::wrong) {
            return Err(GpuError::Driver(format!("shaders touched {count} wrong addresses, one of them {address:#x}")));
        }
        if let Some(stamps) = &recording.stamps {
            self.times.add(stamps)?;
        }
        self.mirror.set(recording.outputs.as_ref());
        Ok(())
    }

    /// The times measured since the last call, one line for each kind of level.
    pub fn times(&self) -> Vec<String> {
        self.times.take()
    }

    /// Writes the compiled shaders to disk, if there are new ones.
    pub fn save(&self) {
        self.pipelines.save();
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
        if self.mirror.read(host, to) {
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

    /// Copies bytes of the CPU to tensor memory; `host` is an address inside a buffer.
    ///
    /// # Errors
    /// The address is in no buffer.
    pub fn write(&self, host: u64, from: &[u8]) -> Result<(), GpuError> {
        let (memory, offset) =
            self.buffers.find(host).ok_or_else(|| GpuError::Driver(format!("{host:#x} is in no buffer")))?;
        memory.write(offset, from);
        self.mirror.forget(host, from.len() as u64);
        Ok(())
    }

    /// Gives memory of ggml's tensors up.
    pub fn free(&self, memory: &Memory) {
        self.buffers.remove(memory.host() as u64);
        self.mirror.forget(memory.host() as u64, memory.size);
    }
}
