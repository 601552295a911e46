//! What we call in ggml, through the shim: which host this is, its CPU backend, its graphs, its log.
//!
//! Unsafe room: every call into the shim is a foreign call. Everything that leaves this room is safe to use.
#![allow(unsafe_code)]

mod cpu;
pub(crate) mod ffi;
mod host;
mod log;
mod weight;

pub use cpu::{Abort, CpuBackend, CpuFeatures};
pub(crate) use host::node_of;
pub use host::{Host, HostGraph, Refusal};
pub use log::HostLog;
pub use weight::Weight;

use std::ffi::{CStr, c_char};

/// Copies a C string of the shim; `None` for NULL.
fn text(pointer: *const c_char) -> Option<String> {
    // SAFETY: the shim's strings are NUL-terminated and live as long as the host or until the next call of the same kind.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}
