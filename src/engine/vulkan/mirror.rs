//! Results that the host will read, copied with their graph to memory that the CPU reads at full speed.

use super::GpuError;
use super::device::Device;
use super::memory::{Buffers, Memory, Role};
use super::recording::Copy;
use crate::graph::Node;
use std::sync::{Arc, Mutex, PoisonError};

/// The copies of one recording.
pub struct Outputs {
    /// What is copied.
    pub copies: Vec<Copy>,
    /// Where to.
    pub memory: Arc<Memory>,
    /// (host address, bytes, offset in `memory`) of each.
    ranges: Vec<(u64, u64, u64)>,
}

/// The largest result that is copied without being asked for, in bytes: the logits of 64 tokens of a large vocabulary.
const LARGEST: u64 = 64 << 20;

impl Outputs {
    /// The outputs among the nodes that the CPU cannot read at full speed; `None` when there are none.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn of(nodes: &[Node], buffers: &Buffers, device: &Arc<Device>) -> Result<Option<Outputs>, GpuError> {
        let (mut copies, mut ranges, mut used) = (Vec::new(), Vec::new(), 0);
        for t in nodes.iter().filter(|n| n.output && n.compute).map(|n| n.dst) {
            let size = t.span();
            let Some((memory, offset)) = buffers.find(t.data).filter(|(m, _)| !m.cached) else { continue };
            if size == 0 || size > LARGEST || offset % 4 != 0 {
                continue;
            }
            copies.push(Copy { from: memory.buffer, from_offset: offset, to_offset: used, size });
            ranges.push((t.data, size, used));
            used += size.next_multiple_of(64);
        }
        if copies.is_empty() {
            return Ok(None);
        }
        let memory = Arc::new(Memory::new(device, Role::Readback, used)?);
        Ok(Some(Outputs { copies, memory, ranges }))
    }
}

#[derive(Default)]
struct Valid {
    memory: Option<Arc<Memory>>,
    ranges: Vec<(u64, u64, u64)>,
}

/// What of the last graph can be read from its copy.
#[derive(Default)]
pub struct Mirror(Mutex<Valid>);

impl Mirror {
    fn lock(&self) -> std::sync::MutexGuard<'_, Valid> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is valid any more.
    pub fn clear(&self) {
        *self.lock() = Valid::default();
    }

    /// The copies of a recording that has just run are valid.
    pub fn set(&self, outputs: Option<&Outputs>) {
        if let Some(o) = outputs {
            *self.lock() = Valid { memory: Some(o.memory.clone()), ranges: o.ranges.clone() };
        }
    }

    /// Bytes at a host address were overwritten.
    pub fn forget(&self, host: u64, size: u64) {
        self.lock().ranges.retain(|(start, len, _)| *start >= host + size || host >= start + len);
    }

    /// Reads from the copy; false when it does not hold these bytes.
    pub fn read(&self, host: u64, to: &mut [u8]) -> bool {
        let valid = self.lock();
        let end = host + to.len() as u64;
        let range = valid.ranges.iter().find(|(start, len, _)| *start <= host && end <= start + len);
        let (Some(memory), Some((start, _, offset))) = (&valid.memory, range) else { return false };
        memory.read(offset + (host - start), to);
        true
    }
}
