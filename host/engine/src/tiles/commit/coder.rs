//! Encodes units of a payload: whole blocks, which are passed to the plugin one by one.

use crate::layout::encoding::Encoded;
use apr_sdk::{BlockAt, Error, Result, Writer};
use std::sync::Arc;

/// Encodes a tensor's payload.
pub struct Coder<'a> {
    /// The writer of the format, which encodes blocks.
    pub writer: Arc<dyn Writer>,
    /// The method, and the upper bounds agreed on.
    pub encoded: &'a Encoded,
}

impl Coder<'_> {
    /// Encodes the blocks of a unit that begins `at` bytes into the payload; returns their bytes,
    /// concatenated, and the length of each.
    ///
    /// # Errors
    /// Any error from the writer; Plugin if a block is empty or exceeds its bound.
    pub fn encode(&self, at: u64, raw: &[u8]) -> Result<(Vec<u8>, Box<[u32]>)> {
        let Encoded { codec, own, block_size, .. } = self.encoded;
        let size = usize::try_from(*block_size).unwrap_or(usize::MAX);
        let mut stored = Vec::new();
        let mut lengths = Vec::with_capacity(raw.len().div_ceil(size));
        for (block, piece) in (at / block_size..).zip(raw.chunks(size)) {
            let bound = self.encoded.bound_of(piece.len() as u64);
            let room = usize::try_from(bound).map_err(|_| Error::limit("a block does not fit in memory"))?;
            let begin = stored.len();
            stored.resize(begin + room, 0);
            let len =
                self.writer.encode(codec, BlockAt { tensor: *own, block }, piece, &mut stored[begin..])?;
            if !(1..=room).contains(&len) {
                let message = format!(
                    "the writer encoded block {block} to {len} bytes, more than its bound of {bound}"
                );
                return Err(Error::plugin(message));
            }
            stored.truncate(begin + len);
            lengths.push(u32::try_from(len).map_err(|_| Error::limit("a block does not fit in memory"))?);
        }
        Ok((stored, lengths.into()))
    }

    /// The number of blocks in a unit of so many raw bytes.
    pub fn n_blocks(&self, raw_len: u64) -> u64 {
        raw_len.div_ceil(self.encoded.block_size)
    }

    /// Upper bound for such a unit once encoded.
    pub fn bound(&self, raw_len: u64) -> u64 {
        let full = raw_len / self.encoded.block_size;
        let last = raw_len % self.encoded.block_size;
        let last = if last > 0 { self.encoded.bound_of(last) } else { 0 };
        full * self.encoded.bound_of(self.encoded.block_size) + last
    }
}
