//! Checks the sections of a file against each other and against the file's length.

use crate::compression::Method;
use crate::index::Entry;
use crate::layout::{Footer, Header, INDEX_HEAD_LEN, MAGIC_END, VERSION, flags, tensor_flags};
use crate::metadata::Metadata;
use apr_sdk::{Bytes, Cursor, DType, Error, FileId, Limits, Result, Source, checked_payload_len, escape};
use std::collections::HashMap;

/// A tensor's entry, checked.
#[derive(Clone, Copy, Debug)]
pub struct CheckedEntry<'a> {
    /// The entry.
    pub entry: &'a Entry,
    /// Its element type.
    pub dtype: DType,
    /// Its compression.
    pub method: Option<Method>,
}

/// Refuses planned features, and notes oddities.
///
/// # Errors
/// Unsupported for encryption and the streaming layout.
pub fn check_flags(header: &Header, notes: &mut Vec<String>) -> Result<()> {
    for (flag, what) in [(flags::ENCRYPTED, "encryption"), (flags::STREAMING, "the streaming layout")] {
        if header.flags & flag != 0 {
            return Err(
                Error::unsupported(format!("the file uses {what}, which is not implemented yet")).at(8)
            );
        }
    }
    if header.flags & flags::ALIGNED_64 != 0 && header.flags & flags::ALIGNED_32 != 0 {
        notes.push("the header claims both 32- and 64-byte alignment: 64 was assumed".to_owned());
    }
    if header.flags & flags::SIGNED != 0 {
        notes.push("the file is signed; checking signatures is not implemented yet".to_owned());
    }
    notes.extend(undefined_in_header(header));
    if header.version_minor > VERSION.1 {
        let minor = header.version_minor;
        notes.push(format!(
            "the file has version 2.{minor}: features newer than 2.{} were ignored",
            VERSION.1
        ));
    }
    Ok(())
}

/// Says which undefined flags the header has.
pub fn undefined_in_header(header: &Header) -> Option<String> {
    let undefined = header.flags & !flags::DEFINED;
    (undefined != 0).then(|| format!("undefined flags {undefined:#x} in the header were ignored"))
}

/// Says how many tensors have undefined flags.
pub fn undefined_in_index(entries: &[Entry]) -> Option<String> {
    let odd = entries.iter().filter(|entry| entry.flags & !tensor_flags::DEFINED != 0).count();
    (odd > 0).then(|| format!("undefined flags of {odd} tensors were ignored"))
}

/// Says how many bytes of a file of `len` bytes follow the footer, which ends at `end`.
pub fn behind_footer(len: u64, end: u64) -> Option<String> {
    (len > end).then(|| format!("{} bytes after the footer were ignored", len - end))
}

/// Notes reserved bits that are set in the index.
pub fn note_odd(entries: &[Entry], reserved: u32, notes: &mut Vec<String>) {
    if reserved != 0 {
        notes.push(format!("the index's reserved word is {reserved:#x}, not 0"));
    }
    notes.extend(undefined_in_index(entries));
}

/// Checks that header, metadata, index and data follow one another inside the file.
///
/// # Errors
/// Malformed.
pub fn check_sections(header: &Header, len: u64) -> Result<()> {
    let sections = [
        ("metadata", 12, header.metadata_offset, u64::from(header.metadata_size)),
        ("index", 20, header.index_offset, u64::from(header.index_size)),
        ("data section", 28, header.data_offset, 0),
    ];
    let (mut before, mut end) = ("header", Header::LEN as u64);
    for (name, at, offset, size) in sections {
        let start = u64::from(offset);
        if start < end {
            let message = format!("the {name} starts at byte {start}, but the {before} ends at {end}");
            return Err(Error::malformed(message).at(at));
        }
        (before, end) = (name, start + size);
        if end > len {
            let message = format!(
                "the {name} ends at byte {end}, {} bytes past the end of the file ({len})",
                end - len
            );
            return Err(Error::malformed(message)
                .at(at)
                .hint("get the file again: it is truncated or corrupt"));
        }
    }
    if u64::from(header.data_offset) % header.alignment() != 0 {
        let message = format!(
            "the data section starts at byte {}, which is not a multiple of {}",
            header.data_offset,
            header.alignment()
        );
        return Err(Error::malformed(message).at(28));
    }
    Ok(())
}

/// Checks each entry, and that no two overlap; returns them by offset.
///
/// # Errors
/// Malformed; Unsupported for a dtype or a compression that this program does not know.
pub fn check_entries<'a>(
    entries: &'a [Entry],
    header: &Header,
    metadata: &Metadata,
) -> Result<Vec<CheckedEntry<'a>>> {
    let data = u64::from(header.data_offset);
    let mut sorted = Vec::with_capacity(entries.len());
    let mut next_at = u64::from(header.index_offset) + INDEX_HEAD_LEN;
    for entry in entries {
        let at = next_at;
        next_at += entry.len();
        // An error in the entry itself is reported at the entry, one about its data where that should be.
        let named = |e: Error| e.at(at).tensor(&entry.name);
        let place = data.saturating_add(entry.offset);
        let dtype = metadata.dtypes.dtype(entry.dtype).map_err(named)?;
        let need = checked_payload_len(dtype, &entry.dims).map_err(named)?;
        let method = Method::from_flags(entry.flags, dtype).map_err(named)?;
        check_len(entry, dtype, need, method).map_err(|e| named(e.at(place)))?;
        if entry.offset % header.alignment() != 0 {
            let message = format!("its offset {} is not a multiple of {}", entry.offset, header.alignment());
            return Err(named(Error::malformed(message).at(place)));
        }
        if place.checked_add(entry.size).is_none_or(|end| end > i64::MAX as u64) {
            return Err(named(Error::malformed("its data ends past 2^63").at(place)));
        }
        sorted.push(CheckedEntry { entry, dtype, method });
    }
    sorted.sort_unstable_by_key(|CheckedEntry { entry, .. }| {
        (entry.offset, entry.size != 0, entry.name.as_bytes())
    });
    let mut last: Option<&Entry> = None;
    for CheckedEntry { entry, .. } in sorted.iter().filter(|checked| checked.entry.size > 0) {
        if let Some(last) = last.filter(|last| last.offset + last.size > entry.offset) {
            let other = escape(&last.name, 120);
            return Err(Error::malformed(format!("its data overlaps that of `{other}`"))
                .at(data + entry.offset)
                .tensor(&entry.name));
        }
        last = Some(entry);
    }
    Ok(sorted)
}

