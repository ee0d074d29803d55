//! Opens one APR2 file and pushes its contents.

use crate::FORMAT;
use crate::compression::{self, Blocks, Method};
use crate::index::{self, Entry};
use crate::layout::{Footer, Header, tensor_flags};
use crate::metadata::Metadata;
use crate::parse::Parser;
use crate::reader::{notes, whole_text};
use crate::sections::{
    CheckedEntry, arrange, check_end, check_entries, check_flags, check_sections, note_odd,
};
use apr_sdk::{
    BlockAt, BlockSink, Bytes, Checksum, Codec, Cursor, DType, Error, Extent, Fact, FileId, Limits,
    ModelSink, OpenModel, Payload, Result, Source, Sum, TensorDecl,
};

/// An opened file.
pub struct File {
    name: Option<String>,
    tensors: Vec<Tensor>,
    metadata: Metadata,
    verbatim: Option<Bytes>,
    checksum: Checksum,
    notes: Vec<String>,
    decoder: compression::Decoder,
}

#[derive(Debug)]
struct Tensor {
    name: String,
    dtype: DType,
    dims: Vec<u64>,
    storage: Storage,
}

/// The place of a tensor's payload.
#[derive(Debug)]
enum Storage {
    Raw(Extent),
    Compressed(Blocks),
}

impl Tensor {
    fn payload(&self) -> Payload {
        match &self.storage {
            Storage::Raw(extent) => Payload::Extent { extent: *extent, view: None },
            Storage::Compressed(blocks) => {
                Payload::Blocks { codec: blocks.method.codec(Some(blocks.extent.len)) }
            }
        }
    }
}

/// Which file to open, and as what.
#[derive(Debug)]
pub struct FileOptions {
    /// The number of the file in the model.
    pub file: FileId,
    /// Whether it is a shard opened through its manifest.
    pub part: bool,
    /// A note about it for the summary.
    pub note: Option<String>,
}

impl File {
    /// Reads metadata, index and footer.
    ///
    /// # Errors
    /// Malformed for sections that overlap, leave the file or contradict one another; Unsupported for what is planned.
    pub fn open(source: &dyn Source, header: Header, limits: &Limits, options: FileOptions) -> Result<File> {
        let file = options.file;
        let mut notes: Vec<_> = options.note.into_iter().collect();
        check_flags(&header, &mut notes)?;
        let len = source.len(file)?;
        check_sections(&header, len)?;
        let mut cursor = section(source, file, header.index_offset, header.index_size, limits)?;
        let (entries, reserved) = index::read(&mut cursor)?;
        note_odd(&entries, reserved, &mut notes);
        let mut cursor = section(source, file, header.metadata_offset, header.metadata_size, limits)?;
        let text = whole_text(&mut cursor, "metadata")?;
        let hidden = HiddenTensors::new(&entries, file, u64::from(header.data_offset));
        let metadata_offset = u64::from(header.metadata_offset);
        let mut metadata =
            Parser::new(&text, metadata_offset, limits, &mut |name| hidden.find(name)).metadata()?;
        hidden.note_unused(&mut notes);
        let mut sorted = check_entries(&entries, &header, &metadata)?;
        let footer_at = check_end(source, &header, &entries, &sorted, len, file, &mut notes)?;
        arrange(&mut sorted, &metadata, source, limits)?;
        limits.budget.charge(text.len() as u64).map_err(|e| e.at(metadata_offset))?;
        let verbatim = (!is_own(&metadata, &text, source, limits)).then(|| match text.len() as u64 {
            len if len > Bytes::INLINE_LIMIT => Bytes::Extent(Extent::new(file, metadata_offset, len)),
            _ => Bytes::from(text.as_str()),
        });
        metadata.unknown.clear();
        let tensors = tensors(&sorted, &hidden, header.flags, &mut notes)?;
        for tensor in &tensors {
            if let Storage::Compressed(blocks) = &tensor.storage {
                blocks.check_table(source).map_err(|e| e.tensor(&tensor.name))?;
            }
        }
        Ok(File {
            name: options.part.then(|| source.name(file)),
            tensors,
            metadata,
            verbatim,
            checksum: Checksum::raw(
                Extent::new(file, 0, footer_at),
                Bytes::Extent(Extent::new(file, footer_at, Footer::CRC_LEN)),
                Sum::CRC32,
            ),
            notes,
            decoder: compression::Decoder::default(),
        })
    }
}

