//! Checks the sections of a file against each other and against the file's length.

use super::index::Entry;
use super::layout::{ALIGNMENT, FOOTER_LEN, Header, VERSION, flags};
use apr_sdk::{Error, FileId, Result, Source, escape};

/// Reads the header of file number `file`, which begins with the magic.
///
/// # Errors
/// Malformed if it is truncated or its checksum is wrong (E004); Unsupported for another version (E003), and for
/// encrypted tensors and those stored by columns; any error from reading.
pub fn header(source: &dyn Source, file: FileId, len: u64, notes: &mut Vec<String>) -> Result<Header> {
    if len < Header::LEN as u64 {
        let message = format!("the file has {len} bytes, but its header requires {}", Header::LEN);
        return Err(Error::malformed(message).at(len).hint("get the file again: it is truncated"));
    }
    let mut bytes = [0; Header::LEN];
    source.read_at(file, 0, &mut bytes)?;
    let header = Header::from_bytes(&bytes);
    let (major, minor) = header.version;
    if major != VERSION.0 {
        let message =
            format!("version {major}.{minor} of a file with a 64-byte header is not supported, only 2.0");
        return Err(Error::unsupported(message)
            .code("E003")
            .at(4)
            .hint("install a newer apr that can read it"));
    }
    let sum = Header::sum(&bytes);
    if sum != header.checksum {
        let stated = header.checksum;
        let message = format!("the CRC-32 of the header is {sum:08x}, but it states {stated:08x}");
        let error = Error::malformed(message).code("E004").at(Header::CHECKSUM_AT as u64);
        return Err(error.hint("get the file again: it is corrupt"));
    }
    if minor > VERSION.1 {
        notes.push(format!("the file has version 2.{minor}: features newer than 2.0 were ignored"));
    }
    check_flags(&header, notes)?;
    Ok(header)
}

fn check_flags(header: &Header, notes: &mut Vec<String>) -> Result<()> {
    const FLAGS_AT: u64 = 6;
    let has = |flag| header.flags & flag != 0;
    if has(flags::ENCRYPTED) {
        let message = "the file says that it is encrypted, and no released program encrypts this layout";
        let error = Error::unsupported(message).code("E003").at(FLAGS_AT);
        return Err(error.hint("decrypt it with the program that created it"));
    }
    if has(flags::COLUMN_MAJOR) {
        let message =
            "the tensors are stored by columns, which this layout forbids: their rows cannot be told";
        let error = Error::unsupported(message).code("E003").at(FLAGS_AT);
        return Err(error.hint("convert the original model again"));
    }
    if has(flags::SIGNED) {
        notes.push("the file is signed; its signature was not checked".to_owned());
    }
    if has(flags::SHARDED) {
        notes.push("this is one of several shards: only its own tensors are shown".to_owned());
    }
    let undefined = header.flags & !flags::DEFINED;
    if undefined != 0 {
        notes.push(format!("undefined flags {undefined:#x} in the header were ignored"));
    }
    Ok(())
}

/// The compression that the header claims.
fn compression(header: &Header) -> Option<&'static str> {
    [(flags::LZ4, "LZ4"), (flags::ZSTD, "zstd")]
        .into_iter()
        .find(|(flag, _)| header.flags & flag != 0)
        .map(|(_, name)| name)
}

/// Checks that header, metadata, index and data follow one another inside the file.
///
/// # Errors
/// Malformed.
pub fn check_order(header: &Header, len: u64) -> Result<()> {
    let sections = [
        ("metadata", 12, header.metadata_offset, u64::from(header.metadata_size)),
        ("index", 24, header.tensor_index_offset, 0),
        ("data section", 32, header.data_offset, 0),
    ];
    let (mut before, mut end) = ("header", Header::LEN as u64);
    for (name, at, start, size) in sections {
        if start < end {
            let message = format!("the {name} starts at byte {start}, but the {before} ends at {end}");
            return Err(Error::malformed(message).at(at));
        }
        (before, end) = (name, start.saturating_add(size));
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
    Ok(())
}

/// Checks each entry, and that no two overlap; returns them by offset.
///
/// # Errors
/// Malformed; Unsupported for compressed payload.
pub fn check_entries<'a>(
    entries: &'a [Entry],
    header: &Header,
    notes: &mut Vec<String>,
) -> Result<Vec<&'a Entry>> {
    let compression = compression(header);
    for entry in entries {
        let named = |e: Error| e.at(entry.at).tensor(&entry.name);
        let need = entry.stored.size(&entry.dims).map_err(named)?;
        let place = header.data_offset.saturating_add(entry.offset);
        if place.checked_add(entry.size).is_none_or(|end| end > i64::MAX as u64) {
            return Err(named(Error::malformed("its data ends past 2^63")));
        }
        if need == entry.size {
            continue;
        }
        let type_name = entry.stored.name();
        let message = format!(
            "{type_name} {:?} requires {need} bytes, but the index gives it {}",
            entry.dims, entry.size
        );
        let Some(method) = compression else { return Err(named(Error::malformed(message))) };
        let message = format!("its data is compressed with {method}: {message}");
        let error = Error::unsupported(message).code("E003");
        return Err(named(error.hint("write it without compression, with the program that created it")));
    }
    if let Some(method) = compression {
        notes.push(format!(
            "the header announces {method}, but every tensor has the size of uncompressed data, as the crate \
             apr-format writes it: read as such"
        ));
    }
    let cut = entries.iter().filter(|entry| entry.may_be_cut()).count();
    if cut > 0 {
        notes.push(format!("names are cut after 256 bytes when such files are written: {cut} may have been"));
    }
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_unstable_by_key(|entry| (entry.offset, entry.size != 0, entry.name.as_bytes()));
    let with_data = || sorted.iter().filter(|entry| entry.size > 0);
    if let Some((last, entry)) =
        with_data().zip(with_data().skip(1)).find(|(last, entry)| last.offset + last.size > entry.offset)
    {
        let other = escape(&last.name, 120);
        let error = Error::malformed(format!("its data overlaps that of `{other}`"));
        return Err(error.at(header.data_offset + entry.offset).tensor(&entry.name));
    }
    Ok(sorted)
}

/// The end of the data, filled up to a multiple of 64, and whether a footer follows it.
///
/// # Errors
/// Malformed if the file ends before.
pub fn check_end(
    header: &Header,
    sorted: &[&Entry],
    len: u64,
    notes: &mut Vec<String>,
) -> Result<(u64, bool)> {
    let ends = sorted.iter().map(|entry| entry.offset + entry.size.next_multiple_of(ALIGNMENT));
    let end = header.data_offset.saturating_add(ends.max().unwrap_or_default());
    if end > len || len - end > 0 && len - end < FOOTER_LEN {
        let need = if end > len { end } else { end + FOOTER_LEN };
        let message = format!(
            "the file is truncated by {} bytes: it has {len}, but its index requires {need}",
            need - len
        );
        let lost = |entry: &&&Entry| header.data_offset + entry.offset + entry.size > len;
        let cut = sorted.iter().filter(lost).count();
        let hint = format!("get the file again; {cut} of {} tensors are affected", sorted.len());
        let error = Error::malformed(message).at(len).hint(hint);
        let first = sorted.iter().find(lost);
        return Err(first.map_or(error.clone(), |entry| error.tensor(&entry.name)));
    }
    if len == end {
        notes.push("the file has no footer, and so no checksum that proves its weights".to_owned());
    } else if len - end > FOOTER_LEN {
        notes.push(format!("{} bytes after the footer were ignored", len - end - FOOTER_LEN));
    }
    Ok((end, len > end))
}
