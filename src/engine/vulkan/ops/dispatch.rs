//! One dispatch as plain data, and the bytes that shaders read.

use super::TensorParams;

/// A range of GPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// Address of the first byte.
    pub start: u64,
    /// Bytes.
    pub len: u64,
}

impl Span {
    /// Whether both have a byte in common.
    pub fn overlaps(&self, other: &Span) -> bool {
        self.start < other.start + other.len && other.start < self.start + self.len
    }
}

/// The most bytes of push constants: what every Vulkan device has.
pub const MAX_PUSH: usize = 128;

/// The most workgroups in one dimension: what every Vulkan device has.
pub const MAX_GROUPS: u32 = 65535;

/// One dispatch of a shader.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatch {
    /// The shader variant, as its `// variant` line names it.
    pub shader: &'static str,
    /// Specialisation constants 0, 1, ...; constant 0 is the workgroup's size in x where the shader says so.
    pub spec: Vec<u32>,
    /// Push constants, at most [`MAX_PUSH`] bytes.
    pub push: Push,
    /// Workgroups.
    pub groups: [u32; 3],
    /// Memory that it reads; parameters are left out.
    pub reads: Vec<Span>,
    /// Memory that it writes.
    pub writes: Vec<Span>,
    /// Roughly how many operations it does (multiplications of a product count twice); cuts long submissions.
    pub work: f64,
}

impl Dispatch {
    /// Workgroups for `items` invocations in groups of `size`, for shaders that use `invocation()` of `tensor.glsl`.
    pub fn over(items: u64, size: u32) -> [u32; 3] {
        Dispatch::groups_of(items.div_ceil(u64::from(size)))
    }

    /// `n` workgroups in as many dimensions as needed; `gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x` counts
    /// them, and can exceed `n - 1`.
    pub fn groups_of(n: u64) -> [u32; 3] {
        if n <= u64::from(MAX_GROUPS) {
            return [n.max(1) as u32, 1, 1];
        }
        let y = n.div_ceil(u64::from(MAX_GROUPS));
        [n.div_ceil(y) as u32, y as u32, 1]
    }
}

/// Bytes of push constants in the scalar layout: each number at a multiple of its own size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Push(Params);

impl Push {
    /// No bytes.
    pub fn new() -> Push {
        Push::default()
    }

    /// Appends an address.
    pub fn u64(mut self, x: u64) -> Push {
        self.0 = self.0.u64(x);
        self
    }

    /// Appends a number.
    pub fn u32(mut self, x: u32) -> Push {
        self.0 = self.0.u32(x);
        self
    }

    /// Appends a float.
    pub fn f32(self, x: f32) -> Push {
        self.u32(x.to_bits())
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Bytes of a parameter block in the scalar layout.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params(Vec<u8>);

impl From<Vec<u8>> for Params {
    fn from(bytes: Vec<u8>) -> Params {
        Params(bytes)
    }
}

impl Params {
    /// No bytes.
    pub fn new() -> Params {
        Params::default()
    }

    /// Appends an address.
    pub fn u64(mut self, x: u64) -> Params {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self.0.extend_from_slice(&x.to_le_bytes());
        self
    }

    /// Appends a number.
    pub fn u32(mut self, x: u32) -> Params {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self.0.extend_from_slice(&x.to_le_bytes());
        self
    }

    /// Appends a signed number.
    pub fn i32(self, x: i32) -> Params {
        self.u32(x as u32)
    }

    /// Appends a float.
    pub fn f32(self, x: f32) -> Params {
        self.u32(x.to_bits())
    }

    /// Appends a tensor.
    pub fn tensor(mut self, t: TensorParams) -> Params {
        self = self.u64(t.address);
        for x in t.ne.into_iter().chain(t.nb) {
            self = self.u32(x);
        }
        self
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}
