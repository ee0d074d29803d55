//! Collects a writer's layout: files made of segments at known offsets.

use crate::open::OpenedModel;
use apr_sdk::{
    Budget, Bytes, CrcForm, Digest, Encoding, Error, Extent, LayoutSink, Limits, Model, PartRequest,
    PatchSink, Result, escape,
};
use std::collections::{HashMap, HashSet};

/// What fills a stretch of an output file.
#[derive(Clone, Debug)]
pub enum Segment {
    /// Bytes as they are.
    Inline(Vec<u8>),
    /// Bytes of the source, copied by the pipeline.
    Copy(Extent),
    /// A tensor's payload, raw.
    Payload {
        /// The tensor's number in the planned model.
        tensor: usize,
    },
    /// Zeros.
    Zeros,
    /// Filled after the payload.
    Hole {
        /// Its number.
        id: u32,
    },
}

/// A segment at its place.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// What it is.
    pub segment: Segment,
}

/// One output file.
#[derive(Clone, Debug, Default)]
pub struct OutputFile {
    /// Its name relative to the output folder.
    pub name: String,
    /// Its segments, in the order of bytes.
    pub segments: Vec<Placed>,
    /// Its length in bytes, without what `finish` appends.
    pub len: u64,
}

/// A whole layout.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// The files, in the writer's order.
    pub files: Vec<OutputFile>,
    /// The number of the file that is published last.
    pub entry: usize,
    /// Whether the writer wants CRC-32s.
    pub wants_crc32: bool,
    /// What the writer had to say.
    pub notes: Vec<String>,
    /// Where each hole lies: file, offset, length.
    holes: HashMap<u32, (usize, u64, u64)>,
}

impl Layout {
    /// Bytes of all files; u64's greatest for more than it can say.
    pub fn total(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.len))
    }

    /// Where hole `id` lies: file, offset, length.
    pub fn hole(&self, id: u32) -> Option<(usize, u64, u64)> {
        self.holes.get(&id).copied()
    }
}

/// The host's [`LayoutSink`].
pub struct Collector<'a> {
    opened: &'a OpenedModel,
    model: &'a Model,
    budget: Budget,
    layout: Layout,
    names: HashSet<String>,
}

/// The most bytes of one segment list entry kept inline in a row; neighbours are joined.
const JOINED: usize = 1 << 20;

impl<'a> Collector<'a> {
    /// A collector for `model`, whose bytes lie in the files of `opened`.
    pub fn new(opened: &'a OpenedModel, model: &'a Model) -> Collector<'a> {
        // A writer may look at what the reader was allowed to hold: the header's bytes, sixteenfold.
        let budget = Budget::default();
        budget.earn(opened.header_bytes());
        model.byte_strings().for_each(|bytes| budget.earn(bytes.len()));
        Collector { opened, model, budget, layout: Layout::default(), names: HashSet::new() }
    }

    /// The layout, if every tensor has its place exactly once.
    ///
    /// # Errors
    /// Plugin for a tensor that the writer left out or placed twice, or a layout without files.
    pub fn finish(self) -> Result<Layout> {
        let mut places = vec![0u32; self.model.tensors.len()];
        for placed in self.layout.files.iter().flat_map(|f| &f.segments) {
            if let Segment::Payload { tensor } = placed.segment {
                places[tensor] += 1;
            }
        }
        if let Some(at) = places.iter().position(|&n| n != 1) {
            let message = format!("the writer placed this tensor {} times", places[at]);
            return Err(Error::plugin(message).tensor(&self.model.tensors[at].name));
        }
        if self.layout.files.is_empty() {
            return Err(Error::plugin("the writer made no file"));
        }
        Ok(self.layout)
    }

    fn current(&mut self) -> Result<&mut OutputFile> {
        self.layout
            .files
            .last_mut()
            .ok_or_else(|| Error::plugin("the writer pushed a segment before the first file"))
    }

    fn push(&mut self, len: u64, segment: Segment) -> Result<()> {
        let file = self.current()?;
        if len == 0 && !matches!(segment, Segment::Payload { .. } | Segment::Hole { .. }) {
            return Ok(());
        }
        let offset = file.len;
        file.len =
            offset.checked_add(len).ok_or_else(|| Error::unsupported("an output file passes 2^64 bytes"))?;
        if let (Segment::Inline(more), Some(Placed { len: last_len, segment: Segment::Inline(last), .. })) =
            (&segment, file.segments.last_mut())
            && last.len() < JOINED
        {
            last.extend_from_slice(more);
            *last_len += len;
            return Ok(());
        }
        file.segments.push(Placed { offset, len, segment });
        Ok(())
    }
}

