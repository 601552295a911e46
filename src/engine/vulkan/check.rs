//! The checking build (`TRI_SHADER_CHECK=1` when compiling): every address that a shader touches must lie in memory that it
//! was given. `shaders/lib/memory.glsl` has the other half.

use super::device::Device;
use super::memory::{Memory, MemoryError, Role};
use std::sync::Arc;

/// The most ranges that the table holds.
const RANGES: usize = 4096;
/// Bytes before the ranges: number of wrong addresses, number of ranges, one wrong address, and a spare word that wrong
/// accesses are sent to, which is the first range.
const HEAD: usize = 16;

/// The table of allowed ranges in memory of the GPU.
pub struct Check {
    table: Memory,
    spare: Memory,
}

impl Check {
    /// Makes the table.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(device: &Arc<Device>) -> Result<Check, MemoryError> {
        let table = Memory::new(device, Role::Tensors, (HEAD + 16 * RANGES) as u64)?;
        let spare = Memory::new(device, Role::Tensors, 256)?;
        Ok(Check { table, spare })
    }

    /// GPU address of the table.
    pub fn address(&self) -> u64 {
        self.table.gpu
    }

    /// Allows these (address, bytes) and no others.
    pub fn allow(&self, ranges: &[(u64, u64)]) {
        assert!(ranges.len() < RANGES, "{} ranges; the table holds {RANGES}", ranges.len());
        let mut bytes = Vec::with_capacity(HEAD + 16 * (ranges.len() + 1));
        bytes.extend_from_slice(&0_u32.to_le_bytes());
        bytes.extend_from_slice(&(ranges.len() as u32 + 1).to_le_bytes());
        bytes.extend_from_slice(&0_u64.to_le_bytes());
        for (start, len) in [(self.spare.gpu, self.spare.size)].iter().chain(ranges) {
            bytes.extend_from_slice(&start.to_le_bytes());
            bytes.extend_from_slice(&(start + len).to_le_bytes());
        }
        self.table.write(0, &bytes);
    }

    /// How many addresses were wrong, and one of them.
    pub fn wrong(&self) -> Option<(u32, u64)> {
        let mut head = [0; HEAD];
        self.table.read(0, &mut head);
        let count = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let address = head[8..].iter().rev().fold(0, |a, b| a << 8 | u64::from(*b));
        (count > 0).then_some((count, address))
    }
}
