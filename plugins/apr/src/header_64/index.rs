//! Reads the tensor index.

use super::dtypes::Stored;
use super::layout::MAX_NAME_LEN;
use apr_sdk::{Cursor, Error, Result};
use std::cmp::Ordering;

/// A tensor's entry in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Offset of the entry in the file.
    pub at: u64,
    /// At most 256 bytes when written.
    pub name: String,
    /// The storage of its elements.
    pub stored: Stored,
    /// Dimensions, outermost first; at most 8, none for a scalar.
    pub dims: Vec<u64>,
    /// Offset of the payload in the data section.
    pub offset: u64,
    /// Length of the payload in bytes.
    pub size: u64,
}

impl Entry {
    /// Bytes of an entry without its name and dimensions.
    pub const FIXED_LEN: u64 = 2 + 1 + 1 + 8 + 8;
    /// The most dimensions.
    pub const MAX_DIMS: u8 = 8;

    /// Reads the next entry.
    ///
    /// # Errors
    /// Malformed at the end of the index, for a name that is not UTF-8 and an undefined dtype; Unsupported for more
    /// than 8 dimensions; any error from reading.
    pub fn read(cursor: &mut Cursor<'_>) -> Result<Entry> {
        let at = cursor.position();
        let name_len = u64::from(cursor.u16()?);
        let name_at = cursor.position();
        let name = name(cursor.bytes(name_len)?).map_err(|e| cursor.place(e, name_at))?;
        let named = |e: Error| e.tensor(&name);
        let dtype_at = cursor.position();
        let number = cursor.u8().map_err(named)?;
        let stored = Stored::from_number(number).map_err(|e| cursor.place(e, dtype_at).tensor(&name))?;
        let dims_at = cursor.position();
        let n_dims = cursor.u8().map_err(named)?;
        if n_dims > Entry::MAX_DIMS {
            let message = format!("it has {n_dims} dimensions, but the format allows at most 8");
            return Err(cursor.place(Error::unsupported(message), dims_at).tensor(name));
        }
        let mut dims = Vec::with_capacity(n_dims.into());
        for _ in 0..n_dims {
            dims.push(cursor.u64().map_err(named)?);
        }
        let offset = cursor.u64().map_err(named)?;
        let size = cursor.u64().map_err(named)?;
        // The record, its name and dimensions on the heap, and the tensor that becomes of it.
        cursor.limits().budget.charge(280).map_err(|e| cursor.place(e, at))?;
        Ok(Entry { at, name, stored, dims, offset, size })
    }

    /// Whether the name was cut when the file was written.
    pub fn may_be_cut(&self) -> bool {
        self.name.len() >= MAX_NAME_LEN
    }
}

/// A name from its bytes. One that was cut inside a character ends with a replacement character, as the program that
/// cut it reads it.
fn name(bytes: Vec<u8>) -> Result<String> {
    match std::str::from_utf8(&bytes) {
        Err(error) if error.error_len().is_none() && bytes.len() == MAX_NAME_LEN => {
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
        Err(_) => Err(Error::malformed("the tensor name is not valid UTF-8")),
        Ok(name) => Ok(name.to_owned()),
    }
}

/// Reads `count` entries.
///
/// # Errors
/// As [`Entry::read`]; LimitExceeded or Malformed for the count; Malformed if names are not strictly ascending.
pub fn read(cursor: &mut Cursor<'_>, count: u32) -> Result<Vec<Entry>> {
    const COUNT_AT: u64 = 8;
    let limit = cursor.limits().tensors;
    let count = cursor.count("tensor count", COUNT_AT, count.into(), limit, Entry::FIXED_LEN)?;
    let mut entries: Vec<Entry> = Vec::with_capacity(count.min(4096));
    for _ in 0..count {
        let entry = Entry::read(cursor)?;
        match entries.last().map(|last| last.name.as_bytes().cmp(entry.name.as_bytes())) {
            None | Some(Ordering::Less) => entries.push(entry),
            Some(Ordering::Equal) => {
                let error = cursor.error_at(entry.at, "duplicate name in the index");
                return Err(match entry.may_be_cut() {
                    true => error
                        .hint("names were cut when the file was written: write it again with shorter ones"),
                    false => error,
                }
                .tensor(entry.name));
            }
            Some(Ordering::Greater) => {
                let message = "the index is not sorted by name: this tensor must come before its predecessor";
                return Err(cursor.error_at(entry.at, message).tensor(entry.name));
            }
        }
    }
    Ok(entries)
}
