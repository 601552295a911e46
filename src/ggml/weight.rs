//! A weight in a repacked layout, as the shim describes it during one call.

use super::{ffi, text};
use std::marker::PhantomData;

/// A repacked weight; it cannot outlive the call that brought it.
pub struct Weight<'a> {
    raw: ffi::Weight,
    call: PhantomData<&'a ()>,
}

impl Weight<'_> {
    /// Wraps the weight of a call from the host.
    ///
    /// # Safety
    /// `raw.data` must point to the weight's repacked bytes, which nothing changes while the result lives.
    pub(crate) unsafe fn new(raw: ffi::Weight) -> Self {
        Weight { raw, call: PhantomData }
    }

    /// "q4_0 2048 x 512 in CPU_REPACK", for messages.
    pub fn describe(&self) -> String {
        // SAFETY: the layout's index comes from the shim.
        let layout = text(unsafe { ffi::tri_cpu_layout_name(self.raw.layout) }).unwrap_or_default();
        let ne = self.raw.ne.iter().take_while(|n| **n > 1).map(ToString::to_string).collect::<Vec<_>>().join(" x ");
        format!("{} {ne} in {layout}", text(self.raw.type_name).unwrap_or_default())
    }

    /// Where the repacked bytes lie: the weight's name for as long as its buffer lives.
    pub fn address(&self) -> usize {
        self.raw.data as usize
    }

    /// Size in the file's layout, in bytes.
    pub fn nbytes(&self) -> usize {
        usize::try_from(self.raw.nbytes).unwrap_or(usize::MAX)
    }

    /// Number of rows over all outer dimensions.
    pub fn rows(&self) -> i64 {
        self.raw.ne[1] * self.raw.ne[2] * self.raw.ne[3]
    }

    /// Bytes of `rows` rows in the file's layout.
    pub fn row_bytes(&self, rows: i64) -> usize {
        // SAFETY: the weight's type is one of the host.
        usize::try_from(unsafe { ffi::tri_cpu_row_bytes(&self.raw, rows) }).unwrap_or(usize::MAX)
    }

    /// The repacked bytes. Only for layouts that are as large as the file's, which `repack` checks.
    pub fn repacked(&self) -> &[u8] {
        // SAFETY: see `new`; a layout holds at least the bytes of the file's layout.
        unsafe { std::slice::from_raw_parts(self.raw.data.cast::<u8>(), self.nbytes()) }
    }

    /// Has ggml-cpu repack `rows` rows of this type and length; `None` when this layout cannot, or holds more than weights.
    pub fn repack(&self, rows: i64, from: &[u8]) -> Option<Vec<u8>> {
        let mut to = vec![0; from.len()];
        let size = from.len() as u64;
        // SAFETY: both buffers have `size` bytes, which the shim compares with the size of the rows.
        let done = unsafe { ffi::tri_cpu_repack(&self.raw, rows, from.as_ptr().cast(), to.as_mut_ptr().cast(), size) };
        (done != 0).then_some(to)
    }
}
