//! Reads a folder: its configuration and tokenizer files, and the weights as a part in another format.

use crate::carried::Carried;
use crate::companions::Companions;
use crate::layout::{ADAPTER, CARRIED, CONFIG, FORMAT, GENERATION, MAX_JSON, MODULES, OBJECTS, TOKENIZERS};
use crate::weights::Files;
use crate::{card, config_json, json, pooling, scan, sentences, stated, tokenizer, weights};
use apr_sdk::{
    Bytes, Cursor, Error, ErrorKind, Extent, Fact, FileId, Limits, Look, ModelSink, OpenModel, Options,
    PartDecl, Reader, Report, Result, Score, Source, Value, escape, strict_json,
};
use serde_json::{Map, Value as Json};

/// The reader: of folders, of a folder by its `config.json`, and of one by one of its weights files.
pub struct HuggingFace;

impl Reader for HuggingFace {
    fn probe(&self, look: &Look<'_>) -> Score {
        if !look.is_folder {
            // Of the other files of a folder no model is made, but they may be scanned.
            let named = if scan::concerns(look.name) { Score::EXTENSION } else { Score::NO };
            return if stated::is_ours(look.name, look.head) { Score::STRUCTURE } else { named };
        }
        // What is seen is the first that is there.
        let has = |name: &&str| look.entries.iter().any(|entry| entry == name);
        let has_weights = weights::candidates(look.entries).next().is_some();
        let claim = [CONFIG, ADAPTER].into_iter().find(has);
        let is_ours = claim.is_some_and(|name| stated::is_ours(name, look.head));
        if has_weights && is_ours { Score::MAGIC } else { Score::NO }
    }

    fn open(&self, source: &dyn Source, limits: &Limits, options: &Options) -> Result<Box<dyn OpenModel>> {
        let entries = source.entries()?;
        let only = options.get(Options::ONLY);
        let mut weights = match only {
            Some(only) => weights::whole(only, &entries),
            None => weights::choose(&entries)?,
        };
        let format = weights::format_of(weights).ok_or_else(|| {
            Error::unsupported(format!("`{}` is not a weights file of the folder", escape(weights, 120)))
        })?;
        let (mut records, mut damaged, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for name in OBJECTS.iter().filter(|name| entries.iter().any(|entry| entry == *name)) {
            match object(source, name, limits) {
                Ok(record) => records.push(record),
                // Only what says which model it is must be understood.
                Err(error)
                    if ![CONFIG, ADAPTER].contains(name)
                        && matches!(error.kind(), ErrorKind::Malformed | ErrorKind::LimitExceeded) =>
                {
                    notes.push(format!(
                        "`{name}` is kept as is, since it cannot be parsed: {}",
                        error.message()
                    ));
                    let file = source.sibling(name)?;
                    damaged.push(((*name).to_owned(), Extent::new(file, 0, source.len(file)?).into()));
                }
                Err(error) => {
                    return Err(error.hint(
                        "correct it, or open only the weights: pass --bare, or --from FORMAT for a folder",
                    ));
                }
            }
        }
        for name in TOKENIZERS.iter().filter(|name| entries.iter().any(|entry| entry == *name)) {
            let file = source.sibling(name)?;
            let verbatim = Bytes::Extent(Extent::new(file, 0, source.len(file)?));
            records.push(Record { name, typed: Vec::new(), verbatim });
        }
        let typed = match entries.iter().any(|entry| entry == MODULES) {
            true => pooling::stated(source)?,
            false => Vec::new(),
        };
        if !typed.is_empty() {
            let file = source.sibling(MODULES)?;
            let verbatim = Bytes::Extent(Extent::new(file, 0, source.len(file)?));
            records.push(Record { name: MODULES, typed, verbatim });
        }
        let carried = match entries.iter().any(|entry| entry == CARRIED) {
            true => Some(Carried::read(source, limits)?),
            false => None,
        };
        let taken = |name: &str| name == weights || records.iter().any(|record| record.name == name);
        let mut companions = Companions::find(source, &entries, taken)?;
        let mut files = Files::of(source, weights, limits)?;
        if let Some(only) = only.filter(|only| !files.contain(only)) {
            // A shard that the index does not list stands alone.
            weights = only;
            files = Files::of(source, weights, limits)?;
        }
        companions.forget(&files);
        companions.assets.append(&mut damaged);
        notes.extend(companions.notes());
        let (front, odd) = card::front(source, &entries)?;
        if odd {
            notes.push("the front matter of `README.md` cannot be parsed and is ignored".to_owned());
        }
        let typed = |name: &str| records.iter().find(|r| r.name == name).map(|r| &r.typed[..]);
        let folder = if source.is_folder() { source.name(0) } else { String::new() };
        let config = typed(CONFIG).unwrap_or_default();
        let embedding = match entries.iter().any(|entry| entry == MODULES) {
            true => {
                let tokenizer = typed("tokenizer_config.json").unwrap_or_default();
                sentences::embedding(source, &card::object(config), &card::object(tokenizer))?
            }
            false => None,
        };
        let card = card::card(front.as_ref(), config, typed(GENERATION), embedding, &folder);
        let weights = weights.to_owned();
        Ok(Box::new(Folder { card, records, companions, notes, carried, weights, format }))
    }

    fn report(&self, id: &str, source: &dyn Source, limits: &Limits, _options: &Options) -> Result<Report> {
        match id {
            "scan" => scan::report(source, limits),
            _ => Err(Error::unsupported(format!("this format has no report `{}`", escape(id, 80)))),
        }
    }
}

/// One of the folder's own files.
struct Record {
    name: &'static str,
    typed: Vec<(String, Value)>,
    verbatim: Bytes,
}

/// Reads a JSON object.
fn object(source: &dyn Source, name: &'static str, limits: &Limits) -> Result<Record> {
    let file = source.sibling(name)?;
    let placed = |e: Error| e.in_file(name);
    let bytes = contents(source, file, limits).map_err(placed)?;
    let typed = config_json::flatten(&parse(&bytes).map_err(placed)?);
    Ok(Record { name, typed, verbatim: held(file, bytes) })
}

/// The bytes of a file of JSON, and room for its tree.
///
/// # Errors
/// LimitExceeded for more than [`MAX_JSON`]; any error from the source.
pub fn contents(source: &dyn Source, file: FileId, limits: &Limits) -> Result<Vec<u8>> {
    let len = source.len(file)?;
    if len > MAX_JSON {
        let message = format!("{len} bytes of JSON, more than the limit of {MAX_JSON}");
        return Err(Error::limit(message).at(0));
    }
    let bytes = Cursor::new(source, file, 0, limits)?.bytes(len)?;
    // A value of the tree takes up to 32 bytes for the two that a number and its comma have in the text.
    limits.budget.charge(len * 16)?;
    Ok(bytes)
}

/// The object that a file's bytes are.
///
/// # Errors
/// Malformed, with the offset.
pub fn parse(bytes: &[u8]) -> Result<Map<String, Json>> {
    json::parse_object(strict_json::text(bytes)?)
}

/// A whole file: held, or by its place if it is long.
fn held(file: FileId, bytes: Vec<u8>) -> Bytes {
    let len = bytes.len() as u64;
    if len > Bytes::INLINE_LIMIT { Extent::new(file, 0, len).into() } else { bytes.into() }
}

/// The files of the folder for its tokenizer.
struct Entries<'s> {
    source: &'s dyn Source,
    names: Vec<String>,
    limits: Limits,
}

