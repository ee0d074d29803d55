//! Opening a model: probe, read the header, open its parts, merge.

pub mod blocks;
pub mod decoded;
pub mod files;
pub mod in_order;
mod lfs_pointer;
pub mod long_values;
mod named_bytes;
mod options;
pub mod parts;
mod probe;
pub mod read_record;
pub mod reports;
pub mod schemes;
pub mod source;
pub mod stored_sums;

pub use named_bytes::{Held, Listed};
pub use options::{GivenOption, check_options, check_write_options, option_values};

use crate::engine::Engine;
use crate::open::parts::lone::{LonePart, has_index};
use crate::open::source::{CallSource, Root};
use crate::place::Entry;
use crate::registry::Format;
use crate::sizes::show_size;
use apr_sdk::{
    Bytes, Coding, Error, ErrorKind, Extent, FileId, Limits, Model, ModelBuilder, OpenModel, Options,
    Payload, Result, escape,
};
use decoded::Decoded;
use files::Files;
use parts::{Merged, Opening};
pub use probe::Choice;
use schemes::Unpacked;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Options for opening a model.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The format's id, if the user forces one (`--from`).
    pub from: Option<String>,
    /// `-O [format.]name=value`.
    pub options: Vec<GivenOption>,
    /// Opens the file by itself, without the folder around it (`--bare`).
    pub bare: bool,
    /// Records what is read ([`Files::seen`]).
    pub witnessed: bool,
}

/// An opened model: the index in memory, the payload in its files.
pub struct OpenedModel {
    /// The merged model; its extents refer to files in [`OpenedModel::files`].
    pub model: Model,
    /// The id of the format it was opened with.
    pub format: String,
    /// The path as the user typed it.
    pub path: PathBuf,
    /// Warnings for the user, such as a wrong extension or an assumption.
    pub warnings: Vec<String>,
    /// The outcome for packed weights, if they were unpacked.
    pub unpacked: Option<Unpacked>,
    /// The files that were opened.
    pub files: Files,
    /// The readers' objects, with the tensors that each provides.
    pub(crate) origins: Vec<Origin>,
    /// The number that each tensor had when it was opened, and a weight's first part. Empty as long as all have their own.
    pub(crate) opened_as: Vec<usize>,
    /// The blocks of compressed payload.
    decoded: Decoded,
}

/// One reader's object and the tensors it provides.
pub(crate) struct Origin {
    /// The reader's object.
    pub open: Box<dyn OpenModel>,
    /// The place of its file 0.
    pub root: Root,
    /// Index of its first tensor in the merged model.
    pub first: usize,
    /// Number of tensors it provides.
    pub count: usize,
    /// Index of its first checksum in the merged model.
    pub first_checksum: usize,
    /// Number of checksums it provides.
    pub n_checksums: usize,
}

impl Origin {
    /// Returns whether it provides tensor number `number` of the merged model as it was opened.
    fn provides(&self, number: usize) -> bool {
        number >= self.first && number - self.first < self.count
    }
}

impl OpenedModel {
    /// Names and lengths of the files, in the order they were opened.
    pub fn files(&self) -> Vec<(String, u64)> {
        self.files.all().iter().filter(|f| !f.is_folder()).map(|f| (f.name.clone(), f.len)).collect()
    }

    /// Frees the readers' objects, for work that needs only the index and neither payloads nor the tokenizer.
    pub fn forget_readers(&mut self) {
        self.origins = Vec::new();
    }

    /// Frees the objects of readers that are not needed any more once the tokenizer is known: those whose
    /// payloads and checksums the host reads by itself.
    pub fn forget_idle_readers(&mut self) {
        let Model { tensors, checksums, .. } = &self.model;
        let mut read: Vec<usize> = Vec::new();
        for (number, tensor) in tensors.iter().enumerate() {
            if !matches!(tensor.payload, Payload::Extent { .. }) {
                read.push(self.number_when_opened(number));
            }
        }
        self.origins.retain(|origin| {
            let mut sums = checksums.iter().skip(origin.first_checksum).take(origin.n_checksums);
            read.iter().any(|number| origin.provides(*number))
                || sums.any(|checksum| checksum.coding != Coding::Raw)
        });
    }

