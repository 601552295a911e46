//! What the machine is, as data: its memory, its CPU and its graphics cards.
//!
//! Each file has parsers of text, which touch nothing, and one thin reader that takes the root of the file system, so that
//! a recorded tree can stand for a machine.

pub mod catalog;
pub mod cpu;
pub mod drm;
pub mod memory;
pub mod model;
