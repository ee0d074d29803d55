//! The header spelling of the format's own library: the writer produces it, and the reader checks against it
//! whether a file's header must be kept verbatim.

use crate::header::{Entry, Header};
use crate::layout::{DTYPES, HEADER_ALIGN, METADATA};
use std::cmp::Ordering;
use std::io::{self, Write};

/// The order of tensors in a canonical file: by dtype, widest alignment first, then by name.
pub fn order(a: (usize, &str), b: (usize, &str)) -> Ordering {
    b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1))
}

/// Writes the header of `entries` and `metadata`, in the given order, without padding.
///
/// # Errors
/// Any error from `out`.
pub fn write_header<'a, W: Write>(
    out: &mut W,
    metadata: Option<&[(String, String)]>,
    entries: impl Iterator<Item = Entry<'a>>,
) -> io::Result<()> {
    let mut comma = "";
    out.write_all(b"{")?;
    if let Some(metadata) = metadata {
        write!(out, "\"{METADATA}\":{{")?;
        for (n, (key, value)) in metadata.iter().enumerate() {
            out.write_all(if n == 0 { b"" } else { b"," })?;
            serde_json::to_writer(&mut *out, key)?;
            out.write_all(b":")?;
            serde_json::to_writer(&mut *out, value)?;
        }
        out.write_all(b"}")?;
        comma = ",";
    }
    for entry in entries {
        out.write_all(comma.as_bytes())?;
        serde_json::to_writer(&mut *out, entry.name)?;
        out.write_all(b":{\"dtype\":\"")?;
        out.write_all(DTYPES[entry.rank].0.as_bytes())?;
        out.write_all(b"\",\"shape\":")?;
        serde_json::to_writer(&mut *out, entry.shape)?;
        out.write_all(b",\"data_offsets\":")?;
        serde_json::to_writer(&mut *out, &[entry.begin, entry.end])?;
        out.write_all(b"}")?;
        comma = ",";
    }
    out.write_all(b"}")
}

/// Appends spaces up to the next multiple of [`HEADER_ALIGN`].
pub fn pad(text: &mut Vec<u8>) {
    text.resize(text.len().next_multiple_of(HEADER_ALIGN), b' ');
}

/// Whether the writer would produce exactly this header from its contents.
pub fn is_canonical(header: &Header) -> bool {
    let mut before: Option<Entry<'_>> = None;
    for entry in header.entries() {
        let follows = before.is_none_or(|b| {
            order((b.rank, b.name), (entry.rank, entry.name)).is_lt() && b.end == entry.begin
        });
        if !follows {
            return false;
        }
        before = Some(entry);
    }
    let text = header.text().as_bytes();
    let mut left = Comparison { left: text };
    let same = write_header(&mut left, header.metadata(), header.entries()).is_ok();
    same && text.len().is_multiple_of(HEADER_ALIGN)
        && left.left.len() < HEADER_ALIGN
        && left.left.iter().all(|&byte| byte == b' ')
}

/// Compares what is written to it with the remaining text, and fails at the first difference.
pub struct Comparison<'a> {
    /// The text not yet compared.
    pub left: &'a [u8],
}

impl Write for Comparison<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.strip_prefix(bytes).ok_or(io::ErrorKind::InvalidData)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
