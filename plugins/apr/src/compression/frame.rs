//! Frames: a length, and data that is coded or stored as it is.

use apr_sdk::{Error, Result};

/// Bytes of a frame's length.
pub const HEAD_LEN: u64 = 4;
/// The bit that says that the data is stored as it is.
const STORED: u32 = 1 << 31;

/// What an encoder may add to data that it does not shrink: one byte in this many …
pub const SHARE: u64 = 128;
/// … and so many bytes a frame. LZ4 adds one in 255, zstd three in 128 KiB, and their own heads.
pub const EXCESS: u64 = 64;

/// The data of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its length, without this head.
    pub len: u32,
    /// True if it is not coded.
    pub is_stored: bool,
}

impl Head {
    /// The head of `len` bytes; `None` if they are too many.
    pub fn new(len: usize, is_stored: bool) -> Option<Head> {
        let len = u32::try_from(len).ok().filter(|len| len & STORED == 0)?;
        Some(Head { len, is_stored })
    }

    /// Decodes a head.
    pub fn from_bytes(bytes: [u8; 4]) -> Head {
        let word = u32::from_le_bytes(bytes);
        Head { len: word & !STORED, is_stored: word & STORED != 0 }
    }

    /// Encodes it.
    pub fn to_bytes(self) -> [u8; 4] {
        (self.len | if self.is_stored { STORED } else { 0 }).to_le_bytes()
    }

    /// Checks it against the raw length of its frame, before anything is allocated or read.
    ///
    /// # Errors
    /// Malformed for a length that no coder produces.
    pub fn check(self, raw_len: u64) -> Result<()> {
        let len = u64::from(self.len);
        if self.is_stored && len != raw_len {
            let message = format!("a frame stores {len} bytes as they are, but holds {raw_len}");
            return Err(Error::malformed(message));
        }
        if len == 0 || len > raw_len + raw_len / SHARE + EXCESS {
            let message = format!("a frame of {raw_len} bytes states {len} compressed ones");
            return Err(Error::malformed(message));
        }
        Ok(())
    }
}

/// Splits the next frame off the stored bytes of a block.
///
/// # Errors
/// Malformed for a frame that exceeds the block, or whose length [`Head::check`] refuses.
pub fn next<'b>(block: &mut &'b [u8], raw_len: u64) -> Result<(Head, &'b [u8])> {
    let cut = || Error::malformed("a frame extends past the end of its block");
    let (head, rest) = block.split_first_chunk::<4>().ok_or_else(cut)?;
    let head = Head::from_bytes(*head);
    head.check(raw_len)?;
    let (data, rest) = rest.split_at_checked(head.len as usize).ok_or_else(cut)?;
    *block = rest;
    Ok((head, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_no_coder_produces_are_refused() {
        for (len, is_stored, raw_len, is_fine) in [
            (1, false, 65536, true),
            (65536, true, 65536, true),
            (65600, false, 65536, true),
            (0, false, 65536, false),
            (0, true, 0, false),
            (65535, true, 65536, false),
            (1 << 20, false, 65536, false),
        ] {
            let head = Head { len, is_stored };
            assert_eq!(head.check(raw_len).is_ok(), is_fine, "{head:?} {raw_len}");
            assert_eq!(Head::from_bytes(head.to_bytes()), head);
        }
    }

    #[test]
    fn a_frame_ends_inside_its_block() {
        let head = Head::new(3, false).unwrap().to_bytes();
        let bytes = [&head[..], b"abcd"].concat();
        let mut rest = bytes.as_slice();
        assert_eq!(next(&mut rest, 10).unwrap().1, b"abc");
        assert_eq!(rest, b"d");
        for len in 0..bytes.len() - 1 {
            assert!(next(&mut &bytes[..len], 10).is_err(), "{len}");
        }
    }
}
