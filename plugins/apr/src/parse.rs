//! Parses the metadata section. Values that are only carried stay unparsed.

use crate::dtypes::{FIRST_NAMED, LAST_NAMED, Named, Numbers};
use crate::entries::{self, Entries};
use crate::layout::HIDDEN;
use crate::metadata::{FOREIGN, KNOWN, Metadata, place};
use apr_sdk::{
    Asset, BlockType, Bytes, Error, Foreign, ForeignFile, Limits, Result, Value, ValueType, escape, json,
};
use serde_json::{Value as Json, value::RawValue};

/// The most memory that a parsed JSON value takes per byte of text: a tree of one-digit numbers.
const TREE_BYTES: u64 = 96;

/// A parser for the section.
pub struct Parser<'a> {
    text: &'a str,
    offset: u64,
    limits: &'a Limits,
    /// The most that was charged for one parsed value: only one exists at a time.
    peak: u64,
    resolve: &'a mut dyn FnMut(&str) -> Result<Bytes>,
}

impl<'a> Parser<'a> {
    /// A parser for `text` at `offset`; `resolve` returns the contents of a hidden tensor.
    pub fn new(
        text: &'a str,
        offset: u64,
        limits: &'a Limits,
        resolve: &'a mut dyn FnMut(&str) -> Result<Bytes>,
    ) -> Parser<'a> {
        Parser { text, offset, limits, peak: 0, resolve }
    }

    /// Parses the section.
    ///
    /// # Errors
    /// Malformed for anything but a JSON object, duplicate or missing keys, and values of the wrong type;
    /// LimitExceeded.
    pub fn metadata(mut self) -> Result<Metadata> {
        let entries = self.object("metadata", self.text)?;
        let raw = |key: &str| entries.iter().find(|(k, _)| k == key).map(|(_, raw)| *raw);
        let required = |key: &str| {
            raw(key).ok_or_else(|| {
                Error::malformed(format!("the metadata has no `{key}`"))
                    .at(self.offset)
                    .hint("write the file again: the format requires this key")
            })
        };
        let (version, model_type) = (required("apr_version")?, required("model_type")?);
        let architecture = required("architecture")?;
        self.string("apr_version", version)?;
        let optional = |key: &str| raw(key).map(|raw| self.string(key, raw)).transpose();
        let (dialect, recipe) = (optional("dialect")?, optional("recipe")?);
        let model_type = self.string("model_type", model_type)?;
        let block_types = raw("block_types").map_or(Ok(Vec::new()), |raw| self.block_types(raw))?;
        let dtypes = raw("dtypes").map_or(Ok(Numbers::default()), |raw| self.dtypes(raw, &block_types))?;
        let architecture = self.carried(architecture)?;
        let tokenizer = raw("tokenizer").map(|raw| self.carried(raw)).transpose()?;
        let model_card = raw("model_card").map(|raw| self.carried(raw)).transpose()?;
        let assets = raw("assets").map_or(Ok(Vec::new()), |raw| self.assets(raw))?;
        let mut foreign = Vec::new();
        for (key, raw) in &entries {
            if let Some(format) = key.strip_prefix(FOREIGN) {
                foreign.push(self.foreign(format, raw)?);
            }
        }
        let order = raw("order").map(|raw| self.carried(raw)).transpose()?;
        let mut unknown = Vec::new();
        for (key, raw) in &entries {
            if !KNOWN.contains(&key.as_str()) && !key.starts_with(FOREIGN) {
                unknown.push((key.clone(), self.held(raw)?));
            }
        }
        let provenance = raw("provenance").map(|raw| self.held(raw)).transpose()?;
        Ok(Metadata {
            model_type,
            architecture,
            dialect: dialect.unwrap_or_else(|| "none".to_owned()),
            recipe,
            dtypes,
            tokenizer,
            model_card,
            assets,
            foreign,
            order,
            unknown,
            provenance,
        })
    }

    /// The offset in the file of `inside`, a slice of the text.
    fn place(&self, inside: &str) -> u64 {
        self.offset + inside.as_ptr().addr().saturating_sub(self.text.as_ptr().addr()) as u64
    }

    fn object<'t>(&self, what: &str, text: &'t str) -> Result<Entries<'t>> {
        let at = self.place(text);
        let entries = entries::parse(what, text, self.limits.metadata_keys).map_err(|e| {
            let column = e.offset().unwrap_or_default();
            Error::new(e.kind(), e.message()).at(at + column)
        })?;
        // Each key, its position, and the set that checks for duplicates.
        let cost = entries.iter().map(|(key, _)| 2 * key.len() as u64 + 120).sum();
        self.limits.budget.charge(cost).map_err(|e| e.at(at))?;
        Ok(entries)
    }

    fn wrong(&self, key: &str, wanted: &str, raw: &RawValue) -> Error {
        Error::malformed(format!("metadata key `{}` is not {wanted}", escape(key, 120)))
            .at(self.place(raw.get()))
    }

    fn string(&self, key: &str, raw: &RawValue) -> Result<String> {
        serde_json::from_str(raw.get()).map_err(|_| self.wrong(key, "a text", raw))
    }

    /// The value's text, in memory.
    fn held(&self, raw: &RawValue) -> Result<Bytes> {
        self.limits.budget.charge(raw.get().len() as u64).map_err(|e| e.at(self.place(raw.get())))?;
        Ok(Bytes::from(raw.get()))
    }

    /// The value's text, in memory or in a hidden tensor.
    fn carried(&mut self, raw: &RawValue) -> Result<Bytes> {
        match place(raw.get()) {
            Some(name) => self.hidden(&name, raw),
            None => self.held(raw),
        }
    }

    fn hidden(&mut self, name: &str, raw: &RawValue) -> Result<Bytes> {
        if !name.starts_with(HIDDEN) {
            return Err(self.wrong("at", "the name of a hidden tensor", raw));
        }
        (self.resolve)(name).map_err(|e| e.at(self.place(raw.get())))
    }

    fn block_types(&self, raw: &RawValue) -> Result<Vec<BlockType>> {
        let mut blocks = Vec::new();
        for (name, sizes) in self.object("key `block_types`", raw.get())? {
            let text = self.string("block_types", sizes)?;
            blocks.push(BlockType::parse(&name, &text).map_err(|e| e.at(self.place(sizes.get())))?);
        }
        Ok(blocks)
    }

    fn dtypes(&self, raw: &RawValue, blocks: &[BlockType]) -> Result<Numbers> {
        let mut numbers = Numbers::default();
        for (key, name) in self.object("key `dtypes`", raw.get())? {
            let number = key.parse().ok().filter(|n| (FIRST_NAMED..=LAST_NAMED).contains(n));
            let number = number.ok_or_else(|| self.wrong("dtypes", "a map from 128 to 254 to names", raw))?;
            let name = self.string("dtypes", name)?;
            let block = blocks.iter().find(|block| block.name() == name).cloned();
            numbers.named.push(Named { number, name, block });
        }
        numbers.named.sort();
        Ok(numbers)
    }

    fn assets(&mut self, raw: &RawValue) -> Result<Vec<Asset>> {
        let mut assets = Vec::new();
        for (name, raw) in self.object("key `assets`", raw.get())? {
            let bytes = self.byte_string("assets", raw)?;
            assets.push(Asset { name, bytes });
        }
        Ok(assets)
    }

    /// A byte string: text, `{"b64":…}` or `{"at":…}`.
    fn byte_string(&mut self, key: &str, raw: &RawValue) -> Result<Bytes> {
        if let Some(name) = place(raw.get()) {
            return self.hidden(&name, raw);
        }
        let tree = self.tree(raw)?;
        let bytes = json::bytes_from_json(&tree).map_err(|_| self.wrong(key, "a byte string", raw))?;
        self.limits.budget.charge(bytes.len() as u64).map_err(|e| e.at(self.place(raw.get())))?;
        Ok(Bytes::from(bytes))
    }

    /// The parsed value, which must be dropped before the next is parsed.
    fn tree(&mut self, raw: &RawValue) -> Result<Json> {
        let at = self.place(raw.get());
        let cost = (raw.get().len() as u64).saturating_mul(TREE_BYTES);
        if cost > self.peak {
            self.limits.budget.charge(cost - self.peak).map_err(|e| e.at(at))?;
            self.peak = cost;
        }
        serde_json::from_str(raw.get()).map_err(|e| Error::malformed(format!("a metadata value: {e}")).at(at))
    }

    fn foreign(&mut self, format: &str, raw: &RawValue) -> Result<Foreign> {
        let mut foreign = Foreign::new(format);
        let what = format!("key `{FOREIGN}{}`", escape(format, 64));
        let entries = self.object(&what, raw.get())?;
        let files = entries.iter().find(|(key, _)| key == "files").map(|(_, raw)| *raw);
        let files: Option<Vec<&RawValue>> = files.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let files = files.ok_or_else(|| self.wrong(&what, "a record with a list `files`", raw))?;
        for file in files {
            let record = self.file(&what, file)?;
            foreign.files.push(record);
        }
        Ok(foreign)
    }

    fn file(&mut self, what: &str, raw: &RawValue) -> Result<ForeignFile> {
        let mut file = ForeignFile::default();
        let mut n_tensors = None;
        for (key, raw) in self.object(what, raw.get())? {
            match key.as_str() {
                "name" => file.name = self.string("name", raw)?,
                "n_tensors" => n_tensors = serde_json::from_str(raw.get()).ok(),
                "typed" => {
                    for (key, raw) in self.object(what, raw.get())? {
                        let value = self.value(&key, raw)?;
                        file.typed.push((key, value));
                    }
                }
                "verbatim" => file.verbatim = Some(self.byte_string("verbatim", raw)?),
                _ => {}
            }
        }
        file.n_tensors = n_tensors.ok_or_else(|| self.wrong("n_tensors", "a count", raw))?;
        Ok(file)
    }

    fn value(&mut self, key: &str, raw: &RawValue) -> Result<Value> {
        let tree = self.tree(raw)?;
        let Some(place) = tree.get("at") else {
            let value = json::value_from_json(&tree).map_err(|e| {
                Error::new(e.kind(), format!("metadata key `{}`: {}", escape(key, 120), e.message()))
                    .at(self.place(raw.get()))
            })?;
            self.limits.budget.charge(value.bytes.len()).map_err(|e| e.at(self.place(raw.get())))?;
            return Ok(value);
        };
        let kind = tree.get("t").and_then(Json::as_str).and_then(ValueType::from_name);
        let kind = kind.ok_or_else(|| self.wrong(key, "a typed value", raw))?;
        let name = place.as_str().unwrap_or_default().to_owned();
        drop(tree);
        Ok(Value { kind, bytes: self.hidden(&name, raw)? })
    }
}
