//! Collects a writer's layout, segment by segment.

use super::carries::Casting;
use super::encoding::Encoded;
use super::{Layout, OutputFile, Placed, Scope, Segment};
use crate::engine::Engine;
use crate::expression::Expression;
use crate::expression::evaluate::sample::sample;
use crate::open::{GivenOption, OpenedModel};
use crate::planned::{Computation, TensorMap};
use crate::registry::Registry;
use apr_sdk::{
    Budget, Bytes, CheckedModel, Codec, Encoding, Error, LayoutRequest, LayoutSink, Limits, PartRequest,
    Result, Sum, Writer, escape,
};
use std::collections::HashSet;

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
    /// What the tensors are made of, if that is known.
    origin: Option<TensorOrigin<'a>>,
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

/// What the tensors of a layout are made of.
#[derive(Clone, Copy)]
pub struct TensorOrigin<'a> {
    /// The engine that computes samples.
    pub engine: &'a Engine,
    /// The computation of each tensor.
    pub computations: &'a TensorMap<Computation>,
    /// The id of the format that is written.
    pub target: &'a str,
    /// True if payload may be read to show samples of it.
    pub may_read: bool,
}

impl<'a> TensorOrigin<'a> {
    fn expression(&self, tensor: u64) -> Result<&'a Expression> {
        let handle = usize::try_from(tensor).ok().and_then(|number| self.computations.handle(number));
        let unknown = || Error::plugin(format!("the writer asks for tensor {tensor}, which does not exist"));
        Ok(&self.computations[handle.ok_or_else(unknown)?].expression)
    }
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
            origin: None,
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
        self.given = given;
        self.any_dialect = any_dialect;
        self
    }

    /// Sets which flags would give tensors other types, so that they can be suggested.
    pub fn casting(mut self, casting: Casting) -> Collector<'a> {
        self.casting = casting;
        self
    }

    /// Lets the writer ask what the tensors are made of.
    pub fn made_of(mut self, origin: TensorOrigin<'a>) -> Collector<'a> {
        self.origin = Some(origin);
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
            return Err(Error::plugin("the writer created no file"));
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
            let hint = "rename the companion file or part of the source with this name";
            Err(Error::unsupported(what).hint(hint))
        };
        let shown = escape(name, 120);
        // Staging uses such names beside the files.
        if name.starts_with('.') && name.split('/').next().is_some_and(|first| first.contains(".apr-")) {
            return refuse(format!(
                "the output cannot have a file named `{shown}`: the name is reserved for apr"
            ));
        }
        if self.names.contains(name) {
            return refuse(format!("the output would have two files named `{shown}`"));
        }
        let folders: Vec<&str> = name.match_indices('/').map(|(at, _)| &name[..at]).collect();
        // Folders are stored with a trailing slash.
        let is_folder = self.names.contains(&format!("{name}/"));
        if let Some(file) =
            folders.iter().find(|path| self.names.contains(**path)).copied().or(is_folder.then_some(name))
        {
            let file = escape(file, 120);
            return refuse(format!("`{file}` would be both a file and a folder in the output"));
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
            offset.checked_add(len).ok_or_else(|| Error::unsupported("an output file exceeds 2^64 bytes"))?;
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
        let is_path = name.split('/').all(|piece| !matches!(piece, "" | "." | ".."));
        if name.contains('\0') || name.contains('\\') || !is_path {
            return Err(Error::plugin(format!("the writer named a file `{}`", escape(name, 120))));
        }
        let limit = Limits::default().files as usize;
        if self.layout.files.len() >= limit {
            return Err(Error::unsupported(format!("the output would have more than {limit} files"))
                .hint("increase --max-shard-size"));
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
        let number = number.ok_or_else(|| {
            Error::plugin(format!("the writer placed tensor {tensor}, which does not exist"))
        })?;
        if !align.is_power_of_two() {
            return Err(Error::plugin(format!("the writer requested an alignment of {align}")));
        }
        let raw_len = self.model.tensors[number].payload_len()?;
        let encoded = match encoding {
            Encoding::Raw => None,
            Encoding::Encoded { codec, block_size, lengths } => {
                let encoded = Encoded::new(self.writer, tensor, raw_len, codec, block_size, lengths);
                let encoded = encoded.map_err(|e| e.tensor(&self.model.tensors[number].name))?;
                Some(Box::new(encoded))
            }
            _ => return Err(Error::unsupported("unknown encoding")),
        };
        self.pad_to(align)?;
        let len = encoded.as_ref().map_or(raw_len, |encoded| encoded.bound);
        self.push(len, Segment::Payload { tensor: number, encoded })
    }

    fn pad_to(&mut self, n: u64) -> Result<()> {
        let at = self.current()?.len;
        if n == 0 {
            return Err(Error::plugin("the writer requested padding to a multiple of 0"));
        }
        // Any offset is a multiple of 1.
        if n == 1 { Ok(()) } else { self.push((n - at % n) % n, Segment::Pad { to: n }) }
    }

    fn hole(&mut self, id: u32, len: u64) -> Result<()> {
        let number = self.layout.next_hole;
        if self.own.holes.contains_key(&id) {
            return Err(Error::plugin(format!("the writer created hole {id} twice")));
        }
        self.push(len, Segment::Hole { id: number })?;
        self.own.holes.insert(id, number);
        self.layout.next_hole =
            number.checked_add(1).ok_or_else(|| Error::plugin("the writer created 2^32 holes"))?;
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

    fn sample(&mut self, tensor: u64, start: u64, len: u64) -> Result<Option<Vec<u8>>> {
        let Some(origin) = self.origin.filter(|origin| origin.may_read) else { return Ok(None) };
        sample(origin.engine, self.opened, origin.expression(tensor)?, start, len)
    }

    fn source_codec(&mut self, tensor: u64) -> Result<Option<Codec>> {
        let Some(origin) = self.origin.filter(|origin| origin.target == self.opened.format) else {
            return Ok(None);
        };
        Ok(origin.expression(tensor)?.source_codec().cloned())
    }

    fn note(&mut self, note: &str) {
        self.layout.notes.push(note.to_owned());
    }

    fn warn(&mut self, warning: &str) {
        self.layout.warnings.push(warning.to_owned());
    }
}
