//! What ggml calls: the exported entry points, and the functions behind the shim's tables.
//!
//! Unsafe room: pointers from C become references here. No panic leaves it: each function runs inside [`guard`].
#![allow(unsafe_code)]

mod callbacks;

use crate::config::Config;
use crate::device::Device;
use crate::ggml::{Host, HostLog, ffi};
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook};
use std::ptr::null_mut;
use std::sync::OnceLock;

static DEVICE: OnceLock<Device> = OnceLock::new();

/// Runs the body of a function that C calls; after a panic, which the hook has reported, returns `otherwise`.
fn guard<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// Reports a panic in one line of the host's log. The standard library inside this plugin is its own, and so is the hook.
fn report_panic(panic: &PanicHookInfo) {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or_default();
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    log::error!("TRI0: internal error at {place}: {text}; please report it with this line");
}

/// ggml's loader calls this once, after the CPU backend is loaded.
///
/// Returns the reg object, or NULL when this plugin does not fit the host or a setting is malformed; one line has said
/// why, and llama.cpp goes on without TRI0.
#[unsafe(no_mangle)]
pub extern "C" fn ggml_backend_init() -> *mut c_void {
    guard(null_mut(), || {
        static LOG: HostLog = HostLog;
        let config = Config::get();
        log::set_max_level(config.as_ref().map_or(log::LevelFilter::Error, |c| c.log));
        // A second load of the library in one process keeps the first logger.
        let _ = log::set_logger(&LOG);
        set_hook(Box::new(report_panic));
        let host = Host::open();
        let (config, host) = match (config, host) {
            (Ok(config), Ok(host)) => (config, host),
            (Err(error), _) => {
                log::error!("TRI0 is not available: {error}");
                return null_mut();
            }
            (_, Err(refusal)) => {
                log::error!("TRI0 is not available: {refusal}");
                return null_mut();
            }
        };
        if !config.unknown.is_empty() {
            log::warn!("TRI0: not a setting of ggml-tri: {}; `tri doctor --env` lists them", config.unknown.join(", "));
        }
        let device = DEVICE.get_or_init(|| Device::new(host, config));
        // A warning, since llama.cpp shows its tools no information of backends by default, and a missing engine is no secret.
        log::warn!("{}", device.describe());
        // SAFETY: the host is open, and the table's functions are valid for the life of the process.
        unsafe { ffi::tri_plugin_reg(&callbacks::TABLE) }
    })
}

/// How well this backend fits the machine; 0 would mean not at all. `ggml_backend_init` decides, since only it can say why.
#[unsafe(no_mangle)]
pub extern "C" fn ggml_backend_score() -> c_int {
    1
}

/// The ggml version that this plugin was built for, for programs that look before they load; never freed.
#[unsafe(no_mangle)]
pub extern "C" fn tri_ggml_version() -> *const c_char {
    // SAFETY: a constant of the shim.
    unsafe { ffi::tri_built_version() }
}
