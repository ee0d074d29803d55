//! Recognises the three layouts and the index, opens a file, and pushes its contents.

use crate::checkpoint::{Checkpoint, Layout};
use crate::index_file::{self, IndexFile};
use crate::kept::{self, Kept};
use crate::layout::{APR_RECORD, FORMAT, ZIP_MAGIC};
use crate::names::{self, LeftOut, Walked};
use crate::pickle::bare;
use crate::plan::{FLAT_DICT, TIED, TREE};
use crate::storage::{Claims, Placed};
use crate::{derived, legacy_stream, legacy_tar, list_keys, scan, zip_file};
use apr_sdk::carried_metadata::{Carried, Member};
use apr_sdk::{
    Budget, Bytes, Error, ErrorKind, Extent, Fact, FileId, Limits, Look, ModelBuilder, ModelSink, OpenModel,
    Options, Reader, Report, Result, Score, Source, Stream, TensorDecl, Value, escape, strict_json,
};
use apr_zip::Inflate;
use std::collections::HashMap;

/// The reader.
pub struct PyTorch;

impl Reader for PyTorch {
    fn probe(&self, look: &Look<'_>) -> Score {
        if look.is_folder {
            return match choose(look.entries) {
                Choice::None => Score::NO,
                // Opening says which files there are to choose from.
                Choice::File(_) | Choice::Several(_) => Score::STRUCTURE,
            };
        }
        let is_object =
            || look.head.trim_ascii_start().starts_with(b"{") || strict_json::is_marked(look.head);
        if index_file::is_name(look.name) && is_object() {
            return Score::STRUCTURE;
        }
        if look.head_is(ZIP_MAGIC) {
            let has = |text: &[u8], word: &[u8]| text.windows(word.len()).any(|run| run == word);
            let named = |text: &[u8]| has(text, b"/data.pkl") || has(text, b"/.data/serialization_id");
            return if named(look.head) || named(look.tail) { Score::MAGIC } else { Score::EXTENSION };
        }
        if legacy_stream::is_stream(look.head) || legacy_tar::is_tar(look.head) {
            return Score::MAGIC_AND_VERSION;
        }
        // A bare pickle is none of the three layouts; it is ours to refuse, and to scan.
        // A JSON header behind a length of 8 bytes may begin with the same two: no pickle has these zeros and that brace.
        match look.head {
            [_, _, _, _, 0, 0, 0, 0, b'{', ..] => Score::NO,
            [0x80, 0..=5, ..] if look.tail.contains(&b'.') => Score::STRUCTURE,
            head if bare::begins(head) => Score::STRUCTURE,
            // Neither a model nor ours to open, but what may hold pickles is ours to scan.
            head if scan::is_suspect(look.name, head) => Score::EXTENSION,
            _ => Score::NO,
        }
    }

    fn open(&self, source: &dyn Source, limits: &Limits, options: &Options) -> Result<Box<dyn OpenModel>> {
        let prefix = options.get("prefix").filter(|prefix| !prefix.is_empty());
        let part = if options.is_part() { source.name(0) } else { String::new() };
        if !source.is_folder() {
            return open_file(source, 0, part, prefix, limits);
        }
        match choose(&source.entries()?) {
            Choice::File(name) => open_file(source, source.sibling(&name)?, part, prefix, limits),
            Choice::None => {
                Err(Error::not_found("the folder contains no checkpoint and no index of checkpoints"))
            }
            Choice::Several(names) => {
                let list: Vec<_> = names.iter().map(|name| format!("`{}`", escape(name, 120))).collect();
                let message = format!("the folder contains several models: {}", list.join(", "));
                Err(Error::invalid_argument(message).hint("specify the one to open"))
            }
        }
    }

    fn report(&self, id: &str, source: &dyn Source, limits: &Limits, _options: &Options) -> Result<Report> {
        let file = match source.is_folder().then(|| source.entries()).transpose()?.map(|all| choose(&all)) {
            None => 0,
            Some(Choice::File(name)) => source.sibling(&name)?,
            Some(_) => {
                return Err(Error::invalid_argument("the folder contains several models; specify a file"));
            }
        };
        match id {
            "scan" if index_file::is_name(&source.name(file)) => {
                let index = IndexFile::open(source, file, None, limits)?;
                let shards =
                    index.files().iter().map(|name| source.sibling(name)).collect::<Result<Vec<_>>>()?;
                scan::report(source, &shards, limits)
            }
            "scan" => scan::report(source, &[file], limits),
            "list-keys" => list_keys::report(source, file, limits),
            _ => Err(Error::unsupported(format!("this format has no report `{}`", escape(id, 80)))),
        }
        .map_err(|e| e.in_file(source.name(file)))
    }
}

