//! Evaluates any part of an expression whose leaves can be read at any offset, without a plan for the rest.

use super::{Buffers, Evaluation, Read};
use crate::expression::{Expression, Granule};
use crate::registry::Registry;
use crate::values::usize_of;
use apr_sdk::Result;

impl Expression {
    /// Returns whether its bytes are available at any offset, as opposed to those of a stream.
    ///
    /// # Errors
    /// Unsupported for an unknown kind of payload.
    pub fn is_random(&self) -> Result<bool> {
        let mut is_random = !self.is_spooled();
        for part in self.parts() {
            is_random &= part.access()?.is_random();
        }
        Ok(is_random)
    }

    /// Fills `out` with the bytes at offset `at` of the result: whole granules of it. `read` is [`OpenedModel::read_at`].
    ///
    /// [`OpenedModel::read_at`]: crate::open::OpenedModel::read_at
    ///
    /// # Errors
    /// Any error from reading and the quantizers.
    pub fn fill_at(&self, registry: &Registry, read: Read<'_>, at: u64, out: &mut [u8]) -> Result<()> {
        let end = at + out.len() as u64;
        let mut part_end = 0u64;
        for part in self.parts() {
            let begin = part_end;
            part_end += part.byte_len()?;
            let from = begin.max(at);
            let to = part_end.min(end);
            if from >= to {
                continue;
            }
            let run = out.get_mut(usize_of(from - at)..usize_of(to - at)).unwrap_or_default();
            let within = from - begin;
            let access = part.access()?.at_any_offset(part.leaf().byte_len()?)?;
            if part.is_leaf() {
                access.fill(&read, within, run)?;
                continue;
            }
            let granule = Granule::of(part)?;
            let mut leaf = vec![0; usize_of(granule.before(to - from))];
            access.fill(&read, granule.before(within), &mut leaf)?;
            let of = Evaluation::new(granule, registry, &leaf, within)?;
            part.evaluate(&of, &mut Buffers::default(), run)?;
        }
        Ok(())
    }
}