    /// The number that a tensor had when it was opened.
    fn number_when_opened(&self, tensor: usize) -> usize {
        self.opened_as.get(tensor).copied().unwrap_or(tensor)
    }

    /// The value of a key in the model's own format.
    pub fn stated(&self, key: &str) -> Option<apr_sdk::Value> {
        self.model.foreign_of(&self.model.format)?.get(key).cloned()
    }

    /// Bytes read in order to open it.
    pub fn header_bytes(&self) -> u64 {
        self.files.bytes_read()
    }

    /// The reader's object for tensor number `tensor`, and the tensor's number there.
    pub(crate) fn origin(&self, tensor: usize) -> Result<(&Origin, u64)> {
        let number = self.number_when_opened(tensor);
        let origin = self.origins.iter().find(|origin| origin.provides(number));
        origin
            .map(|origin| (origin, (number - origin.first) as u64))
            .ok_or_else(|| Error::plugin("a tensor without a reader"))
    }

    /// The reader's object for checksum number `checksum`, and the checksum's number there.
    pub(crate) fn origin_of_checksum(&self, checksum: usize) -> Result<(&Origin, u64)> {
        let mut origins = self.origins.iter();
        let origin =
            origins.find(|o| checksum >= o.first_checksum && checksum - o.first_checksum < o.n_checksums);
        origin
            .map(|o| (o, (checksum - o.first_checksum) as u64))
            .ok_or_else(|| Error::plugin("a checksum without a reader"))
    }

    /// Announces that the payload of all tensors will be read: every file that was opened, whole, since what is read of it
    /// counts only if all of it is what was promised.
    ///
    /// # Errors
    /// As [`Files::will_read`].
    pub fn will_read_payload(&self) -> Result<()> {
        let files = (0..).zip(self.files.all());
        let files = files.filter(|(_, file)| !file.is_folder());
        self.files.will_read(files.map(|(number, file)| Extent::new(number, 0, file.len)))
    }

    /// The tokenizer, as the JSON of `apr_sdk::tokenizer`: the one in the model, or the one that a reader
    /// builds from its format.
    ///
    /// # Errors
    /// Unsupported for a kind of tokenizer that the JSON cannot express; Malformed; any error from reading.
    pub fn tokenizer(&self, engine: &Engine) -> Result<Option<Bytes>> {
        if let Some(held) = &self.model.tokenizer {
            return Ok(Some(held.clone()));
        }
        let limits = Limits::default();
        limits.budget.earn(self.header_bytes());
        for origin in &self.origins {
            let source = CallSource::new(&self.files, origin.root, &limits.budget, engine.progress.as_ref());
            if let Some(json) = origin.open.tokenizer(&source).map_err(|e| self.files.show(e))? {
                return Ok(Some(Bytes::from(json)));
            }
        }
        Ok(None)
    }

    /// Reads a byte string of the model.
    ///
    /// # Errors
    /// Any error from reading; LimitExceeded if memory cannot hold it.
    pub fn fetch(&self, bytes: &Bytes) -> Result<Bytes> {
        let Bytes::Extent(extent) = bytes else { return Ok(bytes.clone()) };
        let len = usize::try_from(extent.len)
            .map_err(|_| Error::limit("a value does not fit in this machine's memory"))?;
        let mut held = vec![0; len];
        self.files.read_at(extent.file, extent.offset, &mut held).map_err(|e| self.files.show(e))?;
        Ok(Bytes::from(held))
    }
}

/// The file or folder behind a path, opened once, with its format: nothing has been read except for a bounded look.
#[derive(Clone)]
pub struct Probed<'e> {
    engine: &'e Engine,
    entry: Entry,
    path: PathBuf,
    choice: Choice<'e>,
}

