//! Our messages in the host's log.

use super::ffi;
use std::ffi::CString;

/// A logger for the `log` crate that hands each record to ggml's log callback, or to stderr before a host is open.
pub struct HostLog;

impl log::Log for HostLog {
    fn enabled(&self, metadata: &log::Metadata) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &log::Record) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let level = match record.level() {
            log::Level::Error => 1,
            log::Level::Warn => 2,
            log::Level::Info => 3,
            log::Level::Debug | log::Level::Trace => 4,
        };
        // A message with a NUL byte cannot reach C; the byte is shown as a space.
        let line = CString::new(format!("tri: {}", record.args()).replace('\0', " ")).unwrap_or_default();
        // SAFETY: the text is NUL-terminated and outlives the call, which copies it.
        unsafe { ffi::tri_host_log(level, line.as_ptr()) }
    }

    fn flush(&self) {}
}
