//! The open Vulkan device. One per process.

use super::caps::Caps;
use super::survey::{Found, extensions};
use crate::config::Fault;
use ash::vk;
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts what `TRI_FAULT` can make fail.
#[derive(Debug, Default)]
pub struct Faults {
    wish: Option<Fault>,
    allocations: AtomicU64,
    runs: AtomicU64,
}

impl Faults {
    /// Whether the allocation that is about to be made is to fail.
    pub fn allocation(&self) -> bool {
        let n = self.allocations.fetch_add(1, Ordering::Relaxed) + 1;
        self.wish == Some(Fault::GpuAlloc(n))
    }

    /// Whether the device is to be lost in the run that is about to begin.
    pub fn run(&self) -> bool {
        let n = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        self.wish == Some(Fault::GpuLost(n))
    }
}

/// An open device.
pub struct Device {
    /// Functions of the device.
    pub raw: ash::Device,
    /// What it can do.
    pub caps: Caps,
    /// The queue; Vulkan wants one submission at a time.
    pub queue: Mutex<vk::Queue>,
    /// The queue's family.
    pub family: u32,
    /// Faults that a test asked for.
    pub faults: Faults,
    /// Whether times are measured on the GPU.
    pub trace: bool,
    /// Memory types and heaps.
    pub memory: vk::PhysicalDeviceMemoryProperties,
    budget: bool,
    physical: vk::PhysicalDevice,
    instance: ash::Instance,
    _entry: ash::Entry,
}

// SAFETY: handles of Vulkan may be used from any thread; the queue is behind a lock.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// Loads Vulkan and makes an instance.
pub(super) fn instance() -> Result<(ash::Entry, ash::Instance), String> {
    // SAFETY: the loader library is the system's Vulkan loader, whose initialisers are sound.
    let entry = unsafe { ash::Entry::load() }
        .map_err(|e| format!("no Vulkan loader (libvulkan.so.1): {e}; install the package libvulkan1 and a driver"))?;
    let application = vk::ApplicationInfo::default().application_name(c"ggml-tri").api_version(vk::API_VERSION_1_3);
    let info = vk::InstanceCreateInfo::default().application_info(&application);
    // SAFETY: `info` and what it points to live during the call.
    let instance = unsafe { entry.create_instance(&info, None) }
        .map_err(|e| format!("Vulkan gives no instance: {e}; is a Vulkan driver installed (mesa-vulkan-drivers)?"))?;
    Ok((entry, instance))
}

impl Device {
    /// Opens the device with this place in the driver's list.
    ///
    /// # Errors
    /// The driver refuses; the sentence says what it said.
    pub fn open(found: &Found, fault: Option<Fault>, trace: bool) -> Result<Device, String> {
        let (entry, instance) = instance()?;
        // SAFETY: the instance is live.
        let all = unsafe { instance.enumerate_physical_devices() }.map_err(|e| format!("no devices: {e}"))?;
        let physical = *all.get(found.index).ok_or("the device is gone")?;
        // SAFETY: the handles are live.
        let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
        let family = families
            .iter()
            .position(|f| f.queue_flags.contains(vk::QueueFlags::COMPUTE))
            .ok_or("the device has no queue for compute shaders")? as u32;
        let extensions = extensions(&instance, physical);
        let names: Vec<_> = extensions.iter().map(|e| e.as_ptr()).collect();
        let mut f11 = vk::PhysicalDeviceVulkan11Features::default().storage_buffer16_bit_access(true);
        let mut f12 = vk::PhysicalDeviceVulkan12Features::default()
            .buffer_device_address(true)
            .scalar_block_layout(true)
            .shader_float16(true)
            .shader_int8(true)
            .storage_buffer8_bit_access(true)
            .vulkan_memory_model(true)
            .vulkan_memory_model_device_scope(true)
            .host_query_reset(true)
            .timeline_semaphore(true);
        let mut f13 = vk::PhysicalDeviceVulkan13Features::default()
            .subgroup_size_control(true)
            .compute_full_subgroups(true)
            .synchronization2(true)
            .maintenance4(true)
            .shader_integer_dot_product(found.caps.dot);
        let base = vk::PhysicalDeviceFeatures::default().shader_int16(true).shader_int64(true);
        let mut features = vk::PhysicalDeviceFeatures2::default()
            .features(base)
            .push_next(&mut f11)
            .push_next(&mut f12)
            .push_next(&mut f13);
        let mut fm = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(true);
        if found.caps.matrix_f16.is_some() || found.caps.matrix_i8.is_some() {
            features = features.push_next(&mut fm);
        }
        let queue = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queue)
            .enabled_extension_names(&names)
            .push_next(&mut features);
        // SAFETY: `info` and what it points to live during the call; every feature was found to be there.
        let raw = unsafe { instance.create_device(physical, &info, None) }
            .map_err(|e| format!("{} cannot be opened: {e}", found.caps.name))?;
        // SAFETY: the device was made with one queue of this family.
        let queue = Mutex::new(unsafe { raw.get_device_queue(family, 0) });
        // SAFETY: the handles are live.
        let memory = unsafe { instance.get_physical_device_memory_properties(physical) };
        let budget = extensions.contains(&ash::ext::memory_budget::NAME);
        let (caps, faults) = (found.caps.clone(), Faults { wish: fault, ..Faults::default() });
        let trace = trace && caps.timestamp_ns > 0.0;
        Ok(Device { raw, caps, queue, family, faults, trace, memory, budget, physical, instance, _entry: entry })
    }

    /// Bytes of the heap with this index that this process can still use, and the heap's size.
    pub fn heap(&self, index: u32) -> (u64, u64) {
        let size = self.memory.memory_heaps[index as usize].size;
        if !self.budget {
            return (size, size);
        }
        let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut properties = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
        // SAFETY: the handles are live, and the device offers the extension.
        unsafe { self.instance.get_physical_device_memory_properties2(self.physical, &mut properties) };
        let (limit, used) = (budget.heap_budget[index as usize], budget.heap_usage[index as usize]);
        (limit.saturating_sub(used).min(size), size)
    }

    /// The driver's header of a pipeline cache starts with these bytes when the cache is from this device and driver.
    pub fn cache_identity(&self) -> Vec<u8> {
        // SAFETY: the handles are live.
        let p = unsafe { self.instance.get_physical_device_properties(self.physical) };
        let mut identity = Vec::with_capacity(32);
        identity.extend_from_slice(&p.vendor_id.to_le_bytes());
        identity.extend_from_slice(&p.device_id.to_le_bytes());
        identity.extend_from_slice(&p.driver_version.to_le_bytes());
        identity.extend_from_slice(&p.pipeline_cache_uuid);
        identity
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: everything made from the device holds an `Arc` of it and is gone, so nothing runs on it.
        unsafe {
            self.raw.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}

/// A pointer that may cross threads: mapped memory, which is plain memory.
#[derive(Debug, Clone, Copy)]
pub struct Mapped(pub *mut c_void);

// SAFETY: mapped memory may be touched from any thread; who may when is up to the memory's users.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}
