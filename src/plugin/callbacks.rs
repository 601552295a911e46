//! The functions behind the shim's tables, in the order of `shim.h`.

use super::{DEVICE, guard};
use crate::device::{Device, Stream};
use crate::engine::Outcome;
use crate::engine::vulkan::memory::Memory;
use crate::ggml::{Abort, HostGraph, Weight, ffi, node_of};
use crate::memory::slab::Slab;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

pub static TABLE: ffi::Callbacks = ffi::Callbacks {
    device_facts,
    memory,
    slab_new,
    slab_base,
    slab_free,
    hold_repacked,
    weight_written,
    weight_refused,
    weight_read,
    weights_freed,
    gpu_new,
    gpu_base,
    gpu_free,
    gpu_max,
    gpu_read,
    gpu_write,
    gpu_can,
    stream_new,
    stream_free,
    stream_threads,
    stream_abort,
    stream_compute,
};

/// The device; ggml has it before it can call anything here.
fn device() -> &'static Device {
    DEVICE.get().expect("ggml_backend_init made the device before it gave ggml the tables")
}

extern "C" fn device_facts(number: i32, facts: *mut ffi::DeviceFacts) -> c_int {
    let found = guard(None, || device().facts().get(usize::try_from(number).ok()?));
    let Some(found) = found else { return 0 };
    // The names are constants of this library, and lack the NUL.
    let name = if found.name == "TRI0" { c"TRI0" } else { c"TRI0-GPU" };
    let (description, id) = (found.description.as_ptr(), found.id.as_ptr());
    // SAFETY: the shim passes a struct of its own; the strings live as long as the process.
    unsafe { *facts = ffi::DeviceFacts { name: name.as_ptr(), description, id, gpu: i32::from(found.gpu) } };
    1
}

extern "C" fn memory(number: i32, available: *mut u64, total: *mut u64) {
    // On an internal error the zeros make llama.cpp use the host's figures.
    let (a, t) = guard((0, 0), || device().memory(usize::try_from(number).unwrap_or(0)));
    // SAFETY: the shim passes two variables of its own.
    unsafe { (*available, *total) = (a, t) };
}

extern "C" fn slab_new(size: u64) -> *mut c_void {
    guard(null_mut(), || device().slab(size).map_or(null_mut(), |slab| Box::into_raw(Box::new(slab)).cast()))
}

extern "C" fn slab_base(slab: *const c_void) -> *mut c_void {
    // SAFETY: the shim passes what `slab_new` gave it, before `slab_free`.
    unsafe { &*slab.cast::<Slab>() }.base()
}

extern "C" fn slab_free(slab: *mut c_void) {
    // SAFETY: the shim passes what `slab_new` gave it, once.
    let slab = unsafe { Box::from_raw(slab.cast::<Slab>()) };
    guard((), || drop(slab));
}

extern "C" fn hold_repacked(weight_type: *const c_char) -> c_int {
    // SAFETY: ggml's name of a type, NUL-terminated.
    let weight_type = unsafe { CStr::from_ptr(weight_type) };
    guard(0, || c_int::from(device().hold_repacked(&weight_type.to_string_lossy())))
}

extern "C" fn weight_written(weight: *const ffi::Weight, from: *const c_void) {
    // SAFETY: the shim passes a weight that nothing changes during the call.
    let weight = unsafe { Weight::new(*weight) };
    guard((), || device().weight_written(&weight, from as usize));
}

extern "C" fn weight_refused(weight: *const ffi::Weight, reason: *const c_char) {
    // SAFETY: the shim passes a weight that nothing changes during the call, and a NUL-terminated text.
    let (weight, reason) = unsafe { (Weight::new(*weight), CStr::from_ptr(reason)) };
    guard((), || {
        log::error!("TRI0: a write to the weight {} was not made: {}", weight.describe(), reason.to_string_lossy());
    });
}

extern "C" fn weight_read(weight: *const ffi::Weight, to: *mut c_void, offset: u64, size: u64) {
    // SAFETY: the shim passes a weight that nothing changes during the call, and the caller's buffer of `size` bytes.
    let (weight, to) =
        unsafe { (Weight::new(*weight), std::slice::from_raw_parts_mut(to.cast::<u8>(), size as usize)) };
    guard((), || device().weight_read(&weight, offset as usize, to));
}

