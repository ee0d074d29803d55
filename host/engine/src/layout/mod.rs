//! Collects a writer's layout: files made of segments at known offsets.

mod checked;
pub mod described;
mod edits;
pub mod foretold;
mod headers;
mod laid_out;
pub mod op_lists;
mod opened;
pub mod part_layout;
mod patches;
pub mod plan_listing;
mod selected;
mod translated;
mod typed;

use crate::open::{GivenOption, OpenedModel};
use crate::plan::carries::Casting;
use crate::plan::encoded::Encoded;
use crate::registry::Registry;
use apr_sdk::{
    Budget, Bytes, CheckedModel, Digests, Encoding, Error, Extent, LayoutRequest, LayoutSink, Limits,
    PartRequest, Result, Sum, Writer, escape,
};
pub use headers::headers;
pub use laid_out::LaidOut;
pub use opened::Opened;
pub use patches::{Patch, PatchCollector};
pub use selected::{Output, Selected};
use std::collections::{HashMap, HashSet};
pub use translated::{Make, Translate, Translated};

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
        let floats =
            |file: usize, segment| self.files[file].floats_from.is_some_and(|first| first <= segment);
        let payloads = self.numbered_payloads().filter(|(file, segment, ..)| floats(*file, *segment));
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
            (placed.offset, placed.len) = (*offset, *len);
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

/// The host's [`LayoutSink`].
pub struct Collector<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) opened: &'a OpenedModel,
    /// The writer that pushes, and that is asked for upper bounds of encoded blocks.
    writer: &'a dyn Writer,
    pub(crate) model: &'a CheckedModel,
    pub(crate) request: &'a LayoutRequest,
    /// The options that the user gave, for the writers of parts.
    pub(crate) given: &'a [GivenOption],
    /// True to keep names even if a format needs another dialect.
    pub(crate) any_dialect: bool,
    /// The flags that would give tensors other types.
    pub(crate) casting: Casting,
    /// True if this is the layout of a part.
    pub(crate) is_part: bool,
    budget: Budget,
    pub(crate) layout: Layout,
    /// Names of files, and of their folders with a trailing slash.
    pub(crate) names: HashSet<String>,
    own: Scope,
    /// The file that the writer marked as the entry.
    entry: Option<usize>,
    /// True if the current file is the writer's own, so that segments belong to it.
    pub(crate) in_file: bool,
}

/// Bytes in one inline segment; shorter neighbours are joined up to this.
const JOINED: usize = 1 << 20;

