//! A payload that is encoded block by block: what is known of it before a byte is.

use crate::expression::TILE;
use apr_sdk::{Codec, Error, Result, Writer};

/// A block is encoded and decoded whole; none is read that is longer, raw or stored. A journal has four bytes for its length.
const LARGEST: u64 = 256 << 20;

/// How many times longer a block may become, and what its own header may take.
const GROWTH: (u64, u64) = (16, 64 << 10);

/// How a payload is encoded.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The method, and what it is told.
    pub codec: Codec,
    /// The tensor's number, as its own writer counts.
    pub own: u64,
    /// Its bytes before they are encoded.
    pub raw_len: u64,
    /// Raw bytes of a block; the last may be shorter.
    pub block_size: u64,
    /// Whether the writer is told how long each block became.
    pub lengths: bool,
    /// The most bytes that it can become.
    pub bound: u64,
    /// The most bytes of a block of the full size, and of a shorter last one.
    bounds: (u64, u64),
}

impl Encoded {
    /// Asks `writer` how long the blocks of its tensor of this number, which has so many raw bytes, may become.
    ///
    /// # Errors
    /// Plugin for blocks of no size or above 256 MiB, or a bound out of proportion; Unsupported if the whole passes
    /// 2^64 bytes; any error from the writer.
    pub fn new(
        writer: &dyn Writer,
        (own, raw_len): (u64, u64),
        codec: Codec,
        block_size: u64,
        lengths: bool,
    ) -> Result<Encoded> {
        if !(1..=LARGEST).contains(&block_size) {
            return Err(Error::plugin(format!("the writer asked for blocks of {block_size} bytes")));
        }
        let bound_of = |len: u64| match len {
            0 => Ok(0),
            len => {
                let bound = writer.encoded_bound(&codec, len)?;
                let most = (len * GROWTH.0 + GROWTH.1).min(LARGEST);
                if (1..=most).contains(&bound) {
                    return Ok(bound);
                }
                Err(Error::plugin(format!(
                    "the writer says that {len} bytes may become {bound} when encoded"
                )))
            }
        };
        let (n_full, last) = (raw_len / block_size, raw_len % block_size);
        let full = if n_full > 0 { bound_of(block_size)? } else { 0 };
        let bounds = (full, bound_of(last)?);
        let bound = full.checked_mul(n_full).and_then(|all| all.checked_add(bounds.1));
        let bound = bound.ok_or_else(|| Error::unsupported("an encoded payload may pass 2^64 bytes"))?;
        Ok(Encoded { codec, own, raw_len, block_size, lengths, bound, bounds })
    }

    /// The most bytes that a block of so many raw bytes can become.
    pub fn bound_of(&self, raw: u64) -> u64 {
        if raw == self.block_size { self.bounds.0 } else { self.bounds.1 }
    }

    /// Raw bytes of a unit of work: whole blocks, a tile or more.
    pub fn unit_len(&self) -> u64 {
        TILE.div_ceil(self.block_size) * self.block_size
    }

    /// The most memory that a thread needs for it, in bytes: two units wait for their turn, raw or encoded, and one is
    /// being encoded.
    pub fn memory(&self) -> u64 {
        let unit = self.unit_len().min(self.raw_len);
        3 * unit.max((unit.div_ceil(self.block_size) * self.bounds.0).max(self.bounds.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::{CheckedModel, LayoutRequest, LayoutSink};

    /// A writer whose blocks grow by a number of bytes, which is its codec.
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
        Encoded::new(&Growing, (0, raw_len), codec.into(), block_size, false)
    }

    #[test]
    fn the_bound_is_that_of_all_blocks() {
        assert_eq!(of(10, 1, 4).unwrap().bound, 4 + 1 + 4 + 1 + 2 + 1);
        assert_eq!(of(8, 1, 4).unwrap().bound, 10);
        assert_eq!(of(3, 1, 4).unwrap().bound, 4);
        assert_eq!(of(0, 8, 4).unwrap().bound, 0);
        assert_eq!(of(u64::MAX, 1, 4).unwrap_err().message(), "an encoded payload may pass 2^64 bytes");
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
