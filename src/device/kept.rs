//! The inputs of a graph that its results lie over, kept so that the graph can be computed a second time.

use crate::engine::vulkan::Gpu;
use crate::engine::vulkan::caps::MemoryKind;
use crate::graph::Graph;
use crate::graph::kept::overwritten_inputs;

/// Ranges of tensor memory with their bytes.
#[derive(Default)]
pub struct Kept {
    ranges: Vec<(u64, Vec<u8>)>,
}

impl Kept {
    /// What must be kept for a graph: nothing where the memory dies with the device.
    pub fn of(graph: &Graph, gpu: &Gpu) -> Kept {
        if gpu.device.caps.memory != MemoryKind::Unified {
            return Kept::default();
        }
        let ranges = overwritten_inputs(graph).into_iter();
        Kept { ranges: ranges.map(|(start, len)| (start, vec![0; len as usize])).collect() }
    }

    /// Copies the ranges as they are now.
    pub fn save(&mut self, gpu: &Gpu) {
        for (start, bytes) in &mut self.ranges {
            if let Err(error) = gpu.read(*start, bytes) {
                log::error!("TRI0: an input of the graph cannot be kept: {error}");
            }
        }
    }

    /// Puts them back.
    pub fn restore(&self, gpu: &Gpu) {
        for (start, bytes) in &self.ranges {
            if let Err(error) = gpu.write(*start, bytes) {
                log::error!("TRI0: an input of the graph cannot be put back: {error}");
            }
        }
    }
}
