//! A writer's layout: files made of segments at known offsets, with holes that patches fill in after the payload.

pub mod carries;
mod collector;
pub mod encoding;
mod headers;
mod part_layout;
mod patches;

use apr_sdk::{Digests, Extent, Result, Sum};
pub use collector::{Collector, TensorOrigin};
use encoding::Encoded;
pub use headers::headers;
pub use patches::{Patch, PatchCollector};
use std::collections::{HashMap, HashSet};

/// The content of a range of an output file.
#[derive(Clone, Debug)]
pub enum Segment {
    /// These bytes.
    Inline(Vec<u8>),
    /// Bytes of the source, copied by the pipeline.
    Copy(Extent),
    /// A tensor's payload.
    Payload {
        /// Index of the tensor in the planned model.
        tensor: usize,
        /// The encoding; `None` for raw payload.
        encoded: Option<Box<Encoded>>,
    },
    /// Zeros up to the next multiple.
    Pad {
        /// The alignment.
        to: u64,
    },
    /// Bytes to be filled in after the payload.
    Hole {
        /// The hole's id in the layout, which may differ from its writer's.
        id: u32,
    },
}

/// A segment with its place.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// The content.
    pub segment: Segment,
}

/// One output file.
#[derive(Clone, Debug, Default)]
pub struct OutputFile {
    /// Path relative to the output folder.
    pub name: String,
    /// The segments, in byte order.
    pub segments: Vec<Placed>,
    /// Length in bytes, excluding whatever `finish` appends.
    pub len: u64,
    /// Index of the first encoded payload's segment. Until that is written, its length, and the offsets of
    /// everything after it, are upper bounds; [`Layout::settle`] makes them exact.
    pub floats_from: Option<usize>,
}

impl OutputFile {
    /// Length up to the first encoded payload: what comes before it has its final place.
    pub fn fixed_len(&self) -> u64 {
        let first = self.floats_from.and_then(|first| self.segments.get(first));
        first.map_or(self.len, |placed| placed.offset)
    }

    /// The fewest bytes that the file can have: those that are not encoded.
    pub fn least_len(&self) -> u64 {
        let Some(first) = self.floats_from else { return self.len };
        let floating = self.segments.get(first..).unwrap_or_default();
        let raw = floating.iter().filter(|placed| {
            !matches!(placed.segment, Segment::Payload { encoded: Some(_), .. } | Segment::Pad { .. })
        });
        raw.fold(self.fixed_len(), |sum, placed| sum.saturating_add(placed.len))
    }
}

/// The complete answer of a writer.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// The files, in the writer's order.
    pub files: Vec<OutputFile>,
    /// Index of the entry file: the one that the model is opened by, published last.
    pub entry: usize,
    /// Index of the entry file, followed by those of the parts.
    pub entries: Vec<usize>,
    /// The digests that the writers asked for; all are CRC-32.
    pub digests: Vec<Sum>,
    /// Notes from the writer.
    pub notes: Vec<String>,
    /// Warnings from the writer.
    pub warnings: Vec<String>,
    /// The layout of each writer: the target's own first, then those of the parts.
    pub scopes: Vec<Scope>,
    /// The place of each hole: file, offset, length.
    pub(crate) holes: HashMap<u32, (usize, u64, u64)>,
    /// The next unused hole id.
    pub(crate) next_hole: u32,
}

/// The layout of one writer. Each writer numbers files, tensors and holes by itself.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The format's id, for a part; `None` for the target's own writer.
    pub format: Option<String>,
    /// Indices of its files in the layout.
    pub files: Vec<usize>,
    /// Indices of its tensors in the planned model; `None` for all.
    pub tensors: Option<Vec<usize>>,
    /// The ids of its holes in the layout, by the writer's own ids.
    pub holes: HashMap<u32, u32>,
}

impl Layout {
    /// Records that a writer asked for a digest.
    pub fn wants(&mut self, sum: Sum) {
        if !self.digests.contains(&sum) {
            self.digests.push(sum);
        }
    }

    /// The requested digests of some bytes; `crc32` is only called if there are any.
    ///
    /// # Errors
    /// Unsupported for a digest that is not a CRC-32.
    pub fn digested(&self, crc32: impl FnOnce() -> Option<u32>) -> Result<Digests> {
        let mut digests = Digests::default();
        let crc32 = if self.digests.is_empty() { None } else { crc32() };
        for (sum, crc32) in self.digests.iter().zip(std::iter::repeat(crc32)) {
            if let Some(crc32) = crc32 {
                digests.push(*sum, sum.of_crc32(crc32)?);
            }
        }
        Ok(digests)
    }

    /// Total size of all files in bytes; saturates.
    pub fn total(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.len))
    }

    /// The fewest bytes that all files can have; saturates.
    pub fn least_total(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.least_len()))
    }

    /// The places of tensor payloads in output order: file index, place, tensor index.
    pub fn payloads(&self) -> impl Iterator<Item = (usize, &Placed, usize)> {
        self.numbered_payloads().map(|(file, _, placed, tensor)| (file, placed, tensor))
    }

    /// Like [`Layout::payloads`], with the segment's index in its file after the file's.
    pub fn numbered_payloads(&self) -> impl Iterator<Item = (usize, usize, &Placed, usize)> {
        let placed = self.files.iter().enumerate().flat_map(|(file, of)| {
            of.segments.iter().enumerate().map(move |(segment, placed)| (file, segment, placed))
        });
        placed.filter_map(|(file, segment, placed)| match placed.segment {
            Segment::Payload { tensor, .. } => Some((file, segment, placed, tensor)),
            _ => None,
        })
    }

    /// The tensors whose payload is encoded or comes after encoded payload: they must be computed in output
    /// order.
    pub fn in_order(&self) -> HashSet<usize> {
        let payloads = self.numbered_payloads().filter(|(file, segment, ..)| {
            self.files[*file].floats_from.is_some_and(|first| first <= *segment)
        });
        payloads.map(|(.., tensor)| tensor).collect()
    }

    /// Bytes that the pipeline writes.
    pub fn payload_bytes(&self) -> u64 {
        let placed = self.files.iter().flat_map(|file| &file.segments);
        let moved = placed.filter(|p| matches!(p.segment, Segment::Payload { .. } | Segment::Copy(_)));
        moved.fold(0, |sum, placed| sum.saturating_add(placed.len))
    }

    /// Records the final offset and length of a file's segments, from its first encoded payload on.
    pub fn settle(&mut self, number: usize, places: &[(u64, u64)]) {
        let Some(file) = self.files.get_mut(number) else { return };
        let first = file.floats_from.unwrap_or(file.segments.len());
        for (placed, (offset, len)) in file.segments.iter_mut().skip(first).zip(places) {
            placed.offset = *offset;
            placed.len = *len;
            if let Segment::Hole { id } = placed.segment {
                self.holes.insert(id, (number, *offset, *len));
            }
        }
        file.len = places.last().map_or(file.len, |(offset, len)| offset + len);
    }

    /// The place of hole `id`: file, offset, length.
    pub fn hole(&self, id: u32) -> Option<(usize, u64, u64)> {
        self.holes.get(&id).copied()
    }
}
