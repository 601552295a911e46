//! The devices that Vulkan offers: what they can do, and which one is used.

use super::caps::{Caps, MatrixShape, MemoryKind};
use super::device::instance;
use crate::config::Gpu;
use ash::{khr, vk};
use std::ffi::CStr;

/// A device that Vulkan offers, and what speaks against using it.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Place in the driver's list; what `TRI_GPU` takes.
    pub index: usize,
    /// What it can do.
    pub caps: Caps,
    /// Why it cannot be used.
    pub unusable: Option<String>,
    /// (bytes, in the device) of each heap.
    pub heaps: Vec<(u64, bool)>,
    /// What is used where it is there, and whether it is.
    pub features: Vec<(&'static str, bool)>,
}

/// Every device that Vulkan offers.
///
/// # Errors
/// Vulkan itself is not there; the sentence says why.
pub fn survey() -> Result<Vec<Found>, String> {
    let (_entry, instance) = instance()?;
    // SAFETY: the instance is live.
    let all = unsafe { instance.enumerate_physical_devices() }.map_err(|e| format!("Vulkan lists no devices: {e}"))?;
    let found = all.into_iter().enumerate().map(|(i, p)| look(&instance, i, p)).collect();
    // SAFETY: nothing made from the instance lives on.
    unsafe { instance.destroy_instance(None) };
    Ok(found)
}

/// The device that `wish` means: the first usable one in hardware; a software device only when asked for.
///
/// # Errors
/// None fits; the sentence says why.
pub fn choose(found: &[Found], wish: Gpu) -> Result<&Found, String> {
    let reasons = || {
        let each = |f: &Found| {
            let why = match (&f.unusable, f.caps.software) {
                (Some(reason), _) => reason.as_str(),
                (None, true) => "a software device, used only when TRI_GPU asks for it",
                (None, false) => "usable",
            };
            format!("{} {}: {why}", f.index, f.caps.name)
        };
        let list: Vec<_> = found.iter().map(each).collect();
        if list.is_empty() { "Vulkan lists no device".to_owned() } else { list.join("; ") }
    };
    let fits = |f: &&Found| match wish {
        Gpu::Auto => !f.caps.software && f.unusable.is_none(),
        Gpu::Off => false,
        Gpu::Lavapipe => f.caps.software && f.unusable.is_none(),
        Gpu::Index(i) => f.index == usize::from(i) && f.unusable.is_none(),
    };
    if wish == Gpu::Off {
        return Err("switched off by TRI_GPU=off".to_owned());
    }
    found.iter().find(fits).ok_or_else(reasons)
}

/// Names of the extensions that are used where they are there.
pub(super) fn extensions(instance: &ash::Instance, physical: vk::PhysicalDevice) -> Vec<&'static CStr> {
    // SAFETY: the handles are live.
    let there = unsafe { instance.enumerate_device_extension_properties(physical) }.unwrap_or_default();
    let wanted = [khr::cooperative_matrix::NAME, ash::ext::memory_budget::NAME, ash::ext::device_fault::NAME];
    let has = |name: &CStr| there.iter().any(|e| e.extension_name_as_c_str() == Ok(name));
    wanted.into_iter().filter(|name| has(name)).collect()
}