impl<'e> Probed<'e> {
    /// Finds what `path` leads to, in the format that `from` names or that recognises it best.
    ///
    /// # Errors
    /// NotFound; `E001` if no format recognises it; Unsupported if two recognise it equally well. Errors name
    /// the file as the user typed it.
    pub fn new(engine: &'e Engine, path: &Path, from: Option<&str>, bare: bool) -> Result<Probed<'e>> {
        Probed::of(engine, engine.places.locate(path)?, path, from, bare)
    }

    /// Like [`Probed::new`], for an entry that the user calls `path`.
    ///
    /// # Errors
    /// As [`Probed::new`].
    pub fn of(
        engine: &'e Engine,
        entry: Entry,
        path: &Path,
        from: Option<&str>,
        bare: bool,
    ) -> Result<Probed<'e>> {
        let files = Files::new(&entry, engine.cancel.clone());
        let choice = probe::choose(engine, &files, from, bare);
        let choice = choice.map_err(|error| files.show(with_large_files(error, &files)))?;
        Ok(Probed { engine, entry, path: path.to_owned(), choice })
    }

    /// The format that was chosen.
    pub fn format(&self) -> &'e Format {
        self.choice.format
    }

    /// Warnings for the user about the choice.
    pub fn warnings(&self) -> &[String] {
        &self.choice.warnings
    }

    /// Opens the model; may be called again with other options.
    ///
    /// # Errors
    /// Any error from the readers, with the file as the user typed it.
    pub fn open(&self, options: &OpenOptions) -> Result<OpenedModel> {
        let Probed { engine, entry, path, choice } = self;
        let mut files = Files::new(entry, engine.cancel.clone());
        let mut only = None;
        if choice.claimed {
            let claims = &choice.format.manifest.claims;
            only = Some(files.get(0)?.name.clone()).filter(|name| !claims.contains(name));
            let folder = Entry { place: Arc::clone(&entry.place), file: None };
            files = Files::new(&folder, engine.cancel.clone());
        }
        let is_folder = files.get(0)?.is_folder() && only.is_none();
        if options.witnessed {
            files = files.witnessed();
        }
        let merged = match open_files(engine, &files, choice, only.as_deref(), options) {
            Ok(merged) => merged,
            Err(error) => return Err(files.show(with_sizes(way_out(error), &files))),
        };
        files.refuse_replaced().map_err(|e| files.show(e))?;
        let Merged { mut model, origins } = merged;
        if let Some(name) = only.filter(|_| options.from.is_none()) {
            let whole = &choice.format.manifest.name;
            model.notes.insert(
                0,
                format!(
                    "`{}` is opened as the {whole} that contains it; pass --bare to open the file alone",
                    escape(&name, 120)
                ),
            );
        }
        let format = choice.format.id().to_owned();
        let mut warnings = choice.warnings.clone();
        if let Some(part) = LonePart::of(&files) {
            if is_folder && !has_index(&files) {
                return Err(part.refusal().in_file(path.display().to_string()));
            }
            // With `--bare` the user knows.
            warnings.extend((!options.bare).then(|| part.warning()));
        }
        let path = path.to_owned();
        Ok(OpenedModel {
            model,
            format,
            path,
            warnings,
            unpacked: None,
            files,
            origins,
            opened_as: Vec::new(),
            decoded: Decoded::default(),
        })
    }
}

/// Opens the model at `path`.
///
/// # Errors
/// NotFound; any error from probing and the readers, with the file as the user typed it.
pub fn open(engine: &Engine, path: &Path, options: &OpenOptions) -> Result<OpenedModel> {
    open_entry(engine, &engine.places.locate(path)?, path, options)
}

/// Opens the model at an entry; `path` is what the user calls it.
///
/// # Errors
/// As [`open`].
pub fn open_entry(engine: &Engine, entry: &Entry, path: &Path, options: &OpenOptions) -> Result<OpenedModel> {
    let probed = Probed::of(engine, entry.clone(), path, options.from.as_deref(), options.bare);
    probed.map_err(way_out)?.open(options)
}

/// Files that an error lists.
const MOST_LISTED: usize = 20;

/// Adds the sizes of the files that an error about a folder of several models names: they tell which is meant.
fn with_sizes(error: Error, files: &Files) -> Error {
    if error.kind() != ErrorKind::InvalidArgument || !files.get(0).is_ok_and(|f| f.is_folder()) {
        return error;
    }
    let entries = files.entries().unwrap_or_default();
    let named = entries.iter().filter(|name| error.message().contains(escape(name, 120).as_str()));
    let sized: Vec<(&String, u64)> = named.filter_map(|name| Some((name, files.size(name)?))).collect();
    match sized.as_slice() {
        [] | [_] => error,
        _ => error.with_hint(format!("specify one of them: {}", listed(&sized))),
    }
}