fn open_file(
    source: &dyn Source,
    file: FileId,
    part: String,
    prefix: Option<&str>,
    limits: &Limits,
) -> Result<Box<dyn OpenModel>> {
    let opened: Result<Box<dyn OpenModel>> = if part.is_empty() && index_file::is_name(&source.name(file)) {
        IndexFile::open(source, file, prefix, limits).map(|index| Box::new(index) as _)
    } else {
        File::open(source, file, part, prefix, limits).and_then(|opened| {
            let opened =
                if prefix.is_some() { opened } else { opened.with_verbatim(source, file, limits)? };
            Ok(Box::new(opened) as _)
        })
    };
    opened.map_err(|e| e.in_file(source.name(file)))
}

/// What of a folder is to be opened.
enum Choice {
    None,
    File(String),
    Several(Vec<String>),
}

/// The one index of a folder, or without an index its one checkpoint.
fn choose(entries: &[String]) -> Choice {
    let mut found: Vec<_> = entries.iter().filter(|name| index_file::is_name(name)).cloned().collect();
    if found.is_empty() {
        // `.bin` alone says nothing: only the name that the common tools give it does.
        let own = |name: &String| {
            name == "pytorch_model.bin" || [".pt", ".pth", ".ckpt"].iter().any(|ext| name.ends_with(ext))
        };
        found = entries.iter().filter(|name| own(name)).cloned().collect();
    }
    match found.len() {
        0 => Choice::None,
        1 => Choice::File(found.remove(0)),
        _ => Choice::Several(found),
    }
}

/// Opens a file of any of the three layouts.
///
/// # Errors
/// Malformed, Unsupported, LimitExceeded, with file and offset.
pub fn open_checkpoint(source: &dyn Source, file: FileId, limits: &Limits) -> Result<Checkpoint> {
    let len = source.len(file)?;
    let mut head = vec![0; usize::try_from(len.min(512)).unwrap_or(0)];
    source.read_at(file, 0, &mut head)?;
    limits.budget.earn(head.len() as u64);
    if head.starts_with(ZIP_MAGIC) {
        zip_file::open(source, file, limits)
    } else if legacy_tar::is_tar(&head) {
        legacy_tar::open(source, file, limits)
    } else if head.first().is_some_and(u8::is_ascii_graphic) && head.first() == Some(&b'<') {
        let error = Error::malformed("a text page, not a checkpoint").at(0);
        Err(error.hint("get the file itself: the download is a web page"))
    } else {
        legacy_stream::open(source, file, limits)
    }
}

/// A value that cannot be read and cannot be left out: its tensors would be lost.
#[cold]
fn tensor_inside(value: &LeftOut) -> Error {
    let (path, name) = (escape(&value.path, 120), escape(&value.name, 120));
    let which = if path.is_empty() { "what was saved".to_owned() } else { format!("`{path}`") };
    let message = format!(
        "{which} is created by `{name}`, which is unknown, and contains tensors: nothing was executed"
    );
    let in_python =
        "load the file in Python and save only its tensors: `torch.save(model.state_dict(), OUT)`";
    let hint = match path.is_empty() {
        true => {
            format!(
                "run `apr scan FILE` to list everything it would import and call; if you trust it, \
                 {in_python}"
            )
        }
        false => format!(
            "pass --prefix PATH to take the tensors below another path (`apr inspect --report list-keys FILE` lists them); or, if you trust what `apr scan FILE` lists, {in_python}"
        ),
    };
    Error::unsupported(message).at(value.at).hint(hint)
}

/// What apr put beside the pickle, if it did.
fn carried(source: &dyn Source, checkpoint: &Checkpoint, limits: &Limits) -> Result<Option<Carried>> {
    let Layout::Zip(archive, folder) = &checkpoint.layout else { return Ok(None) };
    let Some(entry) = archive.find(&format!("{folder}{APR_RECORD}")) else { return Ok(None) };
    let text = archive.read(source, entry, limits)?;
    Carried::parse(&text, FORMAT, &[Member::Typed], limits).map(Some).map_err(|e| e.at(entry.data.offset))
}