extern "C" fn weights_freed(base: *const c_void, size: u64) {
    guard((), || device().weights_freed(base as usize, size));
}

extern "C" fn gpu_new(size: u64) -> *mut c_void {
    guard(null_mut(), || device().gpu_memory(size).map_or(null_mut(), |memory| Arc::into_raw(memory).cast_mut().cast()))
}

extern "C" fn gpu_base(memory: *const c_void) -> *mut c_void {
    // SAFETY: the shim passes what `gpu_new` gave it, before `gpu_free`.
    unsafe { &*memory.cast::<Memory>() }.host().cast()
}

extern "C" fn gpu_free(memory: *mut c_void) {
    // SAFETY: the shim passes what `gpu_new` gave it, once.
    let memory = unsafe { Arc::from_raw(memory.cast::<Memory>()) };
    guard((), || {
        if let Some(gpu) = device().gpu() {
            gpu.free(&memory);
        }
    });
}

extern "C" fn gpu_max() -> u64 {
    guard(0, || device().gpu_largest())
}

extern "C" fn gpu_read(from: *const c_void, to: *mut c_void, size: u64) {
    // SAFETY: the shim passes memory of `size` bytes that ggml wants filled.
    let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), size as usize) };
    guard((), || device().gpu_read(from as u64, to));
}

extern "C" fn gpu_write(to: *mut c_void, from: *const c_void, size: u64) {
    // SAFETY: the shim passes memory of `size` bytes that ggml wants copied.
    let from = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), size as usize) };
    guard((), || device().gpu_write(to as u64, from));
}

extern "C" fn gpu_can(node: *const ffi::Node) -> c_int {
    // SAFETY: the shim passes a node that it flattened just now.
    let node = unsafe { node_of(&*node) };
    guard(0, || c_int::from(device().gpu_can(&node)))
}

extern "C" fn stream_new(number: i32) -> *mut c_void {
    guard(null_mut(), || {
        device()
            .stream(usize::try_from(number).unwrap_or(0))
            .map_or(null_mut(), |stream| Box::into_raw(Box::new(stream)).cast())
    })
}

extern "C" fn stream_free(stream: *mut c_void) {
    // SAFETY: the shim passes what `stream_new` gave it, once.
    let stream = unsafe { Box::from_raw(stream.cast::<Stream>()) };
    guard((), || drop(stream));
}

/// The stream behind the shim's pointer.
///
/// # Safety
/// `stream` must come from `stream_new`, and ggml uses a stream from one thread at a time.
unsafe fn stream_of<'a>(stream: *mut c_void) -> &'a mut Stream {
    // SAFETY: see above.
    unsafe { &mut *stream.cast::<Stream>() }
}

extern "C" fn stream_threads(stream: *mut c_void, n_threads: i32) {
    // SAFETY: the shim passes the stream of the backend that ggml called it with.
    let stream = unsafe { stream_of(stream) };
    guard((), || stream.set_threads(n_threads));
}

extern "C" fn stream_abort(stream: *mut c_void, callback: *mut c_void, data: *mut c_void) {
    // SAFETY: as above; ggml's contract for abort callbacks is the one that `Abort::new` asks for.
    let (stream, abort) = unsafe { (stream_of(stream), Abort::new(callback, data)) };
    guard((), || stream.set_abort(abort));
}

extern "C" fn stream_compute(stream: *mut c_void, graph: *const ffi::Graph) -> c_int {
    // SAFETY: as above; the shim's graph describes the one that ggml asks to have computed, valid during this call.
    let (stream, graph) = unsafe { (stream_of(stream), HostGraph::new(*graph)) };
    match guard(Outcome::Failed, || stream.compute(&graph)) {
        Outcome::Done => ffi::OK,
        Outcome::Aborted => ffi::ABORTED,
        Outcome::NoMemory => ffi::NO_MEMORY,
        Outcome::Failed | Outcome::Lost => ffi::FAILED,
    }
}
