//! Command buffers: recorded once from dispatches, submitted again and again.

use super::GpuError;
use super::device::Device;
use super::memory::Memory;
use super::ops::dispatch::{Dispatch, Span};
use super::pipelines::Pipelines;
use super::trace::Stamps;
use ash::vk;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// What was read and written since the last barrier.
#[derive(Default)]
struct Hazards {
    reads: Vec<Span>,
    writes: Vec<Span>,
}

impl Hazards {
    /// Whether `next` must wait for what is under way; if so, forgets it.
    fn barrier_before(&mut self, next: &Dispatch) -> bool {
        let hit = |a: &[Span], b: &[Span]| a.iter().any(|x| b.iter().any(|y| x.overlaps(y)));
        let wait = hit(&next.reads, &self.writes) || hit(&next.writes, &self.writes) || hit(&next.writes, &self.reads);
        if wait {
            self.reads.clear();
            self.writes.clear();
        }
        self.reads.extend_from_slice(&next.reads);
        self.writes.extend_from_slice(&next.writes);
        wait
    }
}

/// Where the dispatches are cut into submissions: after as many as do `limit` operations together.
fn cuts(dispatches: &[Dispatch], limit: f64) -> Vec<std::ops::Range<usize>> {
    let (mut parts, mut begin, mut sum) = (Vec::new(), 0, 0.0);
    for (i, d) in dispatches.iter().enumerate() {
        if i > begin && sum + d.work > limit {
            parts.push(begin..i);
            (begin, sum) = (i, 0.0);
        }
        sum += d.work;
    }
    parts.push(begin..dispatches.len());
    parts
}

/// A copy from a result to the memory that the CPU reads at full speed.
#[derive(Debug, Clone, Copy)]
pub struct Copy {
    /// Where it lies.
    pub from: vk::Buffer,
    /// Offset there.
    pub from_offset: u64,
    /// Offset in the readback memory.
    pub to_offset: u64,
    /// Bytes.
    pub size: u64,
}

/// A recorded run of dispatches, with the memory that only it uses.
pub struct Recording {
    device: Arc<Device>,
    pool: vk::CommandPool,
    buffers: Vec<vk::CommandBuffer>,
    fence: vk::Fence,
    /// Results that are copied to the CPU at the end.
    pub outputs: Option<super::mirror::Outputs>,
    /// Time stamps, where they are wanted.
    pub stamps: Option<Stamps>,
    /// Parameters and scratch, kept alive for the GPU.
    memory: Vec<Memory>,
    /// Shaders of the level that is being recorded, for the time stamps.
    level: Vec<&'static str>,
    /// Barriers recorded; the number of dependent steps.
    pub barriers: usize,
    /// Dispatches recorded.
    pub dispatches: usize,
}

// SAFETY: the pool is used only through the recording that owns it, by one thread at a time.
unsafe impl Send for Recording {}

impl Recording {
    /// Records the dispatches, cut into submissions of at most `limit` operations, and then the copies.
    ///
    /// # Errors
    /// The driver refuses a shader, or has no memory.
    pub fn new(
        device: &Arc<Device>,
        pipelines: &Pipelines,
        dispatches: &[Dispatch],
        copies: Option<(&[Copy], vk::Buffer)>,
        memory: Vec<Memory>,
        limit: f64,
    ) -> Result<Recording, GpuError> {
        let parts = cuts(dispatches, limit);
        let raw = &device.raw;
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(device.family);
        // SAFETY: the device is live; the recording owns the pool from here on and destroys it.
        let pool = unsafe { raw.create_command_pool(&info, None) }?;
        let mut recording = Recording {
            device: device.clone(),
            pool,
            buffers: Vec::new(),
            fence: vk::Fence::null(),
            outputs: None,
            stamps: None,
            memory,
            level: Vec::new(),
            barriers: 0,
            dispatches: dispatches.len(),
        };
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(parts.len() as u32);
        // SAFETY: the device and the pool are live.
        unsafe {
            recording.buffers = raw.allocate_command_buffers(&info)?;
            recording.fence = raw.create_fence(&vk::FenceCreateInfo::default(), None)?;
        }
        if device.trace {
            recording.stamps = Some(Stamps::new(device, dispatches.len())?);
        }
        let last = parts.len() - 1;
        for (i, part) in parts.into_iter().enumerate() {
            let end = if i == last { copies } else { None };
            recording.record(i, pipelines, &dispatches[part], end, i > 0)?;
        }
        Ok(recording)
    }