/// The tensors that are shown, with their places in the file.
fn tensors(
    sorted: &[CheckedEntry<'_>],
    hidden: &HiddenTensors<'_>,
    flags: u32,
    notes: &mut Vec<String>,
) -> Result<Vec<Tensor>> {
    let mut table = hidden.lengths()?;
    let mut tensors = Vec::with_capacity(sorted.len());
    let mut n_compressed = 0;
    for CheckedEntry { entry, dtype, method } in sorted.iter().filter(|checked| !checked.entry.is_hidden()) {
        let extent = hidden.extent(entry)?;
        let storage = match method {
            None => Storage::Raw(extent),
            Some(method) => {
                n_compressed += 1;
                let len = Blocks::table_len(entry.raw_size);
                let own = table.as_mut().map(|table| take(table, len)).transpose()?;
                Storage::Compressed(Blocks { method: *method, extent, raw_len: entry.raw_size, table: own })
            }
        };
        tensors.push(Tensor { name: entry.name.clone(), dtype: *dtype, dims: entry.dims.clone(), storage });
    }
    if let Some(rest) = table.filter(|rest| rest.len > 0) {
        let message = format!("the table of block lengths has {} bytes too many", rest.len);
        return Err(Error::malformed(message).at(rest.offset).tensor(compression::LENGTHS));
    }
    if n_compressed > 0 && flags & crate::layout::flags::COMPRESSED == 0 {
        notes.push(format!("{n_compressed} tensors are compressed, but the header does not say so"));
    }
    Ok(tensors)
}

/// Splits `len` bytes off the start of `table`.
fn take(table: &mut Extent, len: u64) -> Result<Extent> {
    let Some(rest) = table.len.checked_sub(len) else {
        let message = "the table of block lengths is shorter than the compressed tensors require";
        return Err(Error::malformed(message).at(table.offset).tensor(compression::LENGTHS));
    };
    let taken = Extent::new(table.file, table.offset, len);
    *table = Extent::new(table.file, table.offset + len, rest);
    Ok(taken)
}

/// A cursor over a section of a file.
///
/// # Errors
/// Any error from reading.
pub(crate) fn section<'a>(
    source: &'a dyn Source,
    file: FileId,
    offset: u32,
    size: u32,
    limits: &'a Limits,
) -> Result<Cursor<'a>> {
    let start = u64::from(offset);
    Cursor::with_end(source, file, start, start + u64::from(size), limits)
}

/// Whether this plugin's writer would produce exactly this text from the metadata, so that it need not be
/// kept. Other programs' keys exist only in the text.
fn is_own(metadata: &Metadata, text: &str, source: &dyn Source, limits: &Limits) -> bool {
    if metadata.provenance.is_none() || !metadata.unknown.is_empty() {
        return false;
    }
    // Only short values are requested: JSON that is hidden because it would not be restored exactly.
    let fetch = &mut |bytes: &Bytes| match bytes {
        Bytes::Inline(_) => Ok(bytes.clone()),
        Bytes::Extent(extent) => {
            let end = extent.offset.saturating_add(extent.len);
            let mut cursor = Cursor::with_end(source, extent.file, extent.offset, end, limits)?;
            cursor.bytes(extent.len).map(Bytes::from)
        }
    };
    metadata.render(None, fetch).is_ok_and(|own| own.is(text))
}

/// Looks up the hidden tensors of a file, which hold what is too long for its JSON.
struct HiddenTensors<'a> {
    entries: &'a [Entry],
    file: FileId,
    data_offset: u64,
    used: std::cell::RefCell<Vec<usize>>,
}

