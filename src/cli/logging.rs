//! Log lines of `tri` itself: to stderr, marked `tri:`, as far down as `TRI_LOG` says.

use std::io::Write;

/// Starts logging; a second call changes nothing.
pub fn start(level: log::LevelFilter) {
    let format = |buf: &mut env_logger::fmt::Formatter, record: &log::Record| writeln!(buf, "tri: {}", record.args());
    // An error means that logging was started before, which is fine.
    let _ = env_logger::Builder::new().filter_level(level).format(format).try_init();
}
