//! Edits a message tree: removes and inserts bytes, and adjusts the lengths of all enclosing messages.
//! Everything else stays unchanged, including the spelling of lengths.

use crate::fields::varint_bytes;
use crate::tensor::Range;
use crate::walk::Frame;
use apr_sdk::{Error, Result};

/// A stretch of an edited file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Bytes of the file that is edited.
    Keep(Range),
    /// Other bytes.
    Bytes(Vec<u8>),
    /// A tensor's payload.
    Payload {
        /// The tensor's number in the model.
        tensor: usize,
        /// Its length in bytes.
        len: u64,
    },
}

impl Segment {
    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Segment::Keep((start, end)) => end - start,
            Segment::Bytes(bytes) => bytes.len() as u64,
            Segment::Payload { len, .. } => *len,
        }
    }
}

/// One edit. Of those at one offset the ones that cut nothing come first, each kind in the order in which it was made.
#[derive(Clone, Debug)]
pub struct Edit {
    /// Where.
    pub at: u64,
    /// How many bytes are cut there.
    pub cut: u64,
    /// What is put there.
    pub put: Vec<Segment>,
    /// The innermost message around that place; `None` for the file itself.
    pub frame: Option<usize>,
}

impl Edit {
    /// Removes a range of bytes.
    pub fn cut((start, end): Range, frame: Option<usize>) -> Edit {
        Edit { at: start, cut: end - start, put: Vec::new(), frame }
    }

    /// Puts bytes somewhere.
    pub fn put(at: u64, bytes: Vec<u8>, frame: Option<usize>) -> Edit {
        Edit { at, cut: 0, put: vec![Segment::Bytes(bytes)], frame }
    }
}

/// Carries out edits on a file of `file_len` bytes whose messages are `frames`.
///
/// # Errors
/// Unsupported if a length passes 2^63; Plugin for edits that overlap.
pub fn apply(frames: &[Frame], file_len: u64, mut edits: Vec<Edit>) -> Result<Vec<Segment>> {
    edits.extend(lengths(frames, &edits)?);
    edits.sort_by_key(|edit| (edit.at, edit.cut > 0));
    let mut out = Vec::new();
    let mut at = 0;
    for edit in edits {
        if edit.at < at || edit.at + edit.cut > file_len {
            return Err(Error::plugin(format!("an edit at {} overlaps the previous one", edit.at)));
        }
        push(&mut out, Segment::Keep((at, edit.at)));
        edit.put.into_iter().for_each(|segment| push(&mut out, segment));
        at = edit.at + edit.cut;
    }
    push(&mut out, Segment::Keep((at, file_len)));
    Ok(out)
}

/// Appends a segment, joined with the last where that is possible.
fn push(out: &mut Vec<Segment>, segment: Segment) {
    match (out.last_mut(), segment) {
        (_, Segment::Keep((start, end))) if start == end => {}
        (_, Segment::Bytes(bytes)) if bytes.is_empty() => {}
        (Some(Segment::Keep(last)), Segment::Keep(more)) if last.1 == more.0 => last.1 = more.1,
        (Some(Segment::Bytes(last)), Segment::Bytes(more)) => last.extend(more),
        (_, segment) => out.push(segment),
    }
}

/// The lengths that change because of `edits`, as edits themselves.
fn lengths(frames: &[Frame], edits: &[Edit]) -> Result<Vec<Edit>> {
    let mut grown = vec![0i128; frames.len()];
    for edit in edits {
        if let Some(slot) = edit.frame.and_then(|frame| grown.get_mut(frame)) {
            let put: i128 = edit.put.iter().map(|segment| i128::from(segment.len())).sum();
            *slot += put - i128::from(edit.cut);
        }
    }
    let mut changed = Vec::new();
    // A frame stands behind the one around it, so that going backwards each is complete before it counts for that one.
    for (number, frame) in frames.iter().enumerate().rev() {
        if grown[number] == 0 {
            continue;
        }
        let len = i128::from(frame.end - frame.start) + grown[number];
        let len = u64::try_from(len).ok().filter(|&len| len <= i64::MAX as u64);
        let len = len.ok_or_else(|| Error::unsupported("a message would exceed 2^63 bytes"))?;
        let (bytes, old) = (varint_bytes(len), frame.start - frame.len_at);
        if let Some(parent) = frame.parent {
            grown[parent] += grown[number] + bytes.len() as i128 - i128::from(old);
        }
        changed.push(Edit {
            at: frame.len_at,
            cut: old,
            put: vec![Segment::Bytes(bytes)],
            frame: frame.parent,
        });
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field 7 of 4 bytes, in which field 5 of 2 bytes lies: 3a 04 2a 02 xx xx.
    const FRAMES: [Frame; 2] = [
        Frame { parent: None, len_at: 1, start: 2, end: 6 },
        Frame { parent: Some(0), len_at: 3, start: 4, end: 6 },
    ];

    #[test]
    fn lengths_follow_and_may_become_longer() {
        let edit = Edit::put(6, vec![9; 200], Some(1));
        let out = apply(&FRAMES, 6, vec![edit]).unwrap();
        let keep = |start, end| Segment::Keep((start, end));
        let lens = |n: u64| Segment::Bytes(varint_bytes(n));
        assert_eq!(
            out,
            [keep(0, 1), lens(205), keep(2, 3), lens(202), keep(4, 6), Segment::Bytes(vec![9; 200])]
        );
        assert_eq!(apply(&FRAMES, 6, Vec::new()).unwrap(), [keep(0, 6)]);
        let same = Edit { at: 4, cut: 2, put: vec![Segment::Payload { tensor: 0, len: 2 }], frame: Some(1) };
        assert_eq!(apply(&FRAMES, 6, vec![same]).unwrap().len(), 2);
    }

    #[test]
    fn rejects_edits_that_overlap() {
        let edits = vec![Edit::cut((4, 6), Some(1)), Edit::cut((5, 6), Some(1))];
        assert!(apply(&FRAMES, 6, edits).is_err());
    }
}