/// An opened file.
pub struct File {
    checkpoint: Checkpoint,
    walked: Walked,
    placed: Vec<Placed>,
    name: String,
    carried: Option<Carried>,
    verbatim: Option<Bytes>,
}

impl File {
    /// Opens a checkpoint.
    ///
    /// # Errors
    /// Malformed, Unsupported, LimitExceeded, with file and offset.
    pub fn open(
        source: &dyn Source,
        file: FileId,
        name: String,
        prefix: Option<&str>,
        limits: &Limits,
    ) -> Result<File> {
        let mut checkpoint = open_checkpoint(source, file, limits)?;
        let walked = names::walk(&mut checkpoint.arena, checkpoint.root, prefix, limits);
        let walked = walked.map_err(|e| match e.kind() {
            ErrorKind::InvalidArgument => e,
            _ => e.at(checkpoint.at),
        })?;
        if let Some(value) = walked.left_out.iter().find(|value| value.holds_tensor) {
            return Err(tensor_inside(value));
        }
        let mut claims = Claims::new(source.len(file)?);
        let mut placed = Vec::with_capacity(walked.tensors.len());
        for (name, number) in &walked.tensors {
            let tensor = &checkpoint.arena.tensors[*number as usize];
            let located = checkpoint.located.get(tensor.storage as usize);
            let located = located.ok_or_else(|| Error::malformed("its storage is not in the file"));
            // 192 bytes: where it lies, and its view.
            limits.budget.charge(192)?;
            let place = located.and_then(|at| claims.place(&checkpoint.arena, tensor, at, checkpoint.endian));
            placed.push(place.map_err(|e| e.tensor(name).at(tensor.at))?);
        }
        let carried = carried(source, &checkpoint, limits)?;
        Ok(File { checkpoint, walked, placed, name, carried, verbatim: None })
    }
}

impl OpenModel for File {
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        self.describe_plain(sink).map_err(|e| e.in_file(source.name(self.checkpoint.file)))?;
        if let Some(carried) = &self.carried {
            carried.describe(sink)?;
        }
        Ok(())
    }

    fn stream(&self, tensor: u64) -> Result<Box<dyn Stream>> {
        let placed = usize::try_from(tensor).ok().and_then(|n| self.placed.get(n));
        let inside = placed.and_then(|placed| placed.inside.as_ref());
        let (entry, skip) = inside.ok_or_else(|| Error::invalid_argument("the tensor is not a stream"))?;
        let number = self.walked.tensors[usize::try_from(tensor).unwrap_or_default()].1;
        let tensor = &self.checkpoint.arena.tensors[number as usize];
        let left = apr_sdk::checked_payload_len(tensor.dtype, &tensor.size)?;
        Ok(Box::new(Inside { inflate: Inflate::new(entry).skipping(*skip), left }))
    }

    fn covered(&self, checksum: u64) -> Result<Box<dyn Stream>> {
        match &self.checkpoint.layout {
            Layout::Zip(archive, _) => archive.covered(checksum),
            _ => Err(Error::unsupported("the checkpoint is not a ZIP archive")),
        }
    }
}

