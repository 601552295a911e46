//! WHERE bytes live: slabs, and the way back from a repacked weight to the bytes of the file.
//!
//! Unsafe room: it allocates.
#![allow(unsafe_code)]

pub mod bits;
pub mod origin;
pub mod slab;
