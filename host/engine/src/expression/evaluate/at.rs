//! Evaluates any part of an expression whose leaves can be read at any offset, without a plan for the rest.

use super::{Buffers, Evaluation, Read};
use crate::expression::{Expression, Granule};
use crate::registry::Registry;
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

    /// Fills `out` with the bytes at offset `at` of the result: whole granules of it.
    ///
    /// # Errors
    /// Any error from reading and the quantizers.
    pub fn fill_at(&self, (registry, read): (&Registry, Read<'_>), at: u64, out: &mut [u8]) -> Result<()> {
        let place = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let (mut start, end) = (0u64, at + out.len() as u64);
        for part in self.parts() {
            let len = part.byte_len()?;
            let (from, to) = (start.max(at), (start + len).min(end));
            let begin = start;
            start += len;
            if from >= to {
                continue;
            }
            let run = out.get_mut(place(from - at)..place(to - at)).unwrap_or_default();
            let (within, access) = (from - begin, part.access()?);
            if part.is_leaf() {
                access.fill(&read, within, run)?;
                continue;
            }
            let granule = Granule::of(part)?;
            let mut leaf = vec![0; place(granule.before(to - from))];
            access.fill(&read, granule.before(within), &mut leaf)?;
            let of = Evaluation::new(granule, registry, &leaf, within)?;
            part.evaluate(&of, &mut Buffers::default(), run)?;
        }
        Ok(())
    }
}
