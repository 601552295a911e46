//! ggml-tri: an out-of-tree llama.cpp/GGML backend that places graphs over the CPU, the GPU and the NPU of one chip.
//!
//! Start with `ARCHITECTURE.md` at the root of the repository.

pub mod chip;
pub mod config;
