//! Asks what may take the process with it: a shared library for one text, by loading it, and Vulkan for its devices.
//! A room of `unsafe`: loading a library runs its code.
//!
//! It is used in a child process only (`tri __probe`), so that what is broken takes nothing but that child with it.
#![allow(unsafe_code)]

pub mod vulkan;

use std::ffi::{CStr, c_char};
use std::path::Path;

/// A library did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The loader refused it.
    #[error("cannot be loaded: {0}")]
    Load(String),
    /// It does not export the function.
    #[error("does not export the function '{0}'")]
    Symbol(String),
    /// The function gave no text.
    #[error("its function '{0}' returned no text")]
    Null(String),
}

/// Loads a library and calls its function `const char * symbol(void)`.
///
/// # Errors
/// The library cannot be loaded, has no such function, or the function returns NULL.
///
/// # Safety
/// The library's constructors and the function run in this process; the caller promises that the function has that
/// signature, and that this process may die of a library that is not what it seems.
pub unsafe fn text(library: &Path, symbol: &str) -> Result<String, ProbeError> {
    // SAFETY: the caller accepts whatever the library's constructors do to this process.
    let loaded = unsafe { libloading::Library::new(library) }.map_err(|e| ProbeError::Load(e.to_string()))?;
    // SAFETY: the caller promises that a function of this name has this signature.
    let function = unsafe { loaded.get::<unsafe extern "C" fn() -> *const c_char>(symbol.as_bytes()) }
        .map_err(|_| ProbeError::Symbol(symbol.to_owned()))?;
    // SAFETY: the function takes no argument, and the library stays loaded until the end of this scope.
    let pointer = unsafe { function() };
    if pointer.is_null() {
        return Err(ProbeError::Null(symbol.to_owned()));
    }
    // SAFETY: by the promised signature a pointer that is not NULL is a C string, and it is copied before the library goes.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

/// The child's whole work: [`text`] for a process that does nothing else.
///
/// # Errors
/// As [`text`].
pub fn in_child(library: &Path, symbol: &str) -> Result<String, ProbeError> {
    // SAFETY: this process was started for this one question and holds nothing that a broken library could spoil; the
    // two symbols it is asked for (`ggml_version`, `tri_ggml_version`) have the signature.
    unsafe { text(library, symbol) }
}
