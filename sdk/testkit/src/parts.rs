//! Models made of parts of their own format: opened and merged as the host does, so that a plugin's tests of sharded
//! models need no host.

use crate::payload::stored_extents;
use crate::{payload, read_open};
use apr_sdk::{
    Asset, Bytes, Error, Extent, Fact, FileId, Limits, LogLevel, Model, ModelBuilder, ModelSink, OpenModel,
    Options, Part, Payload, Reader, Result, Source, TensorDecl, Value, escape,
};
use std::collections::HashSet;

/// An opened model with its parts merged in.
pub struct Opened {
    /// The merged model: extents and byte strings name the files of the whole source.
    pub model: Model,
    pieces: Vec<Piece>,
}

/// The description that one reader call gave.
struct Piece {
    open: Box<dyn OpenModel>,
    model: Model,
    /// The part it is, or `None` for the model itself.
    part: Option<Part>,
}

impl Opened {
    /// The payload of tensor number `index` of the merged model (see [`payload()`]).
    ///
    /// # Errors
    /// As [`payload()`].
    pub fn payload(&self, index: usize, source: &dyn Source) -> Result<Vec<u8>> {
        let mut local = index;
        for piece in &self.pieces {
            let here = piece.model.tensors.len();
            if local < here {
                return match &piece.part {
                    None => payload(&*piece.open, &piece.model, local, source),
                    Some(part) => {
                        payload(&*piece.open, &piece.model, local, &PartSource { inner: source, part })
                    }
                };
            }
            local -= here;
        }
        Err(Error::invalid_argument(format!("tensor {index} does not exist")))
    }

    /// The places of the payloads, as sorted runs (file, start, end) that do not touch. Streams are nowhere.
    ///
    /// # Errors
    /// What listing compressed blocks raised.
    pub fn stored(&self, source: &dyn Source) -> Result<Vec<(FileId, u64, u64)>> {
        let mut ranges = Vec::new();
        for Piece { open, model, part } in &self.pieces {
            match part {
                None => ranges.extend(stored_extents(model, &**open, source)?),
                Some(part) => {
                    let inside = stored_extents(model, &**open, &PartSource { inner: source, part })?;
                    let moved = inside.iter().map(|&(file, start, end)| {
                        let whole = outward(part, Extent::new(file, start, end - start));
                        (whole.file, whole.offset, whole.offset + whole.len)
                    });
                    ranges.extend(moved);
                }
            }
        }
        ranges.sort_unstable();
        let mut merged: Vec<(FileId, u64, u64)> = Vec::new();
        for (file, start, end) in ranges {
            match merged.last_mut() {
                Some(last) if last.0 == file && start <= last.2 => last.2 = last.2.max(end),
                _ => merged.push((file, start, end)),
            }
        }
        Ok(merged)
    }
}

/// Opens `source` and its parts, which must be of the same format, and merges them: tensors in part order, each part's
/// names as the model expects them, foreign files in part order.
///
/// # Errors
/// What the reader raised; Malformed for a name in two parts, a mapped tensor that its part lacks, an unmapped one;
/// Unsupported for a part of another format; Plugin for parts inside a part.
pub fn read_with_parts(
    reader: &dyn Reader,
    format: &str,
    source: &dyn Source,
    options: &Options,
) -> Result<Opened> {
    let limits = Limits::default();
    let (open, model) = read_open(reader, format, source, options)?;
    let parts = model.parts.clone();
    let mut pieces = vec![Piece { open, model, part: None }];
    let mapped = parts.iter().any(|part| part.expected.is_some());
    for part in parts {
        if part.format != format {
            let other = escape(&part.format, 64);
            return Err(Error::unsupported(format!(
                "a part in format `{other}`: there is no other reader here"
            )));
        }
        let mut options = options.clone();
        part.options.iter().for_each(|(name, value)| options.set(name, value));
        options.set(Options::PART, "true");
        let inside = PartSource { inner: source, part: &part };
        let (open, model) = read_open(reader, format, &inside, &options)?;
        if !model.parts.is_empty() {
            return Err(Error::plugin("the reader returned nested parts").in_file(source.name(part.file)));
        }
        if mapped {
            check_names(&part, &model).map_err(|e| e.in_file(source.name(part.file)))?;
        }
        pieces.push(Piece { open, model, part: Some(part) });
    }
    let file_len = |file| source.len(file);
    let mut builder = ModelBuilder::new(format, &limits, &file_len);
    for piece in &pieces {
        let file = piece.part.as_ref().map_or(0, |part| part.file);
        push(piece, source, &mut builder).map_err(|error| error.in_file(source.name(file)))?;
    }
    Ok(Opened { model: builder.finish(), pieces })
}

