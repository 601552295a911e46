//! For tests of shaders: nodes over data on a real device, software or not.

use super::memory::Memory;
use super::survey::{choose, survey};
use super::{Gpu, ops};
use crate::config::Gpu as Wish;
use crate::graph::{Node, Tensor, Type};
use std::sync::{Arc, OnceLock};

/// The device for tests: hardware if there is any, else a software device. `None`, said and counted, without either.
/// `hardware`: take the paths of hardware on a software device too.
fn gpu(hardware: bool) -> Option<&'static Gpu> {
    static GPUS: [OnceLock<Result<Gpu, String>>; 2] = [const { OnceLock::new() }; 2];
    let gpu = GPUS[usize::from(hardware)].get_or_init(|| {
        let found = survey()?;
        let mut found = choose(&found, Wish::Auto).or_else(|_| choose(&found, Wish::Lavapipe))?.clone();
        found.caps.software &= !hardware;
        Gpu::open(&found, None, super::Wish::default())
    });
    match gpu {
        Ok(gpu) => Some(gpu),
        Err(reason) => {
            crate::config::testing::skipped(&format!("tests of shaders: {reason}"));
            None
        }
    }
}

/// Tensors in memory of the device.
pub struct Room {
    gpu: &'static Gpu,
    held: Vec<Arc<Memory>>,
}

impl Room {
    /// An empty room; `None` without a device.
    pub fn new() -> Option<Room> {
        gpu(false).map(|gpu| Room { gpu, held: Vec::new() })
    }

    /// Both ways, if the device is a software device.
    pub fn both() -> impl Iterator<Item = Room> {
        let software = Room::new().filter(|room| room.caps().software);
        [software, Room::as_hardware()].into_iter().flatten()
    }

    /// One in which a software device does as hardware would, so that its shaders are tested without any.
    pub fn as_hardware() -> Option<Room> {
        gpu(true).map(|gpu| Room { gpu, held: Vec::new() })
    }

    /// The device.
    pub fn gpu(&self) -> &'static Gpu {
        self.gpu
    }

    /// What the device can do.
    pub fn caps(&self) -> &super::caps::Caps {
        &self.gpu.device.caps
    }

    /// Gives a tensor memory, with these bytes at its start and 0xff (no number) elsewhere.
    pub fn place(&mut self, mut tensor: Tensor, bytes: &[u8]) -> Tensor {
        let memory = self.gpu.allocate(tensor.span().max(bytes.len() as u64).max(16)).unwrap();
        memory.write(0, &vec![0xff; memory.size as usize]);
        memory.write(0, bytes);
        tensor.data = memory.host() as u64;
        tensor.id = tensor.data;
        tensor.root = tensor.data;
        self.held.push(memory);
        tensor
    }

    /// A contiguous f32 tensor.
    pub fn f32(&mut self, ne: [i64; 4], values: &[f32]) -> Tensor {
        assert_eq!(values.len() as i64, ne.iter().product::<i64>());
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.place(Tensor::new(Type::F32, ne), &bytes)
    }

    /// A contiguous i32 tensor.
    pub fn i32(&mut self, ne: [i64; 4], values: &[i32]) -> Tensor {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.place(Tensor::new(Type::I32, ne), &bytes)
    }

    /// A contiguous tensor for a result.
    pub fn empty(&mut self, ty: Type, ne: [i64; 4]) -> Tensor {
        self.place(Tensor::new(ty, ne), &[])
    }

    /// Computes the nodes in order.
    pub fn run(&self, nodes: &[Node]) {
        for node in nodes {
            ops::supports(node, self.caps()).unwrap();
        }
        self.gpu.run(&self.gpu.record(nodes).unwrap()).unwrap();
    }

    /// The bytes of a tensor, holes included.
    pub fn bytes(&self, t: &Tensor) -> Vec<u8> {
        let mut bytes = vec![0; t.span() as usize];
        self.gpu.read(t.data, &mut bytes).unwrap();
        bytes
    }

    /// The values of a contiguous f32 tensor.
    pub fn values(&self, t: &Tensor) -> Vec<f32> {
        assert!(t.contiguous() && t.ty == Type::F32);
        self.bytes(t).chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        for memory in &self.held {
            self.gpu.free(memory);
        }
    }
}

/// Repeatable numbers in -1 .. 1, none of them special.
pub fn noise(seed: u64, n: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// The normalised mean square error of `got` against `want`, as llama.cpp's tests use it.
pub fn nmse(want: &[f32], got: &[f32]) -> f64 {
    assert_eq!(want.len(), got.len());
    let square = |x: f64| x * x;
    let error: f64 = want.iter().zip(got).map(|(w, g)| square(f64::from(*w) - f64::from(*g))).sum();
    let size: f64 = want.iter().map(|w| square(f64::from(*w))).sum();
    if error == 0.0 { 0.0 } else { error / size.max(f64::MIN_POSITIVE) }
}
