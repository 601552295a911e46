//! Reads repacked weights back.

use crate::ggml::Weight;
use crate::memory::bits::Rearrangement;
use crate::memory::origin::Origin;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Rows that ggml-cpu's layouts interleave: the fewest that it accepts is what is learned.
const GROUPS: [i64; 5] = [1, 2, 4, 8, 16];

/// Where each repacked weight came from, by the address of its bytes.
#[derive(Default)]
pub struct Readback {
    origins: Mutex<BTreeMap<usize, Origin>>,
}

impl Readback {
    /// Notes the file behind the address that a weight was copied from, if there is one and it will be needed: a layout
    /// that ggml-cpu can apply to a few rows is one to undo. Finding the file takes longer than repacking a small weight.
    pub fn note(&self, weight: &Weight, from: usize) {
        let mut origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        origins.remove(&weight.address());
        if groups(weight).any(|rows| weight.repack(rows, &vec![0; weight.row_bytes(rows)]).is_some()) {
            return;
        }
        if let Some(origin) = Origin::of(from) {
            origins.insert(weight.address(), origin);
        }
    }

    /// Forgets all weights in a range of memory.
    pub fn forget(&self, base: usize, size: u64) {
        let end = base.saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
        self.origins.lock().unwrap_or_else(PoisonError::into_inner).retain(|at, _| !(base..end).contains(at));
    }

    /// Fills `to` with the bytes of the file's layout, from `offset` on: by undoing the layout, else from the file.
    pub fn read(&self, weight: &Weight, offset: usize, to: &mut [u8]) -> Result<(), String> {
        if offset.checked_add(to.len()).is_none_or(|end| end > weight.nbytes()) {
            return Err(format!("bytes {offset} to {} of {}", offset.saturating_add(to.len()), weight.nbytes()));
        }
        if let Some(bytes) = undo(weight) {
            to.copy_from_slice(&bytes[offset..offset + to.len()]);
            return Ok(());
        }
        let origin = self.origins.lock().unwrap_or_else(PoisonError::into_inner).get(&weight.address()).cloned();
        let origin = origin.ok_or("its layout cannot be undone and it was not loaded from a mapped file")?;
        origin.read(offset as u64, to).map_err(|e| format!("its layout cannot be undone, and {e}"))
    }
}

/// The group sizes that divide the weight's rows.
fn groups(weight: &Weight) -> impl Iterator<Item = i64> {
    let rows = weight.rows();
    GROUPS.into_iter().filter(move |g| rows % g == 0)
}

/// The bytes of the file's layout, checked by repacking them again; `None` when the layout is no rearrangement.
fn undo(weight: &Weight) -> Option<Vec<u8>> {
    let (rows, group) = groups(weight).find_map(|g| {
        Rearrangement::learn(weight.row_bytes(g), |bytes| weight.repack(g, bytes)).map(|learned| (g, learned))
    })?;
    let plain: Vec<u8> = weight.repacked().chunks_exact(weight.row_bytes(rows)).flat_map(|c| group.undo(c)).collect();
    (weight.repack(weight.rows(), &plain)? == weight.repacked()).then_some(plain)
}