    fn record(
        &mut self,
        index: usize,
        pipelines: &Pipelines,
        dispatches: &[Dispatch],
        copies: Option<(&[Copy], vk::Buffer)>,
        follows: bool,
    ) -> Result<(), GpuError> {
        let (device, buffer) = (self.device.clone(), self.buffers[index]);
        let raw = &device.raw;
        let between = [vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::SHADER_WRITE)
            .dst_access_mask(vk::AccessFlags::SHADER_READ | vk::AccessFlags::SHADER_WRITE)];
        let to_copy = [vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::SHADER_WRITE)
            .dst_access_mask(vk::AccessFlags::TRANSFER_READ)];
        let to_host = [vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::SHADER_WRITE | vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(vk::AccessFlags::HOST_READ)];
        let (compute, transfer, host) =
            (vk::PipelineStageFlags::COMPUTE_SHADER, vk::PipelineStageFlags::TRANSFER, vk::PipelineStageFlags::HOST);
        let none = vk::DependencyFlags::empty();
        let mut hazards = Hazards::default();
        let mut bound = vk::Pipeline::null();
        // SAFETY: the command buffer is this recording's own and not in use; every handle is live, and lowering keeps
        // push constants and group counts inside the limits that every device has.
        unsafe {
            raw.begin_command_buffer(buffer, &vk::CommandBufferBeginInfo::default())?;
            if follows {
                raw.cmd_pipeline_barrier(buffer, compute, compute, none, &between, &[], &[]);
            }
            if let Some(stamps) = self.stamps.as_ref().filter(|_| index == 0) {
                raw.cmd_reset_query_pool(buffer, stamps.pool, 0, self.dispatches as u32 + 1);
                raw.cmd_write_timestamp(buffer, compute, stamps.pool, 0);
            }
            for d in dispatches {
                if hazards.barrier_before(d) {
                    self.stamp(buffer);
                    raw.cmd_pipeline_barrier(buffer, compute, compute, none, &between, &[], &[]);
                    self.barriers += 1;
                }
                if self.stamps.is_some() {
                    self.level.push(d.shader);
                }
                let pipeline = pipelines.get(d.shader, &d.spec)?;
                if pipeline != bound {
                    raw.cmd_bind_pipeline(buffer, vk::PipelineBindPoint::COMPUTE, pipeline);
                    bound = pipeline;
                }
                let stage = vk::ShaderStageFlags::COMPUTE;
                raw.cmd_push_constants(buffer, pipelines.layout, stage, 0, d.push.bytes());
                raw.cmd_dispatch(buffer, d.groups[0], d.groups[1], d.groups[2]);
            }
            self.stamp(buffer);
            if let Some((copies, to)) = copies {
                raw.cmd_pipeline_barrier(buffer, compute, transfer, none, &to_copy, &[], &[]);
                for c in copies {
                    let region = [vk::BufferCopy { src_offset: c.from_offset, dst_offset: c.to_offset, size: c.size }];
                    raw.cmd_copy_buffer(buffer, c.from, to, &region);
                }
            }
            raw.cmd_pipeline_barrier(buffer, compute | transfer, host, none, &to_host, &[], &[]);
            raw.end_command_buffer(buffer)?;
        }
        Ok(())
    }

    /// Ends the level of dispatches since the last stamp.
    fn stamp(&mut self, buffer: vk::CommandBuffer) {
        let Some(stamps) = &mut self.stamps else { return };
        let mut shaders: Vec<_> = std::mem::take(&mut self.level);
        shaders.dedup();
        stamps.levels.push(shaders.join(" + "));
        let (compute, at) = (vk::PipelineStageFlags::COMPUTE_SHADER, stamps.levels.len() as u32);
        // SAFETY: the command buffer is being recorded, and the pool has a query for each dispatch and one more.
        unsafe { self.device.raw.cmd_write_timestamp(buffer, compute, stamps.pool, at) };
    }

    /// Bytes of the memory that only this recording uses.
    pub fn bytes(&self) -> u64 {
        self.memory.iter().map(|m| m.size).sum()
    }

    /// (GPU address, bytes) of the memory that only this recording uses.
    pub fn memory(&self) -> Vec<(u64, u64)> {
        self.memory.iter().map(|m| (m.gpu, m.size)).collect()
    }

    /// Submits it and waits until it is done.
    ///
    /// # Errors
    /// The device is lost, or the driver has no memory.
    pub fn run(&self) -> Result<Duration, GpuError> {
        let begin = Instant::now();
        self.submit()?;
        self.wait()?;
        Ok(begin.elapsed())
    }

    /// Submits it. Whoever does must wait for its end before anything else is done with it.
    ///
    /// # Errors
    /// The device is lost, or the driver has no memory.
    pub fn submit(&self) -> Result<(), GpuError> {
        if self.device.faults.run() {
            return Err(GpuError::Lost);
        }
        let raw = &self.device.raw;
        let each: Vec<_> = self.buffers.iter().map(std::slice::from_ref).collect();
        // One submission per command buffer: the driver's time limit is for one submission.
        let infos: Vec<_> = each.iter().map(|b| vk::SubmitInfo::default().command_buffers(b)).collect();
        let queue = self.device.queue.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the command buffers are recorded and not under way, the fence is unsignalled, and the queue is locked.
        unsafe { raw.queue_submit(*queue, &infos, self.fence)? };
        Ok(())
    }

    /// Waits until what was submitted is done.
    ///
    /// # Errors
    /// The device is lost, or the driver has no memory.
    pub fn wait(&self) -> Result<(), GpuError> {
        let (begin, raw) = (Instant::now(), &self.device.raw);
        // SAFETY: the fence is live and was submitted.
        unsafe {
            // Waking from a blocking wait takes tens of microseconds, so the first moments are spent asking; but not where
            // that takes a core from the device.
            while !self.device.caps.software && begin.elapsed() < SPIN {
                if raw.get_fence_status(self.fence)? {
                    break;
                }
                std::hint::spin_loop();
            }
            raw.wait_for_fences(&[self.fence], true, u64::MAX)?;
            raw.reset_fences(&[self.fence])?;
        }
        Ok(())
    }
}

