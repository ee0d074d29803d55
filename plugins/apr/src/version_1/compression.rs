//! Compression of the payload as a whole.

use super::frames::WINDOW;
use apr_sdk::{Error, Result};

/// The compression of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// None.
    None,
    /// One zstd frame, of level 3 or 19.
    Zstd,
    /// An LZ4 block behind its raw length as u32.
    Lz4,
}

/// Bytes of the raw length before an LZ4 block.
const LZ4_HEAD: usize = 4;

impl Compression {
    /// The compression with a number in the header.
    ///
    /// # Errors
    /// Unsupported for any other.
    pub fn from_number(number: u8) -> Result<Compression> {
        match number {
            0 => Ok(Compression::None),
            1 | 2 => Ok(Compression::Zstd),
            3 => Ok(Compression::Lz4),
            _ => {
                let message = format!("compression number {number} is not defined");
                Err(Error::unsupported(message).code("E003"))
            }
        }
    }

    /// Checks that so many stored bytes can become so many raw ones: what is only claimed costs no memory.
    ///
    /// # Errors
    /// Malformed.
    pub fn check(self, stored: u64, raw: u64) -> Result<()> {
        let most = match self {
            Compression::None => stored,
            // A block of one repeated byte takes 4 bytes, and has at most 128 KiB.
            Compression::Zstd => (stored / 4 + 1) << 17,
            // A byte of a length stands for at most 255 bytes.
            Compression::Lz4 => stored.saturating_mul(255),
        };
        if raw <= most && (self != Compression::None || raw == stored) {
            return Ok(());
        }
        Err(Error::malformed(format!("a payload of {stored} bytes cannot have {raw} uncompressed bytes")))
    }

    /// Decodes a payload to exactly the bytes in `out`.
    ///
    /// # Errors
    /// Malformed if it does not decode to that length.
    pub fn decode(self, stored: &[u8], out: &mut [u8]) -> Result<()> {
        let len = match self {
            Compression::None => {
                return Err(Error::plugin("the payload is not compressed"));
            }
            Compression::Zstd => zstd(stored, out)?,
            Compression::Lz4 => lz4(stored, out)?,
        };
        if len == out.len() {
            return Ok(());
        }
        let message =
            format!("the payload has {len} uncompressed bytes, but the header states {}", out.len());
        Err(Error::malformed(message))
    }
}

fn zstd(stored: &[u8], out: &mut [u8]) -> Result<usize> {
    let mut decoder = ruzstd::decoding::FrameDecoder::new();
    decoder.set_max_window_size(WINDOW);
    decoder.decode_all(stored, out).map_err(|e| Error::malformed(format!("the zstd payload is corrupt: {e}")))
}

fn lz4(stored: &[u8], out: &mut [u8]) -> Result<usize> {
    let (head, block) = stored
        .split_first_chunk::<LZ4_HEAD>()
        .ok_or_else(|| Error::malformed("the LZ4 payload has no length before its block"))?;
    let stated = u64::from(u32::from_le_bytes(*head));
    if stated != out.len() as u64 {
        let message = format!("the LZ4 payload states {stated} bytes, but the header {}", out.len());
        return Err(Error::malformed(message));
    }
    lz4_flex::block::decompress_into(block, out)
        .map_err(|e| Error::malformed(format!("the LZ4 payload is corrupt: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_no_payload_has_are_refused() {
        assert!(Compression::None.check(4, 4).is_ok());
        assert!(Compression::None.check(4, 3).is_err());
        assert!(Compression::Zstd.check(12, 1 << 30).is_err());
        assert!(Compression::Zstd.check(32 << 10, 1 << 30).is_ok());
        assert!(Compression::Lz4.check(1 << 20, 1 << 30).is_err());
    }

    #[test]
    fn lies_about_the_length_are_refused() {
        // A raw frame: magic, a descriptor for one segment of 3 bytes, the last block, raw.
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 3, 0x19, 0, 0, b'a', b'b', b'c'];
        let mut out = [0; 3];
        Compression::Zstd.decode(&frame, &mut out).unwrap();
        assert_eq!(&out, b"abc");
        assert!(Compression::Zstd.decode(&frame, &mut [0; 2]).is_err());
        let long = Compression::Zstd.decode(&frame, &mut [0; 4]).unwrap_err();
        assert!(long.message().contains("has 3 uncompressed bytes, but the header states 4"), "{long}");
        assert!(Compression::Zstd.decode(&frame[..11], &mut [0; 3]).is_err());
        let block = [3, 0, 0, 0, 0x30, b'a', b'b', b'c'];
        Compression::Lz4.decode(&block, &mut out).unwrap();
        assert!(Compression::Lz4.decode(&block, &mut [0; 2]).is_err());
        assert!(Compression::Lz4.decode(&block[..7], &mut out).is_err());
        assert!(Compression::Lz4.decode(&block[..3], &mut out).is_err());
        assert!(Compression::from_number(4).is_err());
    }
}
