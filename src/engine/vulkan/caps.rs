//! What the device can do, as plain data that lowering decides by.

/// How a device's memory relates to the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// One memory for CPU and GPU (an APU, a software device).
    Unified,
    /// The GPU has its own memory, all of which the CPU can address.
    Visible,
}

/// One shape of cooperative matrices: `m x k` times `k x n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixShape {
    /// Rows of the first matrix.
    pub m: u32,
    /// Columns of the second.
    pub n: u32,
    /// Columns of the first, rows of the second.
    pub k: u32,
}

/// What the device can do.
#[derive(Debug, Clone, PartialEq)]
pub struct Caps {
    /// The name that the driver gives.
    pub name: String,
    /// Driver name and version, for people.
    pub driver: String,
    /// A software device: never used unless asked for.
    pub software: bool,
    /// PCI vendor.
    pub vendor: u32,
    /// `dddd:bb:dd.f`, where the driver tells.
    pub pci: Option<String>,
    /// How its memory relates to the host's.
    pub memory: MemoryKind,
    /// Invocations of the subgroups that every pipeline is made with.
    pub subgroup: u32,
    /// Packed 4 x 8 bit integer dot products are there.
    pub dot: bool,
    /// ... and in hardware.
    pub dot_accelerated: bool,
    /// f16 x f16 -> f32 cooperative matrices, subgroup scope.
    pub matrix_f16: Option<MatrixShape>,
    /// bf16 x bf16 -> f32 cooperative matrices.
    pub matrix_bf16: Option<MatrixShape>,
    /// i8 x i8 -> i32 cooperative matrices.
    pub matrix_i8: Option<MatrixShape>,
    /// Bytes of shared memory of a workgroup.
    pub shared: u32,
    /// Invocations of a workgroup.
    pub invocations: u32,
    /// Bytes of the largest allocation.
    pub max_allocation: u64,
    /// Nanoseconds of one tick of a timestamp; 0 when there are none.
    pub timestamp_ns: f32,
}

impl Caps {
    /// A small device for tests of lowering: subgroups of 8, no matrices.
    pub fn for_tests() -> Caps {
        Caps {
            name: "test".to_owned(),
            driver: String::new(),
            software: true,
            vendor: 0,
            pci: None,
            memory: MemoryKind::Unified,
            subgroup: 8,
            dot: true,
            dot_accelerated: false,
            matrix_f16: None,
            matrix_bf16: None,
            matrix_i8: None,
            shared: 32768,
            invocations: 1024,
            max_allocation: 2 << 30,
            timestamp_ns: 0.0,
        }
    }
}