/// How long a wait asks before it blocks.
const SPIN: Duration = Duration::from_millis(3);

impl Drop for Recording {
    fn drop(&mut self) {
        // SAFETY: whoever submits it waits for its end, so nothing of this is in use; the pool frees its buffers.
        unsafe {
            self.device.raw.destroy_fence(self.fence, None);
            self.device.raw.destroy_command_pool(self.pool, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ops::Push;
    use super::*;

    fn dispatch(reads: &[(u64, u64)], writes: &[(u64, u64)], work: f64) -> Dispatch {
        let spans = |list: &[(u64, u64)]| list.iter().map(|&(start, len)| Span { start, len }).collect();
        let (reads, writes) = (spans(reads), spans(writes));
        Dispatch { shader: "x", spec: vec![], push: Push::new(), groups: [1; 3], reads, writes, work }
    }

    #[test]
    fn a_barrier_comes_where_memory_is_shared_and_nowhere_else() {
        let mut h = Hazards::default();
        assert!(!h.barrier_before(&dispatch(&[(0, 8)], &[(8, 8)], 0.0)));
        assert!(!h.barrier_before(&dispatch(&[(0, 8)], &[(16, 8)], 0.0)), "two readers of one range");
        assert!(h.barrier_before(&dispatch(&[(15, 1)], &[(24, 8)], 0.0)), "reads what was written");
        assert!(!h.barrier_before(&dispatch(&[(16, 8)], &[(32, 8)], 0.0)), "what the barrier finished is over");
        assert!(h.barrier_before(&dispatch(&[], &[(39, 2)], 0.0)), "writes where it was written");
        assert!(!h.barrier_before(&dispatch(&[(0, 8)], &[], 0.0)));
        assert!(h.barrier_before(&dispatch(&[], &[(0, 1)], 0.0)), "writes where it is read");
    }

    #[test]
    fn submissions_are_cut_by_work_and_lose_nothing() {
        let list: Vec<_> = [1.0, 5.0, 2.0, 2.0, 9.0, 1.0].iter().map(|w| dispatch(&[], &[], *w)).collect();
        assert_eq!(cuts(&list, 6.0), [0..2, 2..4, 4..5, 5..6]);
        assert_eq!(cuts(&list, f64::INFINITY).len(), 1);
        assert_eq!(cuts(&[], 6.0).len(), 1);
    }
}
