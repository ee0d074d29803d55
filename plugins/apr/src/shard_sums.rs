//! Interprets a shard's checksum in the manifest. It should equal the one in the shard's own footer. Earlier
//! versions of apr included the footer, and a CRC-32 over bytes that end with their own CRC-32 is the same
//! for all bytes of that length.

use crate::layout::{Footer, MAGIC_END};
use apr_sdk::{Error, FileId, Result, Source};

/// The bytes that a checksum in a manifest covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The shard up to its footer, which has the same checksum.
    Shard,
    /// The shard including its footer: this proves the shard's length, but not which shard it is.
    Length,
    /// A whole file without a footer at its end, or the value is not a CRC-32.
    File,
}

/// The bytes that the checksum `stated` of a shard of `len` bytes covers.
///
/// # Errors
/// Malformed, E004, if it belongs to another shard; any error from reading.
pub fn over(source: &dyn Source, file: FileId, len: u64, stated: &str) -> Result<Over> {
    let digits = stated.len() == 8 && stated.bytes().all(|b| b.is_ascii_hexdigit());
    let stated = u32::from_str_radix(stated, 16).ok().filter(|_| digits);
    let (Some(stated), Some(at)) = (stated, len.checked_sub(Footer::LEN)) else { return Ok(Over::File) };
    let mut footer = [0; 16];
    source.read_at(file, at, &mut footer)?;
    let footer = Footer::from_bytes(footer);
    if footer.magic_end != MAGIC_END || footer.file_size != len {
        return Ok(Over::File);
    }
    if stated == footer.crc32 {
        return Ok(Over::Shard);
    }
    if stated == of_length(len) {
        return Ok(Over::Length);
    }
    let message = format!(
        "this is not the shard listed in the manifest: its CRC-32 is {:08x}, but the manifest states \
         {stated:08x}",
        footer.crc32
    );
    let error = Error::malformed(message).code("E004").at(at);
    Err(error.hint("get both the shard and the manifest of the same model again"))
}

/// The CRC-32 of every file of this length with a correct footer.
fn of_length(len: u64) -> u32 {
    // The CRC state after bytes and their CRC-32 equals that after no bytes and theirs, which is 0.
    let mut end = [0; 16];
    end[4..].copy_from_slice(&Footer::tail(len));
    crc32fast::hash(&end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_its_footer_every_file_of_a_length_has_the_same_sum() {
        for content in [&b"some weights"[..], b"other weight"] {
            let len = content.len() as u64 + Footer::LEN;
            let crc = crc32fast::hash(content).to_le_bytes();
            let file = [content, &crc, &Footer::tail(len)].concat();
            assert_eq!(crc32fast::hash(&file), of_length(len));
        }
    }
}