impl LayoutSink for Collector<'_> {
    fn file(&mut self, name: &str) -> Result<()> {
        let inside = |piece: &str| !piece.is_empty() && piece != "." && piece != "..";
        if name.contains('\0') || name.contains('\\') || !name.split('/').all(inside) {
            return Err(Error::plugin(format!("the writer named a file `{}`", escape(name, 120))));
        }
        let limit = Limits::default().files as usize;
        if self.layout.files.len() >= limit {
            return Err(Error::unsupported(format!("the output would be more than {limit} files"))
                .hint("choose a larger --max-shard-size"));
        }
        if !self.names.insert(name.to_owned()) {
            return Err(Error::plugin(format!("the writer made the file `{}` twice", escape(name, 120))));
        }
        self.layout.files.push(OutputFile { name: name.to_owned(), ..OutputFile::default() });
        Ok(())
    }

    fn entry(&mut self) -> Result<()> {
        self.current()?;
        self.layout.entry = self.layout.files.len() - 1;
        Ok(())
    }

    fn inline(&mut self, bytes: &[u8]) -> Result<()> {
        self.push(bytes.len() as u64, Segment::Inline(bytes.to_vec()))
    }

    fn copy(&mut self, bytes: &Bytes) -> Result<()> {
        match bytes {
            Bytes::Inline(held) => self.inline(held),
            Bytes::Extent(extent) => self.push(extent.len, Segment::Copy(*extent)),
        }
    }

    fn payload(&mut self, tensor: u64, align: u64, encoding: Encoding) -> Result<()> {
        let number = usize::try_from(tensor).ok().filter(|&n| n < self.model.tensors.len());
        let number =
            number.ok_or_else(|| Error::plugin(format!("the writer placed tensor number {tensor}")))?;
        if !align.is_power_of_two() {
            return Err(Error::plugin(format!("the writer asked for an alignment of {align}")));
        }
        if encoding != Encoding::Raw {
            return Err(Error::unsupported("encoded payload is planned"));
        }
        self.pad_to(align)?;
        let len = self.model.tensors[number].payload_len()?;
        self.push(len, Segment::Payload { tensor: number })
    }

    fn pad_to(&mut self, n: u64) -> Result<()> {
        let at = self.current()?.len;
        if n == 0 {
            return Err(Error::plugin("the writer asked for padding to a multiple of 0"));
        }
        match at % n {
            0 => Ok(()),
            past => self.push(n - past, Segment::Zeros),
        }
    }

    fn hole(&mut self, id: u32, len: u64) -> Result<()> {
        if self.layout.hole(id).is_some() {
            return Err(Error::plugin(format!("the writer made hole {id} twice")));
        }
        self.push(len, Segment::Hole { id })?;
        let file = self.layout.files.len() - 1;
        self.layout.holes.insert(id, (file, self.layout.files[file].len - len, len));
        Ok(())
    }

    fn part(&mut self, part: PartRequest<'_>) -> Result<()> {
        Err(Error::unsupported(format!("writing a `{}` part of a folder format is planned", part.format)))
    }

    fn digest(&mut self, digest: Digest) -> Result<()> {
        match digest {
            Digest::Crc32 => self.layout.wants_crc32 = true,
            _ => return Err(Error::unsupported("this version computes CRC-32 only")),
        }
        Ok(())
    }

    fn position(&self) -> Option<u64> {
        self.layout.files.last().map(|f| f.len)
    }

    fn fetch(&mut self, bytes: &Bytes) -> Result<Bytes> {
        if matches!(bytes, Bytes::Extent(_)) {
            self.budget.charge(bytes.len())?;
        }
        self.opened.fetch(bytes)
    }

    fn note(&mut self, note: &str) {
        self.layout.notes.push(note.to_owned());
    }
}

/// A patch that waits for the bytes around it.
#[derive(Clone, Debug)]
pub enum Patch {
    /// Bytes for a hole.
    Fill {
        /// The hole.
        id: u32,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// A CRC-32 for a hole.
    Crc32 {
        /// The hole.
        id: u32,
        /// The file.
        file: usize,
        /// The range's begin.
        start: u64,
        /// The range's end.
        end: u64,
        /// How it is written.
        form: CrcForm,
    },
    /// Bytes at a file's end.
    Append {
        /// The file.
        file: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

/// The host's [`PatchSink`].
pub struct PatchCollector<'a> {
    layout: &'a Layout,
    patches: Vec<Patch>,
    filled: HashSet<u32>,
}

impl<'a> PatchCollector<'a> {
    /// A collector for the holes of `layout`.
    pub fn new(layout: &'a Layout) -> PatchCollector<'a> {
        PatchCollector { layout, patches: Vec::new(), filled: HashSet::new() }
    }

    /// Fails if a hole was left open.
    ///
    /// # Errors
    /// Plugin, with the hole's number.
    pub fn finish(self) -> Result<Vec<Patch>> {
        match self.layout.holes.keys().filter(|id| !self.filled.contains(id)).min() {
            Some(id) => Err(Error::plugin(format!("the writer left hole {id} open"))),
            None => Ok(self.patches),
        }
    }

    /// Notes that hole `id` is filled with `len` bytes.
    fn fills(&mut self, id: u32, len: u64) -> Result<()> {
        match self.layout.hole(id) {
            Some((_, _, hole)) if hole == len && self.filled.insert(id) => Ok(()),
            Some((_, _, hole)) => {
                Err(Error::plugin(format!("the writer fills hole {id} of {hole} bytes with {len}, or twice")))
            }
            None => Err(Error::plugin(format!("the writer fills hole {id}, which it never made"))),
        }
    }
}

impl PatchSink for PatchCollector<'_> {
    fn fill(&mut self, id: u32, bytes: &[u8]) -> Result<()> {
        self.fills(id, bytes.len() as u64)?;
        self.patches.push(Patch::Fill { id, bytes: bytes.to_vec() });
        Ok(())
    }

    fn fill_crc32(&mut self, id: u32, file: u32, start: u64, end: u64, form: CrcForm) -> Result<()> {
        self.fills(id, if form == CrcForm::Hex { 8 } else { 4 })?;
        let file = file as usize;
        let len = self.layout.files.get(file).map(|f| f.len);
        if start > end || len.is_none_or(|len| end > len) {
            return Err(Error::plugin(format!(
                "the writer asks for the CRC-32 of {start}..{end} of file {file}"
            )));
        }
        self.patches.push(Patch::Crc32 { id, file, start, end, form });
        Ok(())
    }

    fn append(&mut self, file: u32, bytes: &[u8]) -> Result<()> {
        let file = file as usize;
        if file >= self.layout.files.len() {
            return Err(Error::plugin(format!("the writer appends to file {file}, which it never made")));
        }
        self.patches.push(Patch::Append { file, bytes: bytes.to_vec() });
        Ok(())
    }
}