impl File {
    /// Pushes what this format says itself.
    ///
    /// # Errors
    /// Any error from the sink.
    pub fn describe_plain(&self, sink: &mut dyn ModelSink) -> Result<()> {
        sink.foreign_file(FORMAT, &self.name, self.walked.tensors.len() as u64)?;
        for (key, value) in &self.walked.values {
            sink.foreign(key, value.clone())?;
        }
        if let Some(tree) = &self.walked.tree {
            let text = match tree.flat() {
                Some(true) => None,
                Some(false) => Some(FLAT_DICT.to_owned()),
                None => Some(tree.to_text()?),
            };
            text.map_or(Ok(()), |text| sink.foreign(TREE, Value::from_string(text)))?;
        }
        let ties = self.ties();
        if !ties.is_empty() {
            sink.foreign(TIED, Value::from_strings(&ties))?;
        }
        for (key, value) in self.carried.iter().flat_map(|carried| &carried.typed) {
            sink.foreign(key, value.clone())?;
        }
        if let Some(verbatim) = &self.verbatim {
            sink.verbatim(verbatim.clone())?;
        }
        for ((name, number), placed) in self.walked.tensors.iter().zip(&self.placed) {
            let tensor = &self.checkpoint.arena.tensors[*number as usize];
            let payload = placed.payload.clone();
            let decl = TensorDecl { name, dtype: tensor.dtype, shape: &tensor.size, payload };
            sink.tensor(decl).map_err(|e| e.at(tensor.at))?;
        }
        if let Layout::Zip(archive, _) = &self.checkpoint.layout {
            let inside = self.placed.iter().zip(0u64..);
            let inside =
                inside.filter_map(|(placed, number)| Some((placed.inside.as_ref()?.0.header, number)));
            let streams: HashMap<u64, u64> = inside.collect();
            archive.checksums(sink, &|entry| streams.get(&entry.header).copied())?;
        }
        match &self.checkpoint.layout {
            Layout::Zip(..) => {}
            Layout::Stream => sink.fact(Fact::Older("a stream of pickles, as before PyTorch 1.6"))?,
            Layout::Tar => sink.fact(Fact::Older("a tar, as before PyTorch 0.1.10"))?,
        }
        let names = self.walked.tensors.iter().map(|(name, _)| name.as_str()).collect();
        if let Some(derived) = derived::describe(&names, &self.walked.values) {
            sink.fact(Fact::Derived(derived.to_json().as_bytes().into()))?;
        }
        if let Some(root) = &self.walked.root {
            sink.fact(Fact::Note(&format!(
                "only tensors below `{root}` are read, and their names are relative to it"
            )))?;
        }
        if self.walked.tensors.is_empty() {
            sink.fact(Fact::Note("the checkpoint contains no tensors, only other values"))?;
        }
        for note in self.checkpoint.notes.iter().chain(&self.walked.notes) {
            sink.fact(Fact::Note(note))?;
        }
        Ok(())
    }

    /// The same with its verbatim form, if it needs one.
    fn with_verbatim(mut self, source: &dyn Source, file: FileId, limits: &Limits) -> Result<File> {
        if !self.walked.left_out.is_empty() {
            // What the model does not hold is not passed on unseen.
            return Ok(self);
        }
        let file_len = |file| source.len(file);
        // Of a budget of its own: what is built here is thrown away again.
        let own = Limits { budget: Budget::new(limits.budget.left() / 2), ..copied(limits) };
        let mut builder = ModelBuilder::new(FORMAT, &own, &file_len);
        let described = self.describe_plain(&mut builder).and_then(|()| match &self.carried {
            Some(carried) => carried.describe(&mut builder),
            None => Ok(()),
        });
        match described {
            Ok(()) => match kept::of_file(source, file, &builder.finish(), limits)? {
                Kept::Own => {}
                Kept::Form(form) => self.verbatim = Some(form),
                Kept::Not(why) => self
                    .walked
                    .notes
                    .push(format!("tensors {why}: rewriting the file keeps their values, but not its bytes")),
            },
            Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => return Err(error),
            // What is wrong is said when it is described to the host.
            Err(_) => {}
        }
        Ok(self)
    }

    /// `NAME=NAME` for each tensor that sees the same bytes as an earlier one.
    fn ties(&self) -> Vec<String> {
        let mut first: HashMap<(Extent, bool), &str> = HashMap::new();
        let mut ties = Vec::new();
        for ((name, _), placed) in self.walked.tensors.iter().zip(&self.placed) {
            let Some(seen) = placed.seen else { continue };
            match first.get(&seen) {
                Some(earlier) => ties.push(format!("{name}={earlier}")),
                None => {
                    first.insert(seen, name);
                }
            }
        }
        ties
    }
}

/// The caps of `limits`, with a fresh budget.
fn copied(limits: &Limits) -> Limits {
    let Limits { tensors, dims, name_bytes, metadata_keys, nesting, files, .. } = *limits;
    Limits { tensors, dims, name_bytes, metadata_keys, nesting, files, budget: Budget::default() }
}

/// A tensor inside a deflated record.
struct Inside {
    inflate: Inflate,
    left: u64,
}

impl Stream for Inside {
    fn read(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<usize> {
        if self.left == 0 {
            // The CRC-32 of the record is of all its bytes, and compared at its end.
            let mut behind = [0; 16 << 10];
            while self.inflate.read(source, &mut behind)? > 0 {}
            return Ok(0);
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len());
        if most == 0 {
            return Ok(0);
        }
        let n = self.inflate.read(source, &mut out[..most])?;
        self.left -= n as u64;
        Ok(n)
    }
}