/// Reads everything that decides about a device.
fn look(instance: &ash::Instance, index: usize, physical: vk::PhysicalDevice) -> Found {
    let extensions = extensions(instance, physical);
    let has_matrix = extensions.contains(&khr::cooperative_matrix::NAME);
    let mut v11 = vk::PhysicalDeviceVulkan11Properties::default();
    let mut v12 = vk::PhysicalDeviceVulkan12Properties::default();
    let mut v13 = vk::PhysicalDeviceVulkan13Properties::default();
    let mut pci = vk::PhysicalDevicePCIBusInfoPropertiesEXT::default();
    let mut properties = vk::PhysicalDeviceProperties2::default()
        .push_next(&mut v11)
        .push_next(&mut v12)
        .push_next(&mut v13)
        .push_next(&mut pci);
    // SAFETY: the handles are live, and the chain holds only structs of Vulkan 1.3 and one that drivers skip.
    unsafe { instance.get_physical_device_properties2(physical, &mut properties) };
    let core = properties.properties;
    let mut f12 = vk::PhysicalDeviceVulkan12Features::default();
    let mut f11 = vk::PhysicalDeviceVulkan11Features::default();
    let mut f13 = vk::PhysicalDeviceVulkan13Features::default();
    let mut fm = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
    let mut features =
        vk::PhysicalDeviceFeatures2::default().push_next(&mut f11).push_next(&mut f12).push_next(&mut f13);
    if has_matrix {
        features = features.push_next(&mut fm);
    }
    // SAFETY: as above.
    unsafe { instance.get_physical_device_features2(physical, &mut features) };
    let base = features.features;
    // SAFETY: the handles are live.
    let memory = unsafe { instance.get_physical_device_memory_properties(physical) };
    let matrix_on = has_matrix && fm.cooperative_matrix == vk::TRUE;
    let shapes = if matrix_on { matrix_shapes(instance, physical) } else { Vec::new() };
    let shape = |a, c| shapes.iter().find(|s| s.0 == a && s.1 == c).map(|s| s.2);
    let software = core.device_type == vk::PhysicalDeviceType::CPU;
    let unified = software || core.device_type == vk::PhysicalDeviceType::INTEGRATED_GPU;
    let text = |name: Result<&CStr, _>| name.map_or(String::new(), |n: &CStr| n.to_string_lossy().into_owned());
    // Wide subgroups only where the device has no others: 32 fits the kernels, 8 is a software device's only size.
    let subgroup = if (v13.min_subgroup_size..=v13.max_subgroup_size).contains(&32) { 32 } else { v11.subgroup_size };
    let features = vec![
        ("packed integer dot product", f13.shader_integer_dot_product == vk::TRUE),
        (
            "packed integer dot product in hardware",
            v13.integer_dot_product4x8_bit_packed_signed_accelerated == vk::TRUE,
        ),
        ("cooperative matrix f16", shape(vk::ComponentTypeKHR::FLOAT16, vk::ComponentTypeKHR::FLOAT32).is_some()),
        ("cooperative matrix int8", shape(vk::ComponentTypeKHR::SINT8, vk::ComponentTypeKHR::SINT32).is_some()),
        ("memory budget", extensions.contains(&ash::ext::memory_budget::NAME)),
    ];
    let caps = Caps {
        name: text(core.device_name_as_c_str()),
        driver: format!("{} {}", text(v12.driver_name_as_c_str()), text(v12.driver_info_as_c_str())).trim().to_owned(),
        software,
        vendor: core.vendor_id,
        pci: (!software && pci.pci_bus + pci.pci_device > 0).then(|| {
            format!("{:04x}:{:02x}:{:02x}.{:x}", pci.pci_domain, pci.pci_bus, pci.pci_device, pci.pci_function)
        }),
        memory: if unified { MemoryKind::Unified } else { MemoryKind::Visible },
        subgroup,
        dot: f13.shader_integer_dot_product == vk::TRUE,
        dot_accelerated: v13.integer_dot_product4x8_bit_packed_signed_accelerated == vk::TRUE,
        matrix_f16: shape(vk::ComponentTypeKHR::FLOAT16, vk::ComponentTypeKHR::FLOAT32),
        matrix_bf16: None,
        matrix_i8: shape(vk::ComponentTypeKHR::SINT8, vk::ComponentTypeKHR::SINT32),
        shared: core.limits.max_compute_shared_memory_size,
        invocations: core.limits.max_compute_work_group_invocations,
        max_allocation: v11.max_memory_allocation_size,
        timestamp_ns: core.limits.timestamp_period,
    };
    let missing: Vec<&str> = [
        ("bufferDeviceAddress", f12.buffer_device_address),
        ("scalarBlockLayout", f12.scalar_block_layout),
        ("shaderFloat16", f12.shader_float16),
        ("shaderInt8", f12.shader_int8),
        ("storageBuffer8BitAccess", f12.storage_buffer8_bit_access),
        ("storageBuffer16BitAccess", f11.storage_buffer16_bit_access),
        ("shaderInt16", base.shader_int16),
        ("shaderInt64", base.shader_int64),
        ("vulkanMemoryModel", f12.vulkan_memory_model),
        ("subgroupSizeControl", f13.subgroup_size_control),
        ("computeFullSubgroups", f13.compute_full_subgroups),
        ("synchronization2", f13.synchronization2),
    ]
    .into_iter()
    .filter(|(_, there)| *there != vk::TRUE)
    .map(|(name, _)| name)
    .collect();
    let heaps: Vec<_> = memory
        .memory_heaps_as_slice()
        .iter()
        .map(|h| (h.size, h.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL)))
        .collect();
    let unusable = if core.api_version < vk::API_VERSION_1_3 {
        Some(format!(
            "Vulkan {}.{}; 1.3 is needed",
            vk::api_version_major(core.api_version),
            vk::api_version_minor(core.api_version)
        ))
    } else if !missing.is_empty() {
        Some(format!("without {}", missing.join(", ")))
    } else if !unified {
        addressable(&memory)
    } else {
        None
    };
    Found { index, caps, unusable, heaps, features }
}

