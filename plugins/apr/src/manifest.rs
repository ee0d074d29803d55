//! Opens the manifest of a sharded model.

use crate::entries;
use crate::file::File;
use crate::reader::{notes, open_shard, whole_text};
use crate::shard_sums::{self, Over};
use crate::{FORMAT, layout::Footer, layout::VERSION};
use apr_sdk::{
    Checksum, Cursor, Error, Extent, Fact, FileId, Limits, ModelSink, OpenModel, Options, PartDecl, Result,
    Source, Sum, escape, strict_json,
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// An opened manifest.
pub struct Manifest {
    name: String,
    shards: Vec<Shard>,
    map: Vec<(String, u32)>,
    /// The first shard, which describes the whole model.
    first: Option<File>,
    notes: Vec<String>,
}

#[derive(Debug)]
struct Shard {
    entry: ShardEntry,
    file: FileId,
    /// Which bytes the shard's checksum covers, if there is one.
    over: Option<Over>,
}

/// One shard, as an entry of `shards`.
#[derive(Debug, Deserialize)]
struct ShardEntry {
    file: String,
    size: u64,
    crc32: Option<String>,
}

impl Manifest {
    /// Whether `head` is the start of a manifest: an object with the keys that only a manifest has.
    pub fn looks_like(head: &[u8]) -> bool {
        let has = |word: &[u8]| head.windows(word.len()).any(|there| there == word);
        let object = head.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
        (object || strict_json::is_marked(head)) && has(b"\"apr_version\"") && has(b"\"sharded\"")
    }

    /// Reads the manifest, and checks that its shards exist, have the stated lengths, and are the right ones.
    ///
    /// # Errors
    /// Malformed for a manifest that contradicts itself or a wrong shard; NotFound for a missing one.
    pub fn open(source: &dyn Source, file: FileId, limits: &Limits) -> Result<Manifest> {
        let mut cursor = Cursor::new(source, file, 0, limits)?;
        let text = whole_text(&mut cursor, "manifest")?;
        let mut manifest = Manifest { name: source.name(file), ..Manifest::parse(&text, limits)? };
        for shard in &mut manifest.shards {
            let entry = &shard.entry;
            shard.file = find(source, entry)?;
            let over = |stated| shard_sums::over(source, shard.file, entry.size, stated);
            shard.over =
                entry.crc32.as_deref().map(over).transpose().map_err(|e| e.in_file(entry.file.clone()))?;
        }
        if manifest.shards.iter().any(|shard| shard.over == Some(Over::Length)) {
            manifest.notes.push(NO_PROOF.to_owned());
        }
        let first = manifest.shards.first().map(|shard| open_shard(source, shard.file, limits));
        manifest.first = first.transpose()?;
        Ok(manifest)
    }

    /// Whether it lists a file with this name.
    pub fn lists(&self, name: &str) -> bool {
        self.shards.iter().any(|shard| shard.entry.file == name)
    }

    /// Its shards, in order.
    pub fn files(&self) -> Vec<FileId> {
        self.shards.iter().map(|shard| shard.file).collect()
    }

    fn parse(text: &str, limits: &Limits) -> Result<Manifest> {
        let entries = entries::parse("manifest", text, limits.metadata_keys).map_err(|e| e.at(0))?;
        let raw = |key: &str| entries.iter().find(|(k, _)| k == key).map(|(_, raw)| *raw);
        let placed = |key: &str, error: Error| match raw(key) {
            Some(raw) => error.at(entries::offset(text, raw)),
            None => error,
        };
        let version: String =
            value("apr_version", raw("apr_version")).map_err(|e| placed("apr_version", e))?;
        if version.split('.').next() != Some(VERSION.0.to_string().as_str()) {
            let message =
                format!("apr_version `{}` is not supported, only {}.x", escape(&version, 40), VERSION.0);
            return Err(placed("apr_version", Error::unsupported(message).code("E003")));
        }
        if !value::<bool>("sharded", raw("sharded")).map_err(|e| placed("sharded", e))? {
            return Err(placed("sharded", Error::malformed("the manifest has `sharded` set to false")));
        }
        let count: u64 = value("shard_count", raw("shard_count")).map_err(|e| placed("shard_count", e))?;
        let shards: Vec<ShardEntry> = value("shards", raw("shards")).map_err(|e| placed("shards", e))?;
        if shards.len() as u64 != count {
            let message = format!("shard_count is {count}, but `shards` lists {}", shards.len());
            return Err(placed("shard_count", Error::malformed(message)));
        }
        if count > u64::from(limits.files) {
            let message = format!("the model has {count} files, more than the limit of {}", limits.files);
            return Err(placed("shard_count", Error::limit(message)));
        }
        let mut names: Vec<_> = shards.iter().map(|shard| shard.file.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let message = format!("duplicate shard `{}`", escape(pair[0], 200));
            return Err(placed("shards", Error::malformed(message)));
        }
        let mut notes = Vec::new();
        let known = ["apr_version", "sharded", "shard_count", "shards", "tensor_shard_map"];
        for (key, _) in entries.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            notes.push(format!("the manifest's unknown key `{}` was left out", escape(key, 120)));
        }
        let map = raw("tensor_shard_map").ok_or_else(|| missing("tensor_shard_map"))?;
        let map = map_of(map, count, limits).map_err(|e| placed("tensor_shard_map", e))?;
        let shards = shards.into_iter().map(|entry| Shard { entry, file: 0, over: None }).collect();
        Ok(Manifest { name: String::new(), shards, map, first: None, notes })
    }
}

