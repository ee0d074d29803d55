//! Payload that is encoded block by block: everything known about it before a byte is encoded.

use crate::expression::TILE;
use apr_sdk::{Codec, Error, Result, Writer};

/// Bytes of a block, raw or stored: blocks are encoded and decoded whole. A journal stores the length in four
/// bytes.
const LARGEST: u64 = 256 << 20;

/// The most that a block may grow: a factor, plus room for its own header.
const GROWTH: (u64, u64) = (16, 64 << 10);

/// The encoding of a payload.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The method and its options.
    pub codec: Codec,
    /// The tensor's number as its own writer counts.
    pub own: u64,
    /// Length of the payload before encoding.
    pub raw_len: u64,
    /// Raw bytes per block; the last one may be shorter.
    pub block_size: u64,
    /// True if the writer is told the encoded length of each block.
    pub lengths: bool,
    /// Upper bound for the encoded payload, in bytes.
    pub bound: u64,
    /// Upper bounds for a full block, and for a shorter last one.
    bounds: (u64, u64),
}

impl Encoded {
    /// Asks `writer` for the upper bounds of its tensor with this number and raw length.
    ///
    /// # Errors
    /// Plugin for blocks of size 0 or above 256 MiB, or an excessive bound; Unsupported if the total exceeds
    /// 2^64 bytes; any error from the writer.
    pub fn new(
        writer: &dyn Writer,
        own: u64,
        raw_len: u64,
        codec: Codec,
        block_size: u64,
        lengths: bool,
    ) -> Result<Encoded> {
        if !(1..=LARGEST).contains(&block_size) {
            return Err(Error::plugin(format!("the writer requested blocks of {block_size} bytes")));
        }
        let n_full = raw_len / block_size;
        let full = if n_full > 0 { bound_of(writer, &codec, block_size)? } else { 0 };
        let bounds = (full, bound_of(writer, &codec, raw_len % block_size)?);
        let bound = full.checked_mul(n_full).and_then(|all| all.checked_add(bounds.1));
        let bound = bound.ok_or_else(|| Error::unsupported("an encoded payload may exceed 2^64 bytes"))?;
        Ok(Encoded { codec, own, raw_len, block_size, lengths, bound, bounds })
    }

    /// Upper bound for a block of so many raw bytes.
    pub fn bound_of(&self, raw: u64) -> u64 {
        if raw == self.block_size { self.bounds.0 } else { self.bounds.1 }
    }

    /// Raw bytes of a unit of work: whole blocks, one tile or more.
    pub fn unit_len(&self) -> u64 {
        TILE.div_ceil(self.block_size) * self.block_size
    }

    /// Upper bound for a thread's memory, in bytes: two units wait for their turn, raw or encoded, while one
    /// is being encoded.
    pub fn memory(&self) -> u64 {
        let unit = self.unit_len().min(self.raw_len);
        3 * unit.max((unit.div_ceil(self.block_size) * self.bounds.0).max(self.bounds.1))
    }
}

fn bound_of(writer: &dyn Writer, codec: &Codec, len: u64) -> Result<u64> {
    if len == 0 {
        return Ok(0);
    }
    let bound = writer.encoded_bound(codec, len)?;
    let most = (len * GROWTH.0 + GROWTH.1).min(LARGEST);
    if (1..=most).contains(&bound) {
        return Ok(bound);
    }
    Err(Error::plugin(format!("the writer gives a bound of {bound} bytes for encoding {len} bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::{CheckedModel, LayoutRequest, LayoutSink};

    /// A writer whose blocks grow by a constant, given by the codec's number.
    struct Growing;

    impl Writer for Growing {
        fn layout(&self, _: &CheckedModel, _: &LayoutRequest, _: &mut dyn LayoutSink) -> Result<()> {
            Ok(())
        }

        fn encoded_bound(&self, codec: &Codec, raw_len: u64) -> Result<u64> {
            match codec.number {
                7 => Err(Error::unsupported("seven")),
                8 => Ok(u64::MAX),
                9 => Ok(0),
                more => Ok(raw_len + u64::from(more)),
            }
        }
    }

    fn of(raw_len: u64, codec: u32, block_size: u64) -> Result<Encoded> {
        Encoded::new(&Growing, 0, raw_len, codec.into(), block_size, false)
    }

    #[test]
    fn the_bound_is_that_of_all_blocks() {
        assert_eq!(of(10, 1, 4).unwrap().bound, 4 + 1 + 4 + 1 + 2 + 1);
        assert_eq!(of(8, 1, 4).unwrap().bound, 10);
        assert_eq!(of(3, 1, 4).unwrap().bound, 4);
        assert_eq!(of(0, 8, 4).unwrap().bound, 0);
        assert_eq!(of(u64::MAX, 1, 4).unwrap_err().message(), "an encoded payload may exceed 2^64 bytes");
    }

    #[test]
    fn what_is_out_of_proportion_is_refused() {
        for (codec, block_size) in [(1, 0), (1, LARGEST + 1), (7, 4), (8, 4), (9, 4)] {
            assert!(of(10, codec, block_size).is_err(), "{codec} {block_size}");
        }
    }

    #[test]
    fn a_unit_is_whole_blocks_and_a_tile_or_more() {
        for (block_size, unit) in [(1 << 16, 1 << 20), (3, (1 << 20) + 2), (5 << 20, 5 << 20)] {
            assert_eq!(of(1 << 30, 1, block_size).unwrap().unit_len(), unit);
        }
    }
}
