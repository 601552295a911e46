//! A private backend of the host's ggml-cpu.

use super::{Host, HostGraph, ffi, text};
use crate::engine::Outcome;
use crate::plan::Step;
use std::ffi::{CString, c_int, c_void};
use std::ptr::NonNull;

/// What the host's CPU backend says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuFeatures {
    /// The processor's name.
    pub description: String,
    /// The host's CPU backend runs its threads through OpenMP.
    pub openmp: bool,
    /// The instruction sets that decide about weight layouts, as ggml-cpu names them.
    pub isa: Vec<&'static str>,
    /// The repacked layouts that it offers, in its order of preference.
    pub layouts: Vec<String>,
}

/// Instruction sets that ggml-cpu reports and that the layout catalogue may name, widest first.
const ISA: &[&str] =
    &["AMX_INT8", "AVX512_BF16", "AVX512_VNNI", "AVX512", "AVX_VNNI", "AVX2", "SVE", "MATMUL_INT8", "NEON"];

impl CpuFeatures {
    /// Asks the host's CPU backend.
    pub fn read(_host: &Host) -> CpuFeatures {
        let has = |name: &str| {
            let name = CString::new(name).unwrap_or_default();
            // SAFETY: the host is open, and the name is NUL-terminated.
            unsafe { ffi::tri_cpu_feature(name.as_ptr()) != 0 }
        };
        // SAFETY: the host is open, and the indices are below the count.
        let layouts =
            unsafe { (0..ffi::tri_cpu_layout_count()).filter_map(|i| text(ffi::tri_cpu_layout_name(i))).collect() };
        CpuFeatures {
            // SAFETY: the host is open.
            description: text(unsafe { ffi::tri_cpu_description() }).unwrap_or_default(),
            openmp: has("OPENMP"),
            isa: ISA.iter().copied().filter(|name| has(name)).collect(),
            layouts,
        }
    }
}

fn outcome(status: c_int) -> Outcome {
    match status {
        ffi::OK => Outcome::Done,
        ffi::ABORTED => Outcome::Aborted,
        ffi::NO_MEMORY => Outcome::NoMemory,
        _ => Outcome::Failed,
    }
}

/// A host's abort callback with its argument.
#[derive(Debug, Clone, Copy)]
pub struct Abort {
    callback: *mut c_void,
    data: *mut c_void,
}

impl Abort {
    /// Wraps what the host gave.
    ///
    /// # Safety
    /// `callback` must be NULL (for none) or a C function `bool (void *)` that may be called with `data` until another
    /// one is set.
    pub(crate) unsafe fn new(callback: *mut c_void, data: *mut c_void) -> Abort {
        Abort { callback, data }
    }
}

/// One backend object of ggml-cpu, used by one stream of TRI0.
pub struct CpuBackend {
    raw: NonNull<c_void>,
    /// The pool of a host without OpenMP, and its number of threads.
    pool: Option<(NonNull<c_void>, i32)>,
    openmp: bool,
}

// SAFETY: ggml-cpu's backend is plain data; ggml uses a stream, and so this, from one thread at a time.
unsafe impl Send for CpuBackend {}

impl CpuBackend {
    /// Makes a backend; `None` when ggml-cpu cannot.
    pub fn new(_host: &Host, features: &CpuFeatures) -> Option<CpuBackend> {
        // SAFETY: the host is open.
        let raw = NonNull::new(unsafe { ffi::tri_cpu_new() })?;
        Some(CpuBackend { raw, pool: None, openmp: features.openmp })
    }

    /// Sets the number of threads of the graphs to come.
    ///
    /// Without OpenMP ggml-cpu would start that many threads for each graph, so one sleeping pool is kept for them.
    pub fn set_threads(&mut self, n: i32) {
        // SAFETY: `raw` is a live backend of ggml-cpu.
        unsafe { ffi::tri_cpu_threads(self.raw.as_ptr(), n) };
        if !self.openmp && self.pool.is_none_or(|(_, size)| size < n) {
            self.free_pool();
            // SAFETY: `raw` is live; the old pool was detached and freed.
            let pool = NonNull::new(unsafe { ffi::tri_cpu_pool_new(self.raw.as_ptr(), n) });
            self.pool = pool.map(|p| (p, n));
        }
    }

    /// Sets the function that ggml-cpu asks between nodes whether to stop.
    pub fn set_abort(&mut self, abort: Abort) {
        // SAFETY: `raw` is live, and whoever made the `Abort` vouched for the function and its argument.
        unsafe { ffi::tri_cpu_abort(self.raw.as_ptr(), abort.callback, abort.data) };
    }

    /// Computes `count` nodes of the graph from `first` on. `convert`: with every weight that has a repacked layout
    /// converted to it for this graph.
    pub fn compute(&mut self, graph: &HostGraph, first: usize, count: usize, convert: bool) -> Outcome {
        assert!(first + count <= graph.raw.n_nodes as usize, "{count} nodes from {first} of {}", graph.raw.n_nodes);
        // SAFETY: `raw` is live, a HostGraph is a live graph of this host that only this thread uses, and the nodes are its.
        let status = unsafe {
            let (first, count) = (first as i32, count as i32);
            ffi::tri_cpu_compute(self.raw.as_ptr(), graph.raw.host, first, count, i32::from(convert))
        };
        outcome(status)
    }

    /// Computes a step of the graph whose results, and whose sources among them, lie elsewhere: those of the nodes from
    /// `from` on at `addresses`. Also rows of a product; without addresses they go where the graph has them.
    pub fn compute_part(&mut self, graph: &HostGraph, step: &Step, from: usize, addresses: &[u64]) -> Outcome {
        let (end, moved) = (step.first + step.count, from..from + addresses.len());
        assert!(end <= graph.raw.n_nodes as usize, "{} nodes from {} of {}", step.count, step.first, graph.raw.n_nodes);
        assert!(addresses.is_empty() || moved.start <= step.first && end <= moved.end, "{moved:?} holds {step:?}");
        let rows = step.rows.map_or([-1; 2], |r| [r.first as i64, r.count as i64]);
        let part = ffi::Part {
            first: step.first as i32,
            count: step.count as i32,
            rows,
            moved_first: from as i32,
            moved_count: addresses.len() as i32,
            addresses: addresses.as_ptr(),
        };
        // SAFETY: `raw` is live, a HostGraph is a live graph of this host that only this thread uses, the nodes are its, and
        // the addresses are memory of the engines for these nodes' results.
        outcome(unsafe { ffi::tri_cpu_part(self.raw.as_ptr(), graph.raw.host, &raw const part) })
    }

    fn free_pool(&mut self) {
        if let Some((pool, _)) = self.pool.take() {
            // SAFETY: the pool was made for `raw` and is used by nothing else.
            unsafe { ffi::tri_cpu_pool_free(self.raw.as_ptr(), pool.as_ptr()) };
        }
    }
}

impl Drop for CpuBackend {
    fn drop(&mut self) {
        self.free_pool();
        // SAFETY: `raw` is live and not used again.
        unsafe { ffi::tri_cpu_free(self.raw.as_ptr()) };
    }
}
