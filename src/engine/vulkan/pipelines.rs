//! Pipelines, made when first needed; what the driver compiled is kept on disk.

use super::GpuError;
use super::device::Device;
use super::ops::dispatch::MAX_PUSH;
use ash::vk;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

include!(concat!(env!("OUT_DIR"), "/shaders.rs"));

/// The words of a shader variant.
fn words(name: &str) -> Option<Vec<u32>> {
    let at = MODULES.binary_search_by(|(n, _)| (*n).cmp(name)).ok()?;
    Some(MODULES[at].1.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect())
}

type Key = (&'static str, Vec<u32>);

/// All pipelines of a device.
pub struct Pipelines {
    device: Arc<Device>,
    /// The layout that all of them share: push constants only.
    pub layout: vk::PipelineLayout,
    cache: vk::PipelineCache,
    made: Mutex<HashMap<Key, vk::Pipeline>>,
    /// Where the driver's cache is kept, and how many pipelines it lacked.
    file: Option<PathBuf>,
    new: Mutex<usize>,
    /// GPU address of the table of allowed ranges, in a checking build.
    check_table: u64,
}

impl Pipelines {
    /// Makes none yet. `folder`: where the driver's cache is kept.
    ///
    /// # Errors
    /// The driver has no memory.
    pub fn new(device: &Arc<Device>, folder: Option<&Path>, check_table: u64) -> Result<Pipelines, GpuError> {
        let range = [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(MAX_PUSH as u32)];
        let info = vk::PipelineLayoutCreateInfo::default().push_constant_ranges(&range);
        // SAFETY: the device is live, and `info` lives during the call.
        let layout = unsafe { device.raw.create_pipeline_layout(&info, None) }?;
        let identity = device.cache_identity();
        let file = folder.map(|f| f.join(format!("vulkan-{:016x}.cache", fnv(&identity))));
        let data = file.as_deref().and_then(|f| read_cache(f, &identity)).unwrap_or_default();
        let info = vk::PipelineCacheCreateInfo::default().initial_data(&data);
        // SAFETY: as above; the data carries our checksum, so it is what this driver wrote.
        let cache = unsafe { device.raw.create_pipeline_cache(&info, None) }?;
        let (made, new) = (Mutex::default(), Mutex::new(0));
        Ok(Pipelines { device: device.clone(), layout, cache, made, file, new, check_table })
    }

    /// The pipeline of a shader variant with these specialisation constants.
    ///
    /// # Errors
    /// The driver refuses it.
    pub fn get(&self, shader: &'static str, spec: &[u32]) -> Result<vk::Pipeline, GpuError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipeline) = made.get(&(shader, spec.to_vec())) {
            return Ok(*pipeline);
        }
        let pipeline = self.make(shader, spec)?;
        made.insert((shader, spec.to_vec()), pipeline);
        *self.new.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Ok(pipeline)
    }

    fn make(&self, shader: &str, spec: &[u32]) -> Result<vk::Pipeline, GpuError> {
        let words = words(shader).ok_or_else(|| GpuError::Driver(format!("there is no shader {shader}")))?;
        let mut constants = spec.to_vec();
        let mut ids: Vec<u32> = (0..spec.len() as u32).collect();
        // `SOFTWARE` of `lib/memory.glsl`.
        constants.push(u32::from(self.device.caps.software));
        ids.push(102);
        if CHECKED {
            constants.extend([self.check_table as u32, (self.check_table >> 32) as u32]);
            ids.extend([100, 101]);
        }
        let entries: Vec<_> = ids
            .iter()
            .enumerate()
            .map(|(i, id)| vk::SpecializationMapEntry::default().constant_id(*id).offset(4 * i as u32).size(4))
            .collect();
        let bytes: Vec<u8> = constants.iter().flat_map(|c| c.to_le_bytes()).collect();
        let special = vk::SpecializationInfo::default().map_entries(&entries).data(&bytes);
        let module = vk::ShaderModuleCreateInfo::default().code(&words);
        let mut subgroup = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default()
            .required_subgroup_size(self.device.caps.subgroup);
        // SAFETY: the device is live, everything pointed to lives during the calls, and the module is destroyed once.
        unsafe {
            let module = self.device.raw.create_shader_module(&module, None)?;
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(c"main")
                .specialization_info(&special)
                .push_next(&mut subgroup);
            let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(self.layout)];
            let made = self.device.raw.create_compute_pipelines(self.cache, &info, None);
            self.device.raw.destroy_shader_module(module, None);
            made.map(|p| p[0])
                .map_err(|(_, e)| GpuError::Driver(format!("the shader {shader} {spec:?} cannot be used: {e}")))
        }
    }

    /// Writes what the driver compiled to disk, if there is anything new. A failure costs only the next start some time.
    pub fn save(&self) {
        let Some(file) = &self.file else { return };
        let mut new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        if *new == 0 {
            return;
        }
        // SAFETY: device and cache are live.
        let Ok(data) = (unsafe { self.device.raw.get_pipeline_cache_data(self.cache) }) else { return };
        if let Err(e) = write_cache(file, &self.device.cache_identity(), &data) {
            log::debug!("TRI0: the compiled shaders are not kept: {}: {e}", file.display());
        }
        *new = 0;
    }
}

