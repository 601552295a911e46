//! ggml-tri: an out-of-tree llama.cpp/GGML backend that places graphs over the CPU, the GPU and the NPU of one chip.
//!
//! Start with `ARCHITECTURE.md` at the root of the repository. Read as a sentence: a *graph* on a *chip* is *plan*ned over
//! *memory* and *engine*s, then *exec*uted.

pub mod chip;
pub mod config;
pub mod device;
pub mod engine;
pub mod exec;
pub mod ggml;
pub mod graph;
pub mod memory;
pub mod monitor;
pub mod plan;
pub mod plugin;
pub mod probe;
pub mod profile;
pub mod sim;