/// Adds the large files of a folder, with their sizes, to an error about a folder that several formats claim.
fn with_large_files(error: Error, files: &Files) -> Error {
    if error.kind() != ErrorKind::Unsupported || !files.get(0).is_ok_and(|f| f.is_folder()) {
        return error;
    }
    let entries = files.entries().unwrap_or_default();
    let mut sized: Vec<(&String, u64)> =
        entries.iter().filter_map(|name| Some((name, files.size(name)?))).collect();
    let largest = sized.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    sized.retain(|(_, bytes)| *bytes >= largest / 100);
    let hint = error.hint_text().map(|hint| format!("{hint}, or ")).unwrap_or_default();
    match sized.as_slice() {
        [] | [_] => error,
        _ => error.with_hint(format!("{hint}specify one of its files: {}", listed(&sized))),
    }
}

fn listed(files: &[(&String, u64)]) -> String {
    let each = files.iter().take(MOST_LISTED);
    let each: Vec<String> =
        each.map(|file| format!("{} ({})", escape(file.0, 120), show_size(file.1))).collect();
    each.join(", ")
}

/// Adds a hint for files that break their own rules, to errors that have none: they are damaged, or were
/// written incorrectly.
pub(crate) fn way_out(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Malformed => {
            error.hint("compare the file's size and SHA-256 with those of the original, or get it again")
        }
        ErrorKind::LimitExceeded => {
            error.hint("get the file again from a trusted source: no real model needs as much")
        }
        _ => error,
    }
}

fn open_files(
    engine: &Engine,
    files: &Files,
    choice: &Choice<'_>,
    only: Option<&str>,
    options: &OpenOptions,
) -> Result<Merged> {
    let mut values = option_values(choice.format, &options.options, |spec| spec.read)?;
    if let Some(name) = only {
        values.set(Options::ONLY, name);
    }
    let opening = Opening { engine, files, given: &options.options, limits: Limits::default() };
    opening.model(choice.format, Root::WHOLE, &values, 0)
}

fn open_one(
    engine: &Engine,
    files: &Files,
    format: &Format,
    root: Root,
    values: &Options,
    limits: &Limits,
) -> Result<(Model, Box<dyn OpenModel>)> {
    let own_name = files.get(root.file).map(|f| f.name.clone()).unwrap_or_default();
    let source = CallSource::new(files, root, &limits.budget, engine.progress.as_ref());
    let open = format.reader()?.open(&source, limits, values);
    let open = open.map_err(|e| e.in_file(own_name.clone()))?;
    let source = CallSource::new(files, root, &limits.budget, engine.progress.as_ref());
    // Nearly all tensors are in one file, and there may be a million of them.
    let last = Cell::new(None);
    let file_len = |file: FileId| match last.get() {
        Some((known, len)) if known == file => Ok(len),
        _ => {
            let len = apr_sdk::Source::len(&source, file)?;
            last.set(Some((file, len)));
            Ok(len)
        }
    };
    let mut builder = ModelBuilder::new(format.id(), limits, &file_len);
    open.describe(&source, &mut builder).map_err(|e| e.in_file(own_name))?;
    let mut model = builder.finish();
    translate(&mut model, root);
    Ok((model, open))
}

/// Relocates every extent of a part's model into the whole.
fn translate(model: &mut Model, root: Root) {
    if root == Root::WHOLE {
        return;
    }
    for tensor in &mut model.tensors {
        if let Payload::Extent { extent, .. } = &mut tensor.payload {
            *extent = root.translate(*extent);
        }
    }
    for bytes in model.byte_strings_mut() {
        if let Bytes::Extent(extent) = bytes {
            *extent = root.translate(*extent);
        }
    }
    for checksum in &mut model.checksums {
        checksum.covers = root.translate(checksum.covers);
        if let Bytes::Extent(extent) = &mut checksum.stored {
            *extent = root.translate(*extent);
        }
    }
    for part in &mut model.parts {
        part.file = if part.file == 0 { root.file } else { part.file };
    }
}
