//! The tensor records: reads them, locates their payload and checks them against each other.

use crate::header::{Header, length};
use crate::layout::{MAX_DIMS, align_up};
use crate::{metadata, types};
use apr_sdk::{Cursor, DType, Error, Result, checked_payload_len, escape};
use std::ops::Range;

/// A tensor record.
#[derive(Clone, Debug)]
pub struct Info {
    /// Offset of the record.
    pub at: u64,
    /// Offset of its offset field.
    offset_at: u64,
    /// The tensor's name, unique in the model.
    pub name: String,
    /// The tensor's dtype.
    pub dtype: DType,
    n_dims: usize,
    dims: [u64; MAX_DIMS],
    /// Offset of the payload: relative to the data as read, absolute after [`place`].
    pub offset: u64,
    /// Length of the payload in bytes.
    pub len: u64,
}

impl Info {
    /// Dimensions, outermost first: the reverse of their order in the file.
    pub fn shape(&self) -> &[u64] {
        &self.dims[..self.n_dims]
    }
}

/// The data section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// One past the last record.
    pub header_end: u64,
    /// Where the data begins; payload offsets are relative to it.
    pub start: u64,
    /// One past the last byte of the last payload.
    pub end: u64,
    /// Where a padded file would end.
    pub padded_end: u64,
    /// Whether each payload begins where the one before it ends, padded.
    pub is_in_order: bool,
    /// The padding between payloads, in the order of the records; complete if they are in order.
    pub gaps: Vec<Range<u64>>,
}

/// Reads the records at the cursor.
///
/// # Errors
/// Malformed, Unsupported or LimitExceeded, with the tensor's name.
pub fn read(cursor: &mut Cursor<'_>, header: &Header) -> Result<Vec<Info>> {
    let mut infos = Vec::new();
    for _ in 0..header.n_tensors {
        let at = cursor.position();
        let name = metadata::name(cursor, header, "tensor name")?;
        let info = record(cursor, header, at).map_err(|e| e.tensor(&name))?;
        cursor.limits().budget.charge(size_of::<Info>() as u64).map_err(|e| cursor.place(e, at))?;
        infos.push(Info { name, ..info });
    }
    Ok(infos)
}

fn record(cursor: &mut Cursor<'_>, header: &Header, at: u64) -> Result<Info> {
    let n_dims_at = cursor.position();
    let count = cursor.u32()?;
    let n_dims = usize::try_from(count).unwrap_or(usize::MAX);
    if n_dims > MAX_DIMS {
        let message = format!("it has {count} dimensions, but the format allows at most {MAX_DIMS}");
        return Err(cursor.error_at(n_dims_at, message));
    }
    let mut dims = [0; MAX_DIMS];
    for dim in dims[..n_dims].iter_mut().rev() {
        *dim = length(cursor, header.widths())?;
    }
    let type_at = cursor.position();
    let dtype = types::dtype_of(cursor.u32()?).map_err(|e| cursor.place(e, type_at))?;
    let len = checked_payload_len(dtype, &dims[..n_dims]).map_err(|e| cursor.place(e, n_dims_at))?;
    let offset_at = cursor.position();
    let offset = cursor.u64()?;
    Ok(Info { at, offset_at, name: String::new(), dtype, n_dims, dims, offset, len })
}

/// Turns the records' offsets into absolute ones; `cursor` is after the last record.
///
/// # Errors
/// Malformed for an offset that is not aligned, overflows, or makes two payloads overlap.
pub fn place(cursor: &Cursor<'_>, infos: &mut [Info], alignment: u64) -> Result<Data> {
    let header_end = cursor.position();
    let far = || cursor.error_at(header_end, "the data starts past 2^64");
    let start = align_up(header_end, alignment).ok_or_else(far)?;
    let mut end = start;
    let mut gaps = Vec::new();
    let (mut sorted, mut is_in_order) = (true, true);
    for info in infos.iter_mut() {
        let wrong = |message: String| cursor.error_at(info.offset_at, message).tensor(&info.name);
        if info.offset & (alignment - 1) != 0 {
            return Err(wrong(format!("its offset {} is not a multiple of {alignment}", info.offset)));
        }
        let at = start.checked_add(info.offset);
        let past = at.and_then(|at| at.checked_add(info.len));
        let (Some(at), Some(past)) = (at, past) else {
            return Err(wrong(format!("its offset {} exceeds 2^64", info.offset)));
        };
        info.offset = at;
        is_in_order &= align_up(end, alignment) == Some(at);
        if info.len > 0 {
            sorted &= at >= end;
            if end < at {
                cursor.limits().budget.charge(size_of::<Range<u64>>() as u64)?;
                gaps.push(end..at);
            }
            end = end.max(past);
        }
    }
    if !sorted {
        refuse_overlap(cursor, infos)?;
    }
    let padded_end = align_up(end, alignment).ok_or_else(far)?;
    Ok(Data { header_end, start, end, padded_end, is_in_order, gaps })
}

/// Offsets may be in any order, but no two payloads may overlap.
fn refuse_overlap(cursor: &Cursor<'_>, infos: &[Info]) -> Result<()> {
    let mut order: Vec<&Info> = infos.iter().filter(|info| info.len > 0).collect();
    order.sort_by_key(|info| info.offset);
    for pair in order.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        // Cannot overflow: `place` has computed this sum.
        let end = first.offset + first.len;
        if end > second.offset {
            return Err(overlap(cursor, first, second, end));
        }
    }
    Ok(())
}

fn overlap(cursor: &Cursor<'_>, first: &Info, second: &Info, end: u64) -> Error {
    let message = format!(
        "its data starts at byte {}, but that of `{}` ends at {end}: they overlap",
        second.offset,
        escape(&first.name, 120)
    );
    cursor.error_at(second.offset_at, message).tensor(&second.name)
}