impl<'a> HiddenTensors<'a> {
    fn new(entries: &'a [Entry], file: FileId, data_offset: u64) -> HiddenTensors<'a> {
        HiddenTensors { entries, file, data_offset, used: Vec::new().into() }
    }

    fn find(&self, name: &str) -> Result<Bytes> {
        let extent = self.get(name)?.ok_or_else(|| {
            Error::malformed("the metadata refers to this tensor, but it is not in the index").tensor(name)
        })?;
        Ok(Bytes::Extent(extent))
    }

    /// The table of the lengths of compressed blocks, if the file has one.
    fn lengths(&self) -> Result<Option<Extent>> {
        self.get(compression::LENGTHS)
    }

    fn get(&self, name: &str) -> Result<Option<Extent>> {
        let found = self.entries.binary_search_by(|entry| entry.name.as_bytes().cmp(name.as_bytes()));
        let Ok(at) = found else { return Ok(None) };
        let entry = &self.entries[at];
        let bytes = crate::dtypes::Numbers::default().get("U8");
        if Some(entry.dtype) != bytes
            || entry.dims != [entry.size]
            || entry.flags & tensor_flags::DEFINED != 0
        {
            return Err(Error::malformed("a hidden tensor must be an uncompressed row of U8").tensor(name));
        }
        self.used.borrow_mut().push(at);
        self.extent(entry).map(Some)
    }

    /// The place of an entry's stored bytes in the file.
    fn extent(&self, entry: &Entry) -> Result<Extent> {
        let offset = self.data_offset.checked_add(entry.offset);
        let offset = offset.ok_or_else(|| Error::malformed("its data ends past 2^64").tensor(&entry.name))?;
        Ok(Extent::new(self.file, offset, entry.size))
    }

    fn note_unused(&self, notes: &mut Vec<String>) {
        let mut used = self.used.borrow().clone();
        used.sort_unstable();
        let is_left = |entry: &Entry| entry.is_hidden() && entry.name != compression::LENGTHS;
        let all = self.entries.iter().enumerate().filter(|(_, entry)| is_left(entry));
        let unused = all.filter(|(at, _)| used.binary_search(at).is_err()).count();
        if unused > 0 {
            notes.push(format!(
                "{unused} hidden tensors are not referenced by the metadata and were left out"
            ));
        }
    }
}

impl OpenModel for File {
    fn describe(&self, _source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        for tensor in &self.tensors {
            sink.tensor(TensorDecl {
                name: &tensor.name,
                dtype: tensor.dtype,
                shape: &tensor.dims,
                payload: tensor.payload(),
            })?;
        }
        // The manifest describes the whole model, once.
        if self.name.is_none() {
            self.describe_metadata(sink)?;
        }
        self.own_record(sink)?;
        sink.fact(Fact::Checksum(self.checksum.clone()))?;
        notes(sink, &self.notes)
    }

    fn blocks(&self, source: &dyn Source, tensor: u64, sink: &mut dyn BlockSink) -> Result<()> {
        let tensor = usize::try_from(tensor).ok().and_then(|tensor| self.tensors.get(tensor));
        match tensor.map(|tensor| &tensor.storage) {
            Some(Storage::Compressed(blocks)) => blocks.list(source, sink),
            _ => Err(Error::unsupported("this tensor has no compressed blocks")),
        }
    }

    fn decode(&self, codec: &Codec, _at: BlockAt, stored: &[u8], out: &mut [u8]) -> Result<()> {
        self.decoder.decode(Method::from_codec(codec)?, stored, out)
    }
}

impl File {
    /// The offset of its footer.
    pub fn footer_at(&self) -> u64 {
        self.checksum.covers.len
    }

    /// Pushes the metadata, except for what only this format can express.
    ///
    /// # Errors
    /// Any error from the sink.
    pub fn describe_metadata(&self, sink: &mut dyn ModelSink) -> Result<()> {
        let metadata = &self.metadata;
        sink.fact(Fact::Dialect(&metadata.dialect))?;
        if metadata.has_architecture() {
            sink.fact(Fact::Architecture(&metadata.model_type, metadata.architecture.clone()))?;
        }
        if let Some(recipe) = &metadata.recipe {
            sink.fact(Fact::Recipe(recipe))?;
        }
        if let Some(tokenizer) = &metadata.tokenizer {
            sink.fact(Fact::Tokenizer(tokenizer.clone()))?;
        }
        if let Some(card) = &metadata.model_card {
            sink.fact(Fact::ModelCard(card.clone()))?;
        }
        for asset in &metadata.assets {
            sink.asset(&asset.name, asset.bytes.clone())?;
        }
        for foreign in &metadata.foreign {
            for file in &foreign.files {
                sink.foreign_file(&foreign.format, &file.name, file.n_tensors)?;
                for (key, value) in &file.typed {
                    sink.foreign(key, value.clone())?;
                }
                if let Some(verbatim) = &file.verbatim {
                    sink.verbatim(verbatim.clone())?;
                }
            }
        }
        match &metadata.provenance {
            Some(provenance) => sink.fact(Fact::Provenance(provenance.clone())),
            None => Ok(()),
        }
    }

    /// Pushes what only this format can express: the text, if it would not be reproduced, and which shard it
    /// is.
    fn own_record(&self, sink: &mut dyn ModelSink) -> Result<()> {
        if self.name.is_none() && self.verbatim.is_none() {
            return Ok(());
        }
        sink.foreign_file(FORMAT, self.name.as_deref().unwrap_or_default(), self.tensors.len() as u64)?;
        self.verbatim.iter().try_for_each(|text| sink.verbatim(text.clone()))
    }
}
