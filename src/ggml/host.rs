//! The host process: whether its ggml is the one that this plugin was built for, and the graphs that it hands over.

use super::{ffi, text};
use crate::graph::{Graph, Node, Tensor, Type};
use std::ffi::CStr;
use std::marker::PhantomData;

/// Why this plugin and this host do not fit together. Each message says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A function of ggml that the plugin calls is not in this process.
    #[error(
        "this host has no {0}; the plugin needs a llama.cpp with ggml {built} as shared libraries (GGML_BACKEND_DL=ON)",
        built = Host::built_version()
    )]
    Missing(String),
    /// Another ggml version.
    #[error(
        "this plugin was built for ggml {built} and the host has ggml {host} (commit {commit}); install the plugin \
         build for ggml {host}, or use a host with ggml {built}",
        built = Host::built_version()
    )]
    Version {
        /// The host's `ggml_version()`.
        host: String,
        /// The host's `ggml_commit()`: shown, never a reason.
        commit: String,
    },
    /// Same version, other numbers: a development build between two releases.
    #[error(
        "the host says ggml {version}, yet {difference}; build the plugin from the host's own source tree (TRI_LLAMA_SRC)"
    )]
    Names {
        /// The version that both claim.
        version: String,
        /// The first difference.
        difference: String,
    },
    /// The host has no CPU backend loaded.
    #[error(
        "the host has loaded no ggml-cpu backend, which TRI0 computes with; put libggml-cpu*.so beside the host's libraries"
    )]
    NoCpu,
    /// The CPU device's table has another shape than expected.
    #[error("{0}, so its layout is not the one of ggml {built}; build the plugin from the host's own source tree (TRI_LLAMA_SRC)", built = Host::built_version())]
    Table(String),
}

/// The host, once it was checked. There is one per process.
#[derive(Debug, Clone, Copy)]
pub struct Host(());

impl Host {
    /// Looks the host's ggml up and checks it: version, then operation and type names up to the first difference, then
    /// where the functions of the CPU device lie. Must be called from one thread, before anything else of this room.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn open() -> Result<Host, Refusal> {
        // SAFETY: called once at load, before any other function of the shim.
        if let Some(missing) = text(unsafe { ffi::tri_host_open() }) {
            return Err(Refusal::Missing(missing));
        }
        // SAFETY: the functions were found by the call above.
        let (version, commit) = unsafe { (text(ffi::tri_host_version()), text(ffi::tri_host_commit())) };
        let (version, commit) = (version.unwrap_or_default(), commit.unwrap_or_default());
        if release(&version) != release(Host::built_version()) {
            return Err(Refusal::Version { host: version, commit });
        }
        // SAFETY: the functions were found by the first call.
        if let Some(difference) = text(unsafe { ffi::tri_host_name_difference() }) {
            return Err(Refusal::Names { version, difference });
        }
        // SAFETY: the registry function was found, and version and names agree with our headers.
        if unsafe { ffi::tri_cpu_find() } == 0 {
            return Err(Refusal::NoCpu);
        }
        // SAFETY: the CPU device was found by the call above.
        if let Some(function) = text(unsafe { ffi::tri_host_foreign_function() }) {
            return Err(Refusal::Table(function));
        }
        Ok(Host(()))
    }

    /// The ggml version whose headers this plugin was built from, such as `0.26.0`.
    pub fn built_version() -> &'static str {
        env!("TRI_GGML_VERSION")
    }

    /// The host's commit as it reports it; it can be that of a surrounding repository.
    pub fn commit(&self) -> String {
        // SAFETY: `self` proves that the host is open.
        text(unsafe { ffi::tri_host_commit() }).unwrap_or_default()
    }
}

/// `major.minor.patch` without a suffix such as `-dirty`, which says nothing about the layout.
fn release(version: &str) -> &str {
    version.split(['-', '+']).next().unwrap_or(version)
}

/// A graph that the host asked to have computed; it cannot outlive the call that brought it.
pub struct HostGraph<'a> {
    pub(super) raw: ffi::Graph,
    call: PhantomData<&'a ()>,
}

impl HostGraph<'_> {
    /// Wraps the graph of a call from the host.
    ///
    /// # Safety
    /// `raw.host` must be a graph of the checked host that lives as long as the result, used by no other thread.
    pub(crate) unsafe fn new(raw: ffi::Graph) -> Self {
        HostGraph { raw, call: PhantomData }
    }

    /// Non-zero: names a repeated graph.
    pub fn uid(&self) -> u64 {
        self.raw.uid
    }

    /// The graph as flat nodes, in the order of computation.
    pub fn flatten(&self) -> Graph {
        let n = usize::try_from(self.raw.n_nodes).unwrap_or(0);
        let mut raw = Vec::<ffi::Node>::with_capacity(n);
        // SAFETY: the graph is valid (see `new`), and `raw` has room for its n nodes, all of which the call fills.
        unsafe {
            ffi::tri_graph_flatten(&self.raw, raw.as_mut_ptr());
            raw.set_len(n);
        }
        // SAFETY: the call filled them from the host's graph.
        Graph { uid: self.raw.uid, nodes: raw.iter().map(|node| unsafe { node_of(node) }).collect() }
    }
}

/// A node as plain data.
///
/// # Safety
/// `raw` must be as `tri_node_flatten` filled it.
pub(crate) unsafe fn node_of(raw: &ffi::Node) -> Node {
    // SAFETY: names of operations and types are constants of the host's libraries, which are never unloaded.
    let name = |p| unsafe { CStr::from_ptr::<'static>(p) }.to_str().unwrap_or("?");
    let tensor = |t: &ffi::Tensor| Tensor {
        ty: Type::from_name(name(t.type_name)),
        ne: t.ne,
        nb: t.nb,
        data: t.data,
        id: t.id,
        root: t.root,
    };
    Node {
        op: name(raw.op),
        sub: name(raw.sub),
        params: raw.params,
        dst: tensor(&raw.dst),
        src: raw.src.each_ref().map(|t| (!t.type_name.is_null()).then(|| tensor(t))),
        compute: raw.flags & ffi::NODE_COMPUTE != 0 && raw.flags & ffi::NODE_VIEW == 0,
        output: raw.flags & ffi::NODE_OUTPUT != 0,
        uses: u32::try_from(raw.uses).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_ggml_is_refused_with_the_missing_function() {
        assert_eq!(Host::open().unwrap_err(), Refusal::Missing("ggml_version".to_owned()));
    }

    #[test]
    fn suffixes_do_not_make_another_version() {
        assert_eq!(release("0.26.0-dirty"), "0.26.0");
        assert_ne!(release("0.26.0"), release("0.26.1"));
    }

    #[test]
    fn every_refusal_says_what_to_do() {
        let (version, difference) = ("0.26.0".to_owned(), "operation 3 is ADD here and DUP in the host".to_owned());
        for refusal in [
            Refusal::Missing("ggml_version".to_owned()),
            Refusal::Version { host: "0.25.3".to_owned(), commit: "abc".to_owned() },
            Refusal::Names { version, difference },
            Refusal::NoCpu,
            Refusal::Table("entry 3 of the CPU device's table lies in libx.so".to_owned()),
        ] {
            let message = refusal.to_string();
            assert!(["install", "build", "put", "needs"].iter().any(|verb| message.contains(verb)), "{message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }
}
