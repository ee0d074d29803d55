//! The tensors: a record and a payload each, in sequence to the end of the file. Payloads are skipped, never
//! read.

use crate::layout::{ALIGNMENT, MAX_DIMS, RECORD_HEAD};
use crate::types::{Generation, Stored, stored};
use apr_sdk::{Cursor, Error, Extent, Limits, Result, Source, checked_elements, checked_payload_len};

/// One tensor.
#[derive(Clone, Debug)]
pub struct Info {
    /// Where its record begins.
    pub at: u64,
    /// The tensor's name as its program writes it.
    pub name: String,
    /// How it is stored.
    pub stored: Stored,
    /// Its stored bytes.
    pub extent: Extent,
    n_dims: usize,
    dims: [u64; MAX_DIMS],
}

impl Info {
    /// Its dimensions, outermost first: the file lists them the other way round.
    pub fn shape(&self) -> &[u64] {
        self.dims.get(..self.n_dims).unwrap_or_default()
    }
}

/// Walks the tensors from `start` to the end of file 0. Those before an error stay in `infos`.
///
/// # Errors
/// Malformed, Unsupported or LimitExceeded, with offset and tensor.
pub fn read(
    source: &dyn Source,
    limits: &Limits,
    start: u64,
    generation: Generation,
    is_aligned: bool,
    infos: &mut Vec<Info>,
) -> Result<()> {
    let end = source.len(0)?;
    let mut at = start;
    while at < end {
        if infos.len() as u64 >= limits.tensors {
            let message = format!("the file has more than {} tensors", limits.tensors);
            return Err(Error::limit(message).at(at).in_file(source.name(0)));
        }
        let info = record(source, limits, (at, end), generation, is_aligned)?;
        at = info.extent.offset + info.extent.len;
        infos.push(info);
    }
    Ok(())
}

/// Reads the record at `at`. The cursors end with it: nothing of the payload behind it is fetched.
fn record(
    source: &dyn Source,
    limits: &Limits,
    (at, end): (u64, u64),
    generation: Generation,
    is_aligned: bool,
) -> Result<Info> {
    let mut cursor = Cursor::with_end(source, 0, at, end.min(at.saturating_add(RECORD_HEAD)), limits)?;
    let (n_dims, name_len, number) = (cursor.u32()?, u64::from(cursor.u32()?), cursor.u32()?);
    let count = usize::try_from(n_dims).ok().filter(|n| (1..=MAX_DIMS).contains(n));
    let n_dims = count.ok_or_else(|| {
        cursor.error_at(at, format!("a tensor has {n_dims} dimensions, expected 1 to {MAX_DIMS}"))
    })?;
    if name_len > limits.name_bytes {
        let message =
            format!("a tensor name has {name_len} bytes, more than the limit of {}", limits.name_bytes);
        return Err(cursor.place(Error::limit(message), at + 4));
    }
    if name_len == 0 {
        return Err(cursor.error_at(at + 4, "a tensor has no name"));
    }
    let dims_at = cursor.position();
    let record_end = dims_at + 4 * n_dims as u64 + name_len;
    if record_end > end {
        let message = format!("a tensor's record ends at byte {record_end}, but the file ends at {end}");
        return Err(cursor.error_at(at, message).hint("get the file again: it is truncated or corrupt"));
    }
    let mut cursor = Cursor::with_end(source, 0, dims_at, record_end, limits)?;
    let mut dims = [0; MAX_DIMS];
    for dim in dims.iter_mut().take(n_dims).rev() {
        *dim = u64::from(cursor.u32()?);
    }
    limits.budget.charge(size_of::<Info>() as u64).map_err(|e| cursor.place(e, at))?;
    let name = cursor.text("tensor name", name_len)?;
    let named = |error: Error, at: u64| cursor.place(error.tensor(&name), at);
    if let Some(dim) = dims.iter().take(n_dims).find(|&&dim| dim == 0 || dim > 0x7fff_ffff) {
        return Err(named(
            Error::malformed(format!("a dimension of size {}", (*dim).cast_signed())),
            dims_at,
        ));
    }
    let stored = stored(number, generation).map_err(|e| named(e, at + 8))?;
    let shape = dims.get(..n_dims).unwrap_or_default();
    let len = stored_len(stored, shape).map_err(|e| named(e, dims_at))?;
    let offset = if is_aligned { record_end.checked_next_multiple_of(ALIGNMENT) } else { Some(record_end) };
    let extent = offset.map(|offset| Extent::new(0, offset, len));
    match extent.filter(|extent| extent.end().is_some_and(|payload_end| payload_end <= end)) {
        Some(extent) => Ok(Info { at, name, stored, extent, n_dims, dims }),
        None => {
            let message = format!(
                "its payload of {len} bytes starts after byte {record_end}, but the file ends at {end}"
            );
            let error = Error::malformed(message).hint("get the file again: it is truncated or corrupt");
            Err(named(error, record_end))
        }
    }
}

/// Bytes of a tensor in the file.
fn stored_len(stored: Stored, shape: &[u64]) -> Result<u64> {
    let layout = match stored {
        Stored::Plain(dtype) => return checked_payload_len(dtype, shape),
        Stored::Old(layout) => layout,
    };
    let row = shape.last().copied().unwrap_or(1);
    if row % layout.elements != 0 {
        return Err(Error::malformed(format!(
            "rows of {row} elements are not a multiple of the {} block size {}",
            layout.name, layout.elements
        )));
    }
    (checked_elements(shape)? / layout.elements)
        .checked_mul(layout.bytes)
        .ok_or_else(|| Error::malformed(format!("shape {shape:?} has more than 2^64 bytes")))
}
