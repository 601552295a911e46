//! Slabs: page-aligned host memory in which ggml's buffers lie.

use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr::NonNull;

/// The alignment of a slab and of its size, in bytes: the page of every supported machine, and what a GPU driver needs
/// to import the memory.
pub const PAGE: usize = 4096;

/// One allocation. Its bytes are not initialised; pages are taken by the system when they are first written.
pub struct Slab {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a slab is plain memory that it alone owns.
unsafe impl Send for Slab {}
// SAFETY: a shared slab gives out nothing but its address.
unsafe impl Sync for Slab {}

impl Slab {
    /// Allocates at least `size` bytes; `None` when the system has no room for them.
    pub fn new(size: usize) -> Option<Slab> {
        let size = size.max(1).checked_next_multiple_of(PAGE)?;
        let layout = Layout::from_size_align(size, PAGE).ok()?;
        // SAFETY: the layout's size is not zero.
        let base = NonNull::new(unsafe { std::alloc::alloc(layout) })?;
        Some(Slab { base, layout })
    }

    /// The address of the first byte.
    pub fn base(&self) -> *mut c_void {
        self.base.as_ptr().cast()
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: `base` was allocated with this layout and is not used again.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slab_is_page_aligned_and_holds_whole_pages() {
        for size in [0, 1, PAGE, PAGE + 1] {
            let slab = Slab::new(size).unwrap();
            assert_eq!(slab.base() as usize % PAGE, 0);
            assert_eq!(slab.layout.size(), size.max(1).div_ceil(PAGE) * PAGE);
        }
    }

    #[test]
    fn an_impossible_size_is_no_panic() {
        assert!(Slab::new(usize::MAX).is_none());
        assert!(Slab::new(usize::MAX / 2).is_none());
    }
}
