//! Encodes and decodes the tensor index.

use crate::layout::{HIDDEN, INDEX_HEAD_LEN};
use apr_sdk::{Cursor, Error, Result};

/// A tensor's entry in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// UTF-8, at most 65535 bytes.
    pub name: String,
    /// The dtype's number; see [`crate::dtypes`].
    pub dtype: u8,
    /// Dimensions, outermost first; at most 8, none for a scalar.
    pub dims: Vec<u64>,
    /// Offset of the payload in the data section.
    pub offset: u64,
    /// Length as stored, in bytes.
    pub size: u64,
    /// Length once decoded; 0 if it is not compressed.
    pub raw_size: u64,
    /// Flags; see [`crate::layout::tensor_flags`].
    pub flags: u32,
}

impl Entry {
    /// Bytes of an entry without its name and dimensions.
    pub const FIXED_LEN: u64 = 2 + 1 + 1 + 8 + 8 + 8 + 4;
    /// The most dimensions.
    pub const MAX_DIMS: usize = 8;

    /// The entry of an uncompressed tensor.
    pub fn raw(name: &str, dtype: u8, dims: &[u64], offset: u64, size: u64) -> Entry {
        Entry { name: name.to_owned(), dtype, dims: dims.to_vec(), offset, size, raw_size: 0, flags: 0 }
    }

    /// Length of the entry in the index.
    pub fn len(&self) -> u64 {
        Entry::FIXED_LEN + self.name.len() as u64 + 8 * self.dims.len() as u64
    }

    /// Whether it holds something too long for the metadata.
    pub fn is_hidden(&self) -> bool {
        self.name.starts_with(HIDDEN)
    }

    /// Reads the next entry.
    ///
    /// # Errors
    /// Malformed at the end of the index or for a name that is not UTF-8; Unsupported for more than 8 dimensions; any
    /// error from reading.
    pub fn read(cursor: &mut Cursor<'_>) -> Result<Entry> {
        let start = cursor.position();
        let name_len = u64::from(cursor.u16()?);
        let name = cursor.text("tensor name", name_len)?;
        let named = |e: Error| e.tensor(&name);
        let dtype = cursor.u8().map_err(named)?;
        let dims_at = cursor.position();
        let n_dims = usize::from(cursor.u8().map_err(named)?);
        if n_dims > Entry::MAX_DIMS {
            let message =
                format!("it has {n_dims} dimensions, but the format allows at most {}", Entry::MAX_DIMS);
            return Err(cursor.place(Error::unsupported(message), dims_at).tensor(name));
        }
        let mut dims = Vec::with_capacity(n_dims);
        for _ in 0..n_dims {
            dims.push(cursor.u64().map_err(named)?);
        }
        let offset = cursor.u64().map_err(named)?;
        let size = cursor.u64().map_err(named)?;
        let raw_size = cursor.u64().map_err(named)?;
        let flags = cursor.u32().map_err(named)?;
        // The record, its name and dimensions on the heap, and its position in the sorted order.
        cursor.limits().budget.charge(240).map_err(|e| cursor.place(e, start))?;
        Ok(Entry { name, dtype, dims, offset, size, raw_size, flags })
    }

    /// Writes what precedes offset and size.
    fn write_head(&self, out: &mut Vec<u8>) -> Result<()> {
        let name_len = u16::try_from(self.name.len()).map_err(|_| {
            Error::unsupported(format!(
                "its name has {} bytes, but the format allows at most 65535",
                self.name.len()
            ))
            .tensor(&self.name)
        })?;
        let n_dims = u8::try_from(self.dims.len()).ok().filter(|&n| usize::from(n) <= Entry::MAX_DIMS);
        let n_dims = n_dims.ok_or_else(|| {
            let message = format!("it has {} dimensions, but the format allows at most 8", self.dims.len());
            Error::unsupported(message).tensor(&self.name)
        })?;
        out.extend_from_slice(&name_len.to_le_bytes());
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(&[self.dtype, n_dims]);
        for dim in &self.dims {
            out.extend_from_slice(&dim.to_le_bytes());
        }
        Ok(())
    }
}

