//! Why `tri` ends without having done what was asked.

use std::fmt;

/// A check failed, or the machine lacks something.
pub const FAILED: u8 = 1;
/// The command line or a setting is wrong.
pub const USAGE: u8 = 2;
/// The tool was found and could not be started; the shell's number for it.
pub const NOT_STARTED: u8 = 126;
/// The tool was not found; the shell's number for it.
pub const NOT_FOUND: u8 = 127;

/// An exit code and the message that goes with it: the value, the limit, the remedy.
#[derive(Debug, PartialEq, Eq)]
pub struct Stop {
    /// The exit code, one of the constants of this file.
    pub code: u8,
    /// What the user reads.
    pub message: String,
}

impl Stop {
    /// A check failed, or the machine lacks something.
    pub fn failed(message: impl Into<String>) -> Stop {
        Stop { code: FAILED, message: message.into() }
    }

    /// The command line or a setting is wrong.
    pub fn usage(message: impl Into<String>) -> Stop {
        Stop { code: USAGE, message: message.into() }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
