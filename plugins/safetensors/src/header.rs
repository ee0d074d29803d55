//! A parsed header: its tensors in text order, and the rule that they tile the data area exactly.

use crate::header_json::Parsed;
use crate::layout::{DTYPES, PREFIX_LEN};
use apr_sdk::{DType, Error, Limits, Result, escape};

/// A header, stored as its text and offsets into it, so that a million tensors cost few allocations.
#[derive(Debug)]
pub struct Header {
    text: String,
    parsed: Parsed,
}

/// A tensor in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The tensor's name, unescaped.
    pub name: &'a str,
    /// Index of the dtype in [`DTYPES`].
    pub rank: usize,
    /// Dimensions, outermost first.
    pub shape: &'a [u64],
    /// Start of its bytes in the data area.
    pub begin: u64,
    /// End of its bytes in the data area (exclusive).
    pub end: u64,
}

impl Entry<'_> {
    /// The tensor's dtype.
    pub fn dtype(&self) -> DType {
        DTYPES[self.rank].1
    }
}

impl Header {
    /// Parses the header's text, which is at offset 8 of its file.
    ///
    /// # Errors
    /// Malformed, Unsupported (an unknown dtype) or LimitExceeded, with the offset and, inside an entry, the
    /// tensor.
    pub fn parse(bytes: Vec<u8>, limits: &Limits) -> Result<Header> {
        let text = String::from_utf8(bytes).map_err(|e| {
            let bad = e.utf8_error().valid_up_to() as u64;
            Error::malformed("the header is not valid UTF-8").at(PREFIX_LEN + bad)
        })?;
        // The format's text wants no blank before it, its library takes any of JSON's.
        let from_first = text.trim_start_matches([' ', '\t', '\n', '\r']);
        match from_first.chars().next() {
            Some('{') => {}
            Some(first) => {
                let shown = escape(&first.to_string(), 1);
                let message = format!("the header starts with `{shown}`, expected `{{`");
                let blanks = (text.len() - from_first.len()) as u64;
                return Err(Error::malformed(message).at(PREFIX_LEN + blanks));
            }
            None => return Err(Error::malformed("the header is empty").at(0)),
        }
        let parsed = Parsed::parse(&text, limits)?;
        Ok(Header { text, parsed })
    }

    /// The text as in the file, including padding.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.parsed.records.len()
    }

    /// The entries of `__metadata__` in order; `None` if the header has no such key.
    pub fn metadata(&self) -> Option<&[(String, String)]> {
        self.parsed.metadata.as_deref()
    }

    /// Tensor number `n` in text order.
    pub fn entry(&self, n: usize) -> Entry<'_> {
        let record = &self.parsed.records[n];
        let source = if record.name_escaped { &self.parsed.unescaped } else { &self.text };
        Entry {
            name: &source[record.name.clone()],
            rank: record.rank,
            shape: &self.parsed.dims[record.dims.clone()],
            begin: record.begin,
            end: record.end,
        }
    }

    /// Offset of the name of tensor number `n` in the file; `None` if the name contains escapes.
    pub fn name_at(&self, n: usize) -> Option<u64> {
        let record = &self.parsed.records[n];
        (!record.name_escaped).then(|| PREFIX_LEN + record.name.start as u64)
    }

    /// The tensors in text order.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        (0..self.len()).map(|n| self.entry(n))
    }

    /// Indices of the tensors in data order; empty tensors precede one that begins at the same offset, and
    /// stay in text order.
    pub fn by_offset(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by_key(|&n| (self.parsed.records[n].begin, self.parsed.records[n].end));
        order
    }

    /// Checks that the tensors, in the order `by_offset`, tile the `data_len` bytes of the data area exactly.
    ///
    /// # Errors
    /// Malformed, naming the tensors on both sides and the offset in the file.
    pub fn check_tiling(&self, by_offset: &[usize], data_len: u64) -> Result<()> {
        let data_start = PREFIX_LEN + self.text.len() as u64;
        let place = |e: Error, at: u64| e.at(data_start.saturating_add(at));
        if let Some(&last) = by_offset.last() {
            let last = self.entry(last);
            if last.end > data_len {
                let message =
                    format!("its data ends at byte {} of the data area, which has only {data_len}", last.end);
                let error = Error::malformed(message).tensor(last.name);
                return Err(place(error.hint("get the file again: it is truncated"), last.begin));
            }
        }
        let mut before: Option<Entry<'_>> = None;
        for &n in by_offset {
            let entry = self.entry(n);
            let at = before.map_or(0, |b| b.end);
            if entry.begin != at {
                return Err(place(gap_or_overlap(before, entry, at), entry.begin.min(at)).tensor(entry.name));
            }
            before = Some(entry);
        }
        let end = before.map_or(0, |b| b.end);
        if end == data_len {
            return Ok(());
        }
        let after =
            before.map_or("the header".to_owned(), |b| format!("the last tensor `{}`", escape(b.name, 120)));
        let message = format!("{} bytes after {after} belong to no tensor", data_len - end);
        Err(place(Error::malformed(message), end))
    }
}

/// The error for a tensor that does not begin at `at`, where the one before it ends.
fn gap_or_overlap(before: Option<Entry<'_>>, entry: Entry<'_>, at: u64) -> Error {
    let begin = entry.begin;
    Error::malformed(match before {
        None => {
            format!(
                "its data starts at byte {begin} of the data area, but no tensor covers the bytes before it"
            )
        }
        Some(before) if begin > at => format!(
            "its data starts at byte {begin} of the data area, but `{}` before it ends at {at}: no tensor \
             covers the bytes between them",
            escape(before.name, 120)
        ),
        Some(before) => format!(
            "its data starts at byte {begin} of the data area, inside `{}` ({} to {at})",
            escape(before.name, 120),
            before.begin
        ),
    })
}