/// Why a device with its own memory cannot be used: the CPU must be able to address all of it.
fn addressable(memory: &vk::PhysicalDeviceMemoryProperties) -> Option<String> {
    let local = |h: &vk::MemoryHeap| h.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL);
    let largest = memory.memory_heaps_as_slice().iter().filter(|h| local(h)).map(|h| h.size).max().unwrap_or(0);
    let flags = vk::MemoryPropertyFlags::DEVICE_LOCAL | vk::MemoryPropertyFlags::HOST_VISIBLE;
    let visible = |t: &&vk::MemoryType| t.property_flags.contains(flags);
    let types = memory.memory_types_as_slice().iter().filter(visible);
    let seen = types.map(|t| memory.memory_heaps[t.heap_index as usize].size).max().unwrap_or(0);
    (seen < largest).then(|| {
        format!(
            "the CPU can address {} of its {} MiB; switch on resizable BAR in the firmware setup",
            seen >> 20,
            largest >> 20
        )
    })
}

type MatrixKind = (vk::ComponentTypeKHR, vk::ComponentTypeKHR, MatrixShape);

/// Subgroup-scope shapes: (type of A and B, type of C and result, shape); 16 x 16 first.
fn matrix_shapes(instance: &ash::Instance, physical: vk::PhysicalDevice) -> Vec<MatrixKind> {
    // SAFETY: the entry is only used to look up the instance's own functions.
    let Ok(entry) = (unsafe { ash::Entry::load() }) else { return Vec::new() };
    let functions = khr::cooperative_matrix::Instance::new(&entry, instance);
    // SAFETY: the device offers the extension.
    let all = unsafe { functions.get_physical_device_cooperative_matrix_properties(physical) }.unwrap_or_default();
    let mut shapes: Vec<_> = all
        .iter()
        .filter(|p| p.scope == vk::ScopeKHR::SUBGROUP && p.saturating_accumulation == vk::FALSE)
        .filter(|p| p.a_type == p.b_type && p.c_type == p.result_type)
        .map(|p| (p.a_type, p.c_type, MatrixShape { m: p.m_size, n: p.n_size, k: p.k_size }))
        .collect();
    shapes.sort_by_key(|s| (s.2.m != 16, s.2.n != 16, s.2.k));
    shapes
}
