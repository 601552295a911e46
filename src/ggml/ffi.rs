//! The mirror of `ggml-shim/shim.h`. The test below compares every size and offset with the C compiler's.

use std::ffi::{c_char, c_int, c_void};

pub const NODE_COMPUTE: u32 = 1;
pub const NODE_VIEW: u32 = 2;
pub const NODE_OUTPUT: u32 = 4;
pub const MAX_SRC: usize = 10;

pub const OK: c_int = 0;
pub const ABORTED: c_int = 1;
pub const FAILED: c_int = 2;
pub const NO_MEMORY: c_int = 3;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Tensor {
    pub type_name: *const c_char,
    pub ne: [i64; 4],
    pub nb: [u64; 4],
    pub data: u64,
    pub id: u64,
    pub root: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Node {
    pub op: *const c_char,
    pub sub: *const c_char,
    pub flags: u32,
    pub uses: i32,
    pub params: [i32; 16],
    pub dst: Tensor,
    pub src: [Tensor; MAX_SRC],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Graph {
    pub host: *mut c_void,
    pub uid: u64,
    pub n_nodes: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Weight {
    pub type_name: *const c_char,
    pub type_id: i32,
    pub layout: i32,
    pub ne: [i64; 4],
    pub nbytes: u64,
    pub data: *const c_void,
}

#[repr(C)]
pub struct Part {
    pub first: i32,
    pub count: i32,
    pub rows: [i64; 2],
    pub moved_first: i32,
    pub moved_count: i32,
    pub addresses: *const u64,
}

#[repr(C)]
pub struct DeviceFacts {
    pub name: *const c_char,
    pub description: *const c_char,
    pub id: *const c_char,
    pub gpu: i32,
}

#[repr(C)]
pub struct Callbacks {
    pub device_facts: extern "C" fn(i32, *mut DeviceFacts) -> c_int,
    pub memory: extern "C" fn(i32, *mut u64, *mut u64),
    pub slab_new: extern "C" fn(u64) -> *mut c_void,
    pub slab_base: extern "C" fn(*const c_void) -> *mut c_void,
    pub slab_free: extern "C" fn(*mut c_void),
    pub hold_repacked: extern "C" fn(*const c_char) -> c_int,
    pub weight_written: extern "C" fn(*const Weight, *const c_void),
    pub weight_refused: extern "C" fn(*const Weight, *const c_char),
    pub weight_read: extern "C" fn(*const Weight, *mut c_void, u64, u64),
    pub weights_freed: extern "C" fn(*const c_void, u64),
    pub gpu_new: extern "C" fn(u64) -> *mut c_void,
    pub gpu_base: extern "C" fn(*const c_void) -> *mut c_void,
    pub gpu_free: extern "C" fn(*mut c_void),
    pub gpu_max: extern "C" fn() -> u64,
    pub gpu_read: extern "C" fn(*const c_void, *mut c_void, u64),
    pub gpu_write: extern "C" fn(*mut c_void, *const c_void, u64),
    pub gpu_can: extern "C" fn(*const Node) -> c_int,
    pub stream_new: extern "C" fn(i32) -> *mut c_void,
    pub stream_free: extern "C" fn(*mut c_void),
    pub stream_threads: extern "C" fn(*mut c_void, i32),
    pub stream_abort: extern "C" fn(*mut c_void, *mut c_void, *mut c_void),
    pub stream_compute: extern "C" fn(*mut c_void, *const Graph) -> c_int,
}

unsafe extern "C" {
    pub fn tri_host_open() -> *const c_char;
    pub fn tri_host_version() -> *const c_char;
    pub fn tri_host_commit() -> *const c_char;
    pub fn tri_built_version() -> *const c_char;
    pub fn tri_host_name_difference() -> *const c_char;
    pub fn tri_host_foreign_function() -> *const c_char;
    pub fn tri_host_log(level: i32, text: *const c_char);

    pub fn tri_plugin_reg(callbacks: *const Callbacks) -> *mut c_void;

    pub fn tri_cpu_find() -> c_int;
    pub fn tri_cpu_description() -> *const c_char;
    pub fn tri_cpu_feature(name: *const c_char) -> c_int;
    pub fn tri_cpu_layout_count() -> i32;
    pub fn tri_cpu_layout_name(layout: i32) -> *const c_char;
    pub fn tri_cpu_new() -> *mut c_void;
    pub fn tri_cpu_free(cpu: *mut c_void);
    pub fn tri_cpu_threads(cpu: *mut c_void, n_threads: i32);
    pub fn tri_cpu_abort(cpu: *mut c_void, callback: *mut c_void, data: *mut c_void);
    pub fn tri_cpu_pool_new(cpu: *mut c_void, n_threads: i32) -> *mut c_void;
    pub fn tri_cpu_pool_free(cpu: *mut c_void, pool: *mut c_void);
    pub fn tri_cpu_compute(cpu: *mut c_void, graph: *mut c_void, first: i32, count: i32, convert: c_int) -> c_int;
    pub fn tri_cpu_part(cpu: *mut c_void, graph: *mut c_void, part: *const Part) -> c_int;
    pub fn tri_graph_flatten(graph: *const Graph, nodes: *mut Node);
    pub fn tri_cpu_repack(weight: *const Weight, rows: i64, from: *const c_void, to: *mut c_void, size: u64) -> c_int;
    pub fn tri_cpu_row_bytes(weight: *const Weight, rows: i64) -> u64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    unsafe extern "C" {
        static tri_layout: [usize; 33];
        static tri_layout_count: usize;
    }

    #[test]
    fn every_struct_has_the_size_and_offsets_that_c_sees() {
        let ours = [
            size_of::<Tensor>(),
            offset_of!(Tensor, ne),
            offset_of!(Tensor, nb),
            offset_of!(Tensor, data),
            offset_of!(Tensor, id),
            offset_of!(Tensor, root),
            size_of::<Node>(),
            offset_of!(Node, op),
            offset_of!(Node, sub),
            offset_of!(Node, flags),
            offset_of!(Node, uses),
            offset_of!(Node, params),
            offset_of!(Node, dst),
            offset_of!(Node, src),
            size_of::<Graph>(),
            offset_of!(Graph, host),
            offset_of!(Graph, uid),
            offset_of!(Graph, n_nodes),
            size_of::<Weight>(),
            offset_of!(Weight, type_name),
            offset_of!(Weight, type_id),
            offset_of!(Weight, layout),
            offset_of!(Weight, ne),
            offset_of!(Weight, nbytes),
            offset_of!(Weight, data),
            size_of::<Part>(),
            offset_of!(Part, rows),
            offset_of!(Part, moved_first),
            offset_of!(Part, addresses),
            size_of::<DeviceFacts>(),
            offset_of!(DeviceFacts, gpu),
            size_of::<Callbacks>(),
            offset_of!(Callbacks, stream_compute),
        ];
        // SAFETY: both are constants of the shim, and the array has as many elements as the count beside it says.
        let (count, theirs) = unsafe { (tri_layout_count, tri_layout) };
        assert_eq!(count, ours.len());
        assert_eq!(theirs, ours);
    }
}