impl<'a> Collector<'a> {
    /// A collector for what `writer` pushes about `model`, whose bytes are in the files of `opened`.
    pub fn new(
        registry: &'a Registry,
        opened: &'a OpenedModel,
        writer: &'a dyn Writer,
        model: &'a CheckedModel,
        request: &'a LayoutRequest,
    ) -> Collector<'a> {
        // A writer may read as much as the reader was allowed to hold: sixteen times the header's bytes.
        let budget = Budget::default();
        budget.earn(opened.header_bytes());
        model.byte_strings().for_each(|bytes| budget.earn(bytes.len()));
        Collector {
            registry,
            opened,
            writer,
            model,
            request,
            given: &[],
            any_dialect: false,
            casting: Casting::Plain,
            is_part: false,
            budget,
            layout: Layout::default(),
            names: HashSet::new(),
            own: Scope::default(),
            entry: None,
            in_file: false,
        }
    }

    /// Sets what parts need to know: the user's options, and whether names are kept whatever a format needs.
    pub fn asked(mut self, given: &'a [GivenOption], any_dialect: bool) -> Collector<'a> {
        (self.given, self.any_dialect) = (given, any_dialect);
        self
    }

    /// Sets which flags would give tensors other types, so that they can be suggested.
    pub fn casting(mut self, casting: Casting) -> Collector<'a> {
        self.casting = casting;
        self
    }

    /// Takes these settings from `outer`, for a part of it.
    pub(crate) fn inside(mut self, outer: &Collector<'_>) -> Collector<'a> {
        self.is_part = true;
        self.names.clone_from(&outer.names);
        self
    }

    /// Returns the layout, if every tensor was placed exactly once.
    ///
    /// # Errors
    /// Plugin for a tensor that the writer left out or placed twice, or a layout without files.
    pub fn finish(mut self) -> Result<Layout> {
        let mut places = vec![0u32; self.model.tensors.len()];
        for placed in self.layout.files.iter().flat_map(|f| &f.segments) {
            if let Segment::Payload { tensor, .. } = placed.segment {
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
        self.layout.entry = self.entry.or(self.own.files.first().copied()).unwrap_or(0);
        let entry = self.layout.entry;
        self.layout.entries.retain(|&of_part| of_part != entry);
        self.layout.entries.insert(0, entry);
        self.layout.scopes.insert(0, self.own);
        Ok(self.layout)
    }

    /// Reserves a file's name, unless it is taken by a file or a folder: names of companions come from the
    /// source, and may be anything.
    fn take_name(&mut self, name: &str) -> Result<()> {
        let refuse = |what: String| {
            let hint = "rename the companion file or part of the source that has this name";
            Err(Error::unsupported(what).hint(hint))
        };
        let shown = escape(name, 120);
        // Staging uses such names beside the files.
        if name.starts_with('.') && name.split('/').next().is_some_and(|first| first.contains(".apr-")) {
            return refuse(format!(
                "a file of the output cannot be called `{shown}`: apr uses such names itself"
            ));
        }
        if self.names.contains(name) {
            return refuse(format!("the output would have two files called `{shown}`"));
        }
        let folder = |at: usize| &name[..at];
        let folders: Vec<&str> = name.match_indices('/').map(|(at, _)| folder(at)).collect();
        // Folders are stored with a trailing slash.
        let is_folder = self.names.contains(&format!("{name}/"));
        if let Some(file) =
            folders.iter().find(|path| self.names.contains(**path)).copied().or(is_folder.then_some(name))
        {
            let file = escape(file, 120);
            return refuse(format!("`{file}` would be a file of the output, and a folder of others"));
        }
        self.names.extend(folders.iter().map(|path| format!("{path}/")));
        self.names.insert(name.to_owned());
        Ok(())
    }

    fn current(&mut self) -> Result<&mut OutputFile> {
        self.layout
            .files
            .last_mut()
            .filter(|_| self.in_file)
            .ok_or_else(|| Error::plugin("the writer pushed a segment before the first file"))
    }

    fn push(&mut self, len: u64, segment: Segment) -> Result<()> {
        let file = self.current()?;
        let is_kept = match segment {
            Segment::Payload { .. } | Segment::Hole { .. } => true,
            // If the offset can still change, an empty pad may not stay empty.
            Segment::Pad { .. } => len > 0 || file.floats_from.is_some(),
            _ => len > 0,
        };
        if !is_kept {
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
        if matches!(segment, Segment::Payload { encoded: Some(_), .. }) {
            file.floats_from.get_or_insert(file.segments.len());
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
        self.take_name(name)?;
        self.own.files.push(self.layout.files.len());
        self.layout.files.push(OutputFile { name: name.to_owned(), ..OutputFile::default() });
        self.in_file = true;
        Ok(())
    }

    fn entry(&mut self) -> Result<()> {
        self.current()?;
        self.entry = Some(self.layout.files.len() - 1);
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
        let raw_len = self.model.tensors[number].payload_len()?;
        let encoded = match encoding {
            Encoding::Raw => None,
            Encoding::Encoded { codec, block_size, lengths } => {
                let encoded = Encoded::new(self.writer, (tensor, raw_len), codec, block_size, lengths);
                let encoded = encoded.map_err(|e| e.tensor(&self.model.tensors[number].name))?;
                Some(Box::new(encoded))
            }
            _ => return Err(Error::unsupported("this program does not know such an encoding")),
        };
        self.pad_to(align)?;
        let len = encoded.as_ref().map_or(raw_len, |encoded| encoded.bound);
        self.push(len, Segment::Payload { tensor: number, encoded })
    }

    fn pad_to(&mut self, n: u64) -> Result<()> {
        let at = self.current()?.len;
        if n == 0 {
            return Err(Error::plugin("the writer asked for padding to a multiple of 0"));
        }
        // Any offset is a multiple of 1.
        if n == 1 { Ok(()) } else { self.push((n - at % n) % n, Segment::Pad { to: n }) }
    }

    fn hole(&mut self, id: u32, len: u64) -> Result<()> {
        let number = self.layout.next_hole;
        if self.own.holes.contains_key(&id) {
            return Err(Error::plugin(format!("the writer made hole {id} twice")));
        }
        self.push(len, Segment::Hole { id: number })?;
        self.own.holes.insert(id, number);
        self.layout.next_hole =
            number.checked_add(1).ok_or_else(|| Error::plugin("the writer made 2^32 holes"))?;
        let file = self.layout.files.len() - 1;
        self.layout.holes.insert(number, (file, self.layout.files[file].len - len, len));
        Ok(())
    }

    fn part(&mut self, part: PartRequest<'_>) -> Result<()> {
        self.lay_out_part(&part)
    }

    fn digest(&mut self, sum: Sum) -> Result<()> {
        sum.of_crc32(0)?;
        self.layout.wants(sum);
        Ok(())
    }

    fn position(&self) -> Option<u64> {
        let file = self.layout.files.last().filter(|file| self.in_file && file.floats_from.is_none());
        file.map(|file| file.len)
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

    fn warn(&mut self, warning: &str) {
        self.layout.warnings.push(warning.to_owned());
    }
}
