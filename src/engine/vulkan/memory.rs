//! Memory of the device, mapped into the host's address space, with its GPU address.

use super::caps::MemoryKind;
use super::device::{Device, Mapped};
use super::ops::Place;
use ash::vk;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// What memory is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Tensors, parameters and scratch: the GPU reads and writes it; on unified memory the CPU too, at full speed.
    Tensors,
    /// Results on their way to the CPU.
    Readback,
}

/// One allocation.
pub struct Memory {
    device: Arc<Device>,
    /// The whole of it.
    pub buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    host: Mapped,
    /// GPU address of the first byte.
    pub gpu: u64,
    /// Bytes.
    pub size: u64,
    /// Whether the CPU reads it at full speed.
    pub cached: bool,
}

/// Why there is no memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// More than the device gives in one piece.
    #[error("{0} MiB in one piece; the device's limit is {1} MiB")]
    TooLarge(u64, u64),
    /// A failure that a test asked for.
    #[error("{0} MiB are refused (asked for by TRI_FAULT)")]
    Fault(u64),
    /// No room.
    #[error("{needed} MiB are needed, {available} MiB are available ({driver})")]
    Full {
        /// MiB asked for.
        needed: u64,
        /// MiB that the driver says are left.
        available: u64,
        /// The driver's word.
        driver: String,
    },
}

/// Indices of memory types that fit the role, best first.
fn types(device: &Device, role: Role) -> Vec<usize> {
    use vk::MemoryPropertyFlags as F;
    let mapped = F::HOST_VISIBLE | F::HOST_COHERENT;
    let wishes: &[F] = match (role, device.caps.memory) {
        (Role::Readback, _) => &[F::HOST_CACHED, F::empty()],
        (Role::Tensors, MemoryKind::Unified) => &[
            F::from_raw(F::HOST_CACHED.as_raw() | F::DEVICE_LOCAL.as_raw()),
            F::HOST_CACHED,
            F::DEVICE_LOCAL,
            F::empty(),
        ],
        (Role::Tensors, MemoryKind::Visible) => &[F::DEVICE_LOCAL],
    };
    let all = device.memory.memory_types_as_slice();
    let mut out = Vec::new();
    for wish in wishes {
        for (i, t) in all.iter().enumerate() {
            if t.property_flags.contains(mapped | *wish) && !out.contains(&i) {
                out.push(i);
            }
        }
    }
    out
}

/// (available, total) bytes for tensors.
pub fn capacity(device: &Device) -> (u64, u64) {
    let mut heaps: Vec<u32> =
        types(device, Role::Tensors).into_iter().map(|t| device.memory.memory_types[t].heap_index).collect();
    heaps.sort_unstable();
    heaps.dedup();
    heaps.into_iter().map(|h| device.heap(h)).fold((0, 0), |sum, h| (sum.0 + h.0, sum.1 + h.1))
}

impl Memory {
    /// Allocates and maps `size` bytes.
    ///
    /// # Errors
    /// There is no room, in any memory type that fits.
    pub fn new(device: &Arc<Device>, role: Role, size: u64) -> Result<Memory, MemoryError> {
        let size = size.max(256).next_multiple_of(256);
        if size > device.caps.max_allocation {
            return Err(MemoryError::TooLarge(size.div_ceil(1 << 20), device.caps.max_allocation >> 20));
        }
        if device.faults.allocation() {
            return Err(MemoryError::Fault(size.div_ceil(1 << 20)));
        }
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST
            | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        let info = vk::BufferCreateInfo::default().size(size).usage(usage);
        let full = |available: u64, driver: vk::Result| MemoryError::Full {
            needed: size.div_ceil(1 << 20),
            available: available >> 20,
            driver: driver.to_string(),
        };
        // SAFETY: the device is live.
        let buffer = unsafe { device.raw.create_buffer(&info, None) }.map_err(|e| full(0, e))?;
        // SAFETY: the buffer was made just now.
        let bits = unsafe { device.raw.get_buffer_memory_requirements(buffer) }.memory_type_bits;
        let mut last = full(0, vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
        for index in types(device, role).into_iter().filter(|i| bits & (1 << i) != 0) {
            let kind = device.memory.memory_types[index];
            match allocate(device, buffer, index as u32) {
                Ok((memory, host, gpu)) => {
                    let cached = kind.property_flags.contains(vk::MemoryPropertyFlags::HOST_CACHED);
                    return Ok(Memory { device: device.clone(), buffer, memory, host, gpu, size, cached });
                }
                Err(e) => last = full(device.heap(kind.heap_index).0, e),
            }
        }
        // SAFETY: the buffer has no memory and no user.
        unsafe { device.raw.destroy_buffer(buffer, None) };
        Err(last)
    }

    /// Host address of the first byte.
    pub fn host(&self) -> *mut u8 {
        self.host.0.cast()
    }

    /// Copies `bytes` to `offset`.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        assert!(offset + bytes.len() as u64 <= self.size, "a write of {} at {offset} of {}", bytes.len(), self.size);
        // SAFETY: the range lies inside the mapping, and no GPU work that reads it is under way.
        unsafe { self.host().add(offset as usize).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Copies from `offset`.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) {
        assert!(offset + bytes.len() as u64 <= self.size, "a read of {} at {offset} of {}", bytes.len(), self.size);
        // SAFETY: the range lies inside the mapping, and no GPU work that writes it is under way.
        unsafe { self.host().add(offset as usize).copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
    }
}

fn allocate(device: &Device, buffer: vk::Buffer, index: u32) -> Result<(vk::DeviceMemory, Mapped, u64), vk::Result> {
    // SAFETY: the buffer is live and has no memory yet; memory that cannot be bound or mapped is freed again.
    unsafe {
        let needs = device.raw.get_buffer_memory_requirements(buffer);
        let mut flags = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(index)
            .push_next(&mut flags);
        let memory = device.raw.allocate_memory(&info, None)?;
        let mapped = device
            .raw
            .map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty())
            .and_then(|host| device.raw.bind_buffer_memory(buffer, memory, 0).map(|()| host));
        match mapped {
            Ok(host) => {
                let gpu = device.raw.get_buffer_device_address(&vk::BufferDeviceAddressInfo::default().buffer(buffer));
                Ok((memory, Mapped(host), gpu))
            }
            Err(e) => {
                device.raw.free_memory(memory, None);
                Err(e)
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: every submission is waited for before its memory is given up, and the handles are not used again.
        unsafe {
            self.device.raw.destroy_buffer(self.buffer, None);
            self.device.raw.free_memory(self.memory, None);
        }
    }
}

/// The allocations in which ggml's buffers lie, by host address.
#[derive(Default)]
pub struct Buffers(RwLock<BTreeMap<u64, Arc<Memory>>>);

impl Buffers {
    /// Adds an allocation.
    pub fn add(&self, memory: Arc<Memory>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(memory.host() as u64, memory);
    }

    /// Forgets the allocation that starts at a host address.
    pub fn remove(&self, host: u64) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&host);
    }

    /// The allocation that a host address lies in, and the offset in it.
    pub fn find(&self, host: u64) -> Option<(Arc<Memory>, u64)> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let (base, memory) = all.range(..=host).next_back()?;
        (host - base < memory.size).then(|| (memory.clone(), host - base))
    }

    /// (GPU address, bytes) of each.
    pub fn ranges(&self) -> Vec<(u64, u64)> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().map(|m| (m.gpu, m.size)).collect()
    }
}

impl Place for Buffers {
    fn gpu(&self, host: u64) -> Option<u64> {
        self.find(host).map(|(memory, offset)| memory.gpu + offset)
    }
}