impl Entries<'_> {
    fn has_folder(&self, folder: &str) -> bool {
        self.names.iter().any(|name| name.strip_suffix('/') == Some(folder))
    }
}

impl tokenizer::Files for Entries<'_> {
    fn fetch(&mut self, name: &str) -> Result<Option<Vec<u8>>> {
        let is_there = match name.split_once('/') {
            Some((folder, file)) => {
                self.has_folder(folder) && self.source.entries_of(folder)?.iter().any(|entry| entry == file)
            }
            None => self.names.iter().any(|entry| entry == name),
        };
        if !is_there {
            return Ok(None);
        }
        let file = self.source.sibling(name)?;
        let mut left = self.source.len(file)?;
        let mut cursor = Cursor::new(self.source, file, 0, &self.limits)?;
        let mut bytes = Vec::new();
        while left > 0 {
            // What reading earns pays for the next piece.
            let piece = left.min(1 << 20);
            bytes.extend_from_slice(&cursor.bytes(piece)?);
            left -= piece;
        }
        Ok(Some(bytes))
    }

    fn names(&mut self, folder: &str) -> Result<Vec<String>> {
        if self.has_folder(folder) { self.source.entries_of(folder) } else { Ok(Vec::new()) }
    }
}

/// An opened folder.
struct Folder {
    records: Vec<Record>,
    companions: Companions,
    notes: Vec<String>,
    card: Option<String>,
    carried: Option<Carried>,
    weights: String,
    format: &'static str,
}

impl OpenModel for Folder {
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        sink.fact(Fact::Dialect("hf"))?;
        for record in &self.records {
            sink.foreign_file(FORMAT, record.name, 0)?;
            for (key, value) in &record.typed {
                sink.foreign(key, value.clone())?;
            }
            sink.verbatim(record.verbatim.clone())?;
        }
        if let Some(card) = &self.card {
            sink.fact(Fact::ModelCard(card.as_str().into()))?;
        }
        if let Some(carried) = &self.carried {
            carried.describe(sink)?;
        }
        for (name, bytes) in &self.companions.assets {
            sink.asset(name, bytes.clone())?;
        }
        for note in &self.notes {
            sink.fact(Fact::Note(note))?;
        }
        let file = source.sibling(&self.weights)?;
        sink.part(PartDecl { file, range: None, format: self.format, options: Options::new() })
    }

    fn tokenizer(&self, source: &dyn Source) -> Result<Option<Vec<u8>>> {
        let mut files = Entries { source, names: source.entries()?, limits: Limits::default() };
        Ok(tokenizer::read(&mut files)?.map(|tokenizer| tokenizer.to_json()))
    }
}
