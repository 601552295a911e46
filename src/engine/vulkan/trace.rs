//! How long the GPU takes for what (`TRI_TRACE=gpu`): time stamps between the levels of a recording, summed by shader.

use super::GpuError;
use super::device::Device;
use ash::vk;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The time stamps of one recording.
pub struct Stamps {
    device: Arc<Device>,
    /// The queries.
    pub pool: vk::QueryPool,
    /// What runs between one stamp and the next.
    pub levels: Vec<String>,
}

impl Stamps {
    /// Room for `levels` levels.
    ///
    /// # Errors
    /// The driver has no memory.
    pub fn new(device: &Arc<Device>, levels: usize) -> Result<Stamps, GpuError> {
        let info =
            vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(levels as u32 + 1);
        // SAFETY: the device is live.
        let pool = unsafe { device.raw.create_query_pool(&info, None) }?;
        Ok(Stamps { device: device.clone(), pool, levels: Vec::new() })
    }

    /// Microseconds of each level in the last run.
    fn times(&self) -> Result<Vec<f64>, GpuError> {
        let mut ticks = vec![0_u64; self.levels.len() + 1];
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
        // SAFETY: the run is over, so the stamps are written.
        unsafe { self.device.raw.get_query_pool_results(self.pool, 0, &mut ticks, flags) }?;
        let each = f64::from(self.device.caps.timestamp_ns) / 1000.0;
        Ok(ticks.windows(2).map(|t| t[1].wrapping_sub(t[0]) as f64 * each).collect())
    }
}

impl Drop for Stamps {
    fn drop(&mut self) {
        // SAFETY: every run is waited for, and the handle is not used again.
        unsafe { self.device.raw.destroy_query_pool(self.pool, None) };
    }
}

/// (runs, microseconds) by shader.
#[derive(Default)]
pub struct Sums(Mutex<BTreeMap<String, (u64, f64)>>);

impl Sums {
    /// Adds the last run of a recording.
    ///
    /// # Errors
    /// The device is lost.
    pub fn add(&self, stamps: &Stamps) -> Result<(), GpuError> {
        let times = stamps.times()?;
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (level, time) in stamps.levels.iter().zip(times) {
            let sum = sums.entry(level.clone()).or_default();
            *sum = (sum.0 + 1, sum.1 + time);
        }
        Ok(())
    }

    /// One line for each, the longest first; begins anew.
    pub fn take(&self) -> Vec<String> {
        let sums = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut rows: Vec<_> = sums.into_iter().collect();
        rows.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
        let line = |(level, (runs, us)): (String, (u64, f64))| {
            format!("{:10.1} us {runs:6} x {:8.2} us  {level}", us, us / runs as f64)
        };
        rows.into_iter().map(line).collect()
    }
}