/// An entry to write.
#[derive(Clone, Debug)]
pub struct PlannedEntry {
    /// The entry.
    pub entry: Entry,
    /// The number of the tensor if offset and size are known only once it is written.
    pub floating: Option<u32>,
}

/// A run of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexPiece {
    /// Known bytes.
    Bytes(Vec<u8>),
    /// Offset and size of the tensor with this number: [`PLACE_LEN`] bytes.
    Place(u32),
}

/// Bytes of a tensor's offset and size.
pub const PLACE_LEN: u64 = 16;

/// Encodes the index of `entries`, sorting them by name.
///
/// # Errors
/// Unsupported for more tensors than 32 bits can count, or values that [`Entry`] cannot hold.
pub fn to_pieces(entries: &mut [PlannedEntry]) -> Result<Vec<IndexPiece>> {
    entries.sort_unstable_by(|a, b| a.entry.name.as_bytes().cmp(b.entry.name.as_bytes()));
    let count = u32::try_from(entries.len()).map_err(|_| {
        Error::unsupported(format!("{} tensors, but the format allows at most 2^32", entries.len()))
    })?;
    let mut pieces = Vec::new();
    let mut bytes = count.to_le_bytes().to_vec();
    bytes.extend_from_slice(&0u32.to_le_bytes());
    for PlannedEntry { entry, floating } in entries {
        entry.write_head(&mut bytes)?;
        match floating {
            None => bytes.extend([entry.offset, entry.size].into_iter().flat_map(u64::to_le_bytes)),
            Some(tensor) => {
                pieces.push(IndexPiece::Bytes(std::mem::take(&mut bytes)));
                pieces.push(IndexPiece::Place(*tensor));
            }
        }
        bytes.extend_from_slice(&entry.raw_size.to_le_bytes());
        bytes.extend_from_slice(&entry.flags.to_le_bytes());
    }
    pieces.push(IndexPiece::Bytes(bytes));
    Ok(pieces)
}

/// Length of the index of `entries`.
pub fn len_of(entries: &[PlannedEntry]) -> u64 {
    INDEX_HEAD_LEN + entries.iter().map(|planned| planned.entry.len()).sum::<u64>()
}

/// Reads the entries of an index that ends where `cursor` ends, and its reserved word.
///
/// # Errors
/// As [`Entry::read`]; LimitExceeded or Malformed for the count; Malformed if the names are not strictly
/// ascending or bytes are left over.
pub fn read(cursor: &mut Cursor<'_>) -> Result<(Vec<Entry>, u32)> {
    let start = cursor.position();
    if cursor.left() < INDEX_HEAD_LEN {
        return Err(cursor
            .error_at(start, format!("the index has {} bytes, but its header requires 8", cursor.left())));
    }
    let count = u64::from(cursor.u32()?);
    let reserved = cursor.u32()?;
    let limit = cursor.limits().tensors;
    let count = cursor.count("tensor count", start, count, limit, Entry::FIXED_LEN)?;
    let mut entries: Vec<Entry> = Vec::with_capacity(count.min(4096));
    for _ in 0..count {
        let at = cursor.position();
        let entry = Entry::read(cursor)?;
        match entries.last().map(|last| last.name.as_bytes().cmp(entry.name.as_bytes())) {
            None | Some(std::cmp::Ordering::Less) => entries.push(entry),
            Some(std::cmp::Ordering::Equal) => {
                return Err(cursor.error_at(at, "duplicate name in the index").tensor(entry.name));
            }
            Some(std::cmp::Ordering::Greater) => {
                let message = "the index is not sorted by name: this tensor must come before its predecessor";
                return Err(cursor.error_at(at, message).tensor(entry.name));
            }
        }
    }
    if cursor.left() > 0 {
        let message = format!("{} bytes of the index are left after its {count} tensors", cursor.left());
        return Err(cursor.error_at(cursor.position(), message));
    }
    Ok((entries, reserved))
}