fn check_names(part: &Part, model: &Model) -> Result<()> {
    let there: HashSet<_> = model.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let expected: HashSet<_> = part.expected.iter().flatten().map(String::as_str).collect();
    if let Some(name) = expected.iter().find(|name| !there.contains(**name)) {
        return Err(
            Error::malformed("the index maps it to this file, which does not contain it").tensor(*name)
        );
    }
    match there.iter().find(|name| !expected.contains(**name)) {
        Some(name) => Err(Error::malformed("the index does not map it").tensor(*name)),
        None => Ok(()),
    }
}

/// Bytes of a part as those of the whole source.
fn moved(bytes: &Bytes, part: &Option<Part>) -> Bytes {
    match (bytes, part) {
        (Bytes::Extent(extent), Some(part)) => Bytes::Extent(outward(part, *extent)),
        _ => bytes.clone(),
    }
}

/// Pushes a piece's model into the merged one.
fn push(piece: &Piece, source: &dyn Source, sink: &mut ModelBuilder<'_>) -> Result<()> {
    let Piece { model, part, .. } = piece;
    for tensor in &model.tensors {
        let payload = match (&tensor.payload, part) {
            (Payload::Extent { extent, view }, Some(part)) => {
                Payload::Extent { extent: outward(part, *extent), view: view.clone() }
            }
            (payload, _) => payload.clone(),
        };
        sink.tensor(TensorDecl { name: &tensor.name, dtype: tensor.dtype, shape: &tensor.shape, payload })?;
    }
    for foreign in &model.foreign {
        for file in &foreign.files {
            let name = match part {
                Some(part) if file.name.is_empty() => source.name(part.file),
                _ => file.name.clone(),
            };
            sink.foreign_file(&foreign.format, &name, file.n_tensors)?;
            for (key, value) in &file.typed {
                sink.foreign(key, Value { kind: value.kind, bytes: moved(&value.bytes, part) })?;
            }
            if let Some(verbatim) = &file.verbatim {
                sink.verbatim(moved(verbatim, part))?;
            }
        }
    }
    for Asset { name, bytes } in &model.assets {
        sink.asset(name, moved(bytes, part))?;
    }
    // What a part says of itself does not replace what the whole says.
    if part.is_none() {
        sink.fact(Fact::Dialect(&model.dialect))?;
        if let Some(it) = &model.architecture {
            sink.fact(Fact::Architecture(&it.id, it.config.clone()))?;
        }
        model.tokenizer.iter().try_for_each(|json| sink.fact(Fact::Tokenizer(json.clone())))?;
        model.model_card.iter().try_for_each(|json| sink.fact(Fact::ModelCard(json.clone())))?;
        model.recipe.iter().try_for_each(|name| sink.fact(Fact::Recipe(name)))?;
        model.provenance.iter().try_for_each(|json| sink.fact(Fact::Provenance(json.clone())))?;
        model.derived.iter().try_for_each(|json| sink.fact(Fact::Derived(json.clone())))?;
    }
    model.older.iter().try_for_each(|version| sink.fact(Fact::Older(version)))?;
    model.notes.iter().try_for_each(|note| sink.fact(Fact::Note(note)))
}

/// The place of a part's extent in the whole source.
fn outward(part: &Part, extent: Extent) -> Extent {
    match extent.file.checked_sub(1) {
        Some(file) => Extent { file, ..extent },
        None => {
            let start = part.range.map_or(0, |(offset, _)| offset);
            Extent { file: part.file, offset: extent.offset.saturating_add(start), len: extent.len }
        }
    }
}

/// A part's view of the source: the part is file 0, every other file has its number in the whole plus one.
struct PartSource<'a> {
    inner: &'a dyn Source,
    part: &'a Part,
}

impl PartSource<'_> {
    fn inside(&self, extent: Extent) -> Result<Extent> {
        let len = self.len(extent.file)?;
        if extent.end().is_some_and(|end| end <= len) {
            return Ok(outward(self.part, extent));
        }
        let message = format!("expected at least {} bytes, but the part ends at {len}", extent.len);
        Err(Error::malformed(message).at(extent.offset).in_file(self.name(extent.file)))
    }
}

impl Source for PartSource<'_> {
    fn name(&self, file: FileId) -> String {
        self.inner.name(outward(self.part, Extent::new(file, 0, 0)).file)
    }

    fn len(&self, file: FileId) -> Result<u64> {
        match (file, self.part.range) {
            (0, Some((_, len))) => Ok(len),
            _ => self.inner.len(outward(self.part, Extent::new(file, 0, 0)).file),
        }
    }

    fn read_at(&self, file: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        let whole = self.inside(Extent::new(file, offset, out.len() as u64))?;
        self.inner.read_at(whole.file, whole.offset, out)
    }

    fn view(&self, extent: Extent) -> Result<&[u8]> {
        self.inner.view(self.inside(extent)?)
    }

    fn sibling(&self, path: &str) -> Result<FileId> {
        let file = self.inner.sibling(path)?;
        file.checked_add(1).ok_or_else(|| Error::limit("too many files"))
    }

    fn entries(&self) -> Result<Vec<String>> {
        self.inner.entries()
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.inner.log(level, message);
    }
}
