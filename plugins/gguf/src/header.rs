//! The fixed part of the header: magic, version, byte order, counts.

use crate::layout::{COUNTS_AT, MAGIC, VERSION, Widths};
use apr_sdk::{Cursor, Endian, Error, Result};

/// The fixed part of the header, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Header {
    /// Format version, 1 to 3.
    pub version: u32,
    /// The byte order of every number in the file.
    pub endian: Endian,
    /// Number of tensors.
    pub n_tensors: usize,
    /// Number of keys.
    pub n_keys: usize,
}

impl Header {
    /// Reads the header at the cursor, leaving it at the first key and with the right byte order.
    ///
    /// # Errors
    /// Malformed without the magic, or for counts that the file cannot hold; Unsupported for an unknown version.
    pub fn read(cursor: &mut Cursor<'_>) -> Result<Header> {
        let mut magic = [0; 4];
        cursor.fill(&mut magic)?;
        if magic != MAGIC {
            return Err(cursor.error_at(0, "the file does not start with `GGUF`").code("E001"));
        }
        let word = cursor.u32()?;
        let (version, endian) = version_of(word);
        if !(1..=VERSION).contains(&version) {
            let message = format!("version {version} is not supported, only 1 to {VERSION}");
            return Err(cursor.place(Error::unsupported(message).code("E003"), MAGIC.len() as u64));
        }
        cursor.endian = endian;
        let widths = Widths::of(version);
        let n_tensors = length(cursor, widths)?;
        let n_keys = length(cursor, widths)?;
        let limits = cursor.limits();
        let n_tensors =
            cursor.count("the tensor count", COUNTS_AT, n_tensors, limits.tensors, widths.min_info)?;
        let keys_at = COUNTS_AT + widths.length;
        let n_keys = cursor.count("the key count", keys_at, n_keys, limits.metadata_keys, widths.min_key)?;
        Ok(Header { version, endian, n_tensors, n_keys })
    }

    /// The field sizes of this version.
    pub fn widths(&self) -> Widths {
        Widths::of(self.version)
    }

    /// Whether values in the file are in the SDK's wire form, so that they can be passed as extents.
    pub fn is_wire_form(&self) -> bool {
        self.version > 1 && self.endian == Endian::Little
    }
}

/// Splits the version word, read as little-endian, into version and byte order. Versions are far below 2^16.
pub fn version_of(word: u32) -> (u32, Endian) {
    if word & 0xffff == 0 { (word.swap_bytes(), Endian::Big) } else { (word, Endian::Little) }
}

/// Reads a count, a length or a dimension.
///
/// # Errors
/// Malformed at the end of the file.
pub fn length(cursor: &mut Cursor<'_>, widths: Widths) -> Result<u64> {
    if widths.length == 4 { cursor.u32().map(u64::from) } else { cursor.u64() }
}