impl Drop for Pipelines {
    fn drop(&mut self) {
        self.save();
        // SAFETY: nothing runs on the device any more, and the handles are not used again.
        unsafe {
            for pipeline in self.made.lock().unwrap_or_else(PoisonError::into_inner).values() {
                self.device.raw.destroy_pipeline(*pipeline, None);
            }
            self.device.raw.destroy_pipeline_cache(self.cache, None);
            self.device.raw.destroy_pipeline_layout(self.layout, None);
        }
    }
}

/// FNV-1a, 64 bits: tells a damaged file from a whole one; it guards against accidents, not against an attacker.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// File layout: identity of device and driver, checksum of the data, the data.
fn read_cache(file: &Path, identity: &[u8]) -> Option<Vec<u8>> {
    let bytes = std::fs::read(file).ok()?;
    let whole = bytes.strip_prefix(identity).and_then(|rest| rest.split_first_chunk::<8>());
    match whole {
        Some((sum, data)) if u64::from_le_bytes(*sum) == fnv(data) => Some(data.to_vec()),
        _ => {
            log::warn!("TRI0: {} is damaged or from another driver; shaders are compiled anew", file.display());
            None
        }
    }
}

/// Replaces the file in one step, so that a reader sees the old or the new one.
fn write_cache(file: &Path, identity: &[u8], data: &[u8]) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let part = file.with_extension(format!("part-{}", std::process::id()));
    let bytes = [identity, &fnv(data).to_le_bytes(), data].concat();
    std::fs::write(&part, bytes)?;
    std::fs::rename(&part, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_sorted_and_look_like_spir_v() {
        assert!(MODULES.windows(2).all(|w| w[0].0 < w[1].0));
        for (name, _) in MODULES {
            assert_eq!(words(name).unwrap()[0], 0x0723_0203, "{name}");
        }
        assert!(words("no such shader").is_none());
    }

    #[test]
    fn a_damaged_cache_file_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a/vulkan.cache");
        assert_eq!(read_cache(&file, b"gpu"), None);
        write_cache(&file, b"gpu", b"compiled").unwrap();
        assert_eq!(read_cache(&file, b"gpu").as_deref(), Some(&b"compiled"[..]));
        assert_eq!(read_cache(&file, b"cpu"), None);
        let mut bytes = std::fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        assert_eq!(read_cache(&file, b"gpu"), None);
        std::fs::write(&file, b"gp").unwrap();
        assert_eq!(read_cache(&file, b"gpu"), None);
    }
}