/// The note about checksums that are the same for every shard of a given length.
const NO_PROOF: &str = "the manifest's checksums are the same for every shard of the same length, as \
                        written by earlier versions of apr, and cannot identify the shards: convert the \
                        model to apr again to renew them";

fn map_of(raw: &RawValue, count: u64, limits: &Limits) -> Result<Vec<(String, u32)>> {
    let entries = entries::parse("key `tensor_shard_map`", raw.get(), limits.tensors)
        // The position within the key is not an offset in the file.
        .map_err(|e| Error::new(e.kind(), e.message()))?;
    let mut map = Vec::with_capacity(entries.len());
    for (name, raw) in entries {
        let shard: Option<u32> = serde_json::from_str(raw.get()).ok();
        let shard = shard.filter(|&shard| u64::from(shard) < count).ok_or_else(|| {
            let shown = escape(raw.get(), 40);
            Error::malformed(format!("the manifest assigns it to shard {shown}, but there are only {count}"))
                .tensor(&name)
        })?;
        map.push((name, shard));
    }
    Ok(map)
}

fn missing(key: &str) -> Error {
    Error::malformed(format!("the manifest has no `{key}`")).hint("get it again: it is truncated or corrupt")
}

fn value<'a, T: Deserialize<'a>>(key: &str, raw: Option<&'a RawValue>) -> Result<T> {
    let raw = raw.ok_or_else(|| missing(key))?;
    serde_json::from_str(raw.get()).map_err(|e| Error::malformed(format!("the manifest's `{key}`: {e}")))
}

fn find(source: &dyn Source, shard: &ShardEntry) -> Result<FileId> {
    let file = source.sibling(&shard.file).map_err(|e| match e.kind() {
        apr_sdk::ErrorKind::NotFound => Error::not_found("this shard is missing")
            .in_file(&shard.file)
            .code("E007")
            .hint("put it next to the manifest"),
        _ => e,
    })?;
    let len = source.len(file)?;
    if len == shard.size {
        return Ok(file);
    }
    let message = match shard.size.checked_sub(len) {
        Some(short) => {
            format!(
                "the file is truncated by {short} bytes: it has {len}, but the manifest states {}",
                shard.size
            )
        }
        None => format!("the file has {len} bytes, but the manifest states {}", shard.size),
    };
    Err(Error::malformed(message).at(len.min(shard.size)).in_file(&shard.file).hint("get the file again"))
}

impl OpenModel for Manifest {
    fn describe(&self, _source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        if let Some(first) = &self.first {
            first.describe_metadata(sink)?;
        }
        sink.foreign_file(FORMAT, &self.name, 0)?;
        for shard in &self.shards {
            sink.part(PartDecl { file: shard.file, range: None, format: FORMAT, options: Options::new() })?;
        }
        for (name, shard) in &self.map {
            sink.mapped(*shard, name)?;
        }
        for shard in &self.shards {
            let Some(crc32) = &shard.entry.crc32 else { continue };
            let len = match shard.over {
                Some(Over::Shard) => shard.entry.size.saturating_sub(Footer::LEN),
                Some(Over::Length) => continue,
                _ => shard.entry.size,
            };
            let covers = Extent::new(shard.file, 0, len);
            let stored = crc32.to_ascii_lowercase().as_str().into();
            sink.fact(Fact::Checksum(Checksum::raw(covers, stored, Sum::CRC32_HEX)))
                .map_err(|e| e.in_file(&self.name))?;
        }
        if self.notes.iter().any(|note| note == NO_PROOF) {
            sink.fact(Fact::Older("APR version 2 with checksums of whole shards"))?;
        }
        notes(sink, &self.notes)
    }
}
