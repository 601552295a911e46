//! The names of the engines.

/// The kinds of engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EngineKind {
    /// The host's own ggml-cpu.
    Cpu,
    /// Own shaders over Vulkan.
    Gpu,
    /// An XDNA NPU. No engine drives one yet; the planner knows what one would be worth.
    Npu,
}

impl EngineKind {
    /// The name in every output.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Cpu => "cpu",
            EngineKind::Gpu => "gpu",
            EngineKind::Npu => "npu",
        }
    }
}