/// Checks the lengths of a tensor, stored and decoded, against those that its shape requires.
fn check_len(entry: &Entry, dtype: DType, need: u64, method: Option<Method>) -> Result<()> {
    let Entry { size, raw_size, .. } = entry;
    let Some(method) = method else {
        if need != *size {
            let message =
                format!("{dtype} {:?} requires {need} bytes, but the index gives it {size}", entry.dims);
            return Err(Error::malformed(message));
        }
        if *raw_size != 0 && raw_size != size {
            let message =
                format!("an uncompressed tensor has a raw_size of {raw_size}, but a size of {size} bytes");
            return Err(Error::malformed(message));
        }
        return Ok(());
    };
    if need != *raw_size {
        let message =
            format!("{dtype} {:?} requires {need} bytes, but its raw_size is {raw_size}", entry.dims);
        return Err(Error::malformed(message));
    }
    let (least, most) = method.stored_bounds(need);
    if !(least..=most).contains(size) {
        let message = format!(
            "the index gives it {size} compressed bytes, but its {need} bytes take {least} to {most} once compressed"
        );
        return Err(Error::malformed(message));
    }
    Ok(())
}

/// Finds and checks the footer at the end implied by the index; returns its offset.
///
/// # Errors
/// Malformed; any error from reading.
pub fn check_end(
    source: &dyn Source,
    header: &Header,
    entries: &[Entry],
    sorted: &[CheckedEntry<'_>],
    len: u64,
    file: FileId,
    notes: &mut Vec<String>,
) -> Result<u64> {
    let data = u64::from(header.data_offset);
    let end = data + entries.iter().map(|entry| entry.offset + entry.size).max().unwrap_or_default();
    let need = end + Footer::LEN;
    if need > len {
        let is_cut = |checked: &&CheckedEntry<'_>| data + checked.entry.offset + checked.entry.size > len;
        let cut = sorted.iter().filter(is_cut).count();
        let first = sorted.iter().find(is_cut);
        let message = format!(
            "the file is truncated by {} bytes: it has {len}, but its index requires {need}",
            need - len
        );
        let hint = format!("download the file again; {cut} of {} tensors are affected", entries.len());
        let error = Error::malformed(message).at(len).hint(hint);
        return Err(first.map_or(error.clone(), |cut| error.tensor(&cut.entry.name)));
    }
    // The specification does not say whether the last tensor is padded; both are accepted.
    let padded = end.next_multiple_of(header.alignment());
    for at in [end, padded] {
        if at + Footer::LEN > len {
            continue;
        }
        let mut bytes = [0; 16];
        source.read_at(file, at, &mut bytes)?;
        let footer = Footer::from_bytes(bytes);
        if footer.magic_end != MAGIC_END {
            continue;
        }
        let implied = at + Footer::LEN;
        if footer.file_size != implied {
            let message = format!(
                "the footer states {} bytes for the file, but its index implies {implied}",
                footer.file_size
            );
            return Err(Error::malformed(message).at(at + 8));
        }
        notes.extend(behind_footer(len, implied));
        return Ok(at);
    }
    Err(Error::malformed(format!("no footer at byte {end}, where the data ends according to the index"))
        .at(end)
        .hint("get the file again: it is truncated or corrupt"))
}

/// Puts tensors that share an offset into the order given in the metadata.
///
/// # Errors
/// Malformed for anything but a list of names; LimitExceeded; any error from reading.
pub fn arrange(
    sorted: &mut [CheckedEntry<'_>],
    metadata: &Metadata,
    source: &dyn Source,
    limits: &Limits,
) -> Result<()> {
    let Some(order) = &metadata.order else { return Ok(()) };
    let text = match order {
        Bytes::Inline(held) => held.to_vec(),
        Bytes::Extent(extent) => {
            Cursor::with_end(source, extent.file, extent.offset, extent.offset + extent.len, limits)?
                .bytes(extent.len)?
        }
    };
    // A name and its entry in the map.
    limits.budget.charge(16 * text.len() as u64)?;
    let names: Vec<String> = serde_json::from_slice(&text)
        .map_err(|e| Error::malformed(format!("metadata key `order` is not a list of names: {e}")))?;
    let ranks: HashMap<&str, usize> =
        names.iter().enumerate().map(|(rank, name)| (name.as_str(), rank)).collect();
    sorted.sort_by_key(|CheckedEntry { entry, .. }| (entry.offset, ranks.get(entry.name.as_str()).copied()));
    Ok(())
}
