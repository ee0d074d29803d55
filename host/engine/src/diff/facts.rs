//! Compares what two models say besides their tensors: metadata, architecture, tokenizer, companion files.
//!
//! A difference only counts where both models could have stated the fact: both have metadata of a format,
//! both name an architecture, or both are in the same format. What only one of two formats can hold is
//! reported but does not count; nor do keys that only describe how a model is split into files.

use crate::diff::computations::{Computation, computations};
use crate::diff::tokenizers::Tokenizers;
use crate::diff::{Fact, FactKind, FactValue};
use crate::engine::Engine;
use crate::open::OpenedModel;
use crate::wording::n_of;
use apr_sdk::{Bytes, Extent, Foreign, ForeignFile, Result, Value};
use serde_json::{Map, Value as Json};
use std::collections::{HashMap, HashSet};

/// Bytes read at once when two long values are compared.
const PIECE: u64 = 1 << 20;
/// Bytes of a JSON document; a longer one is compared as a whole, not key by key, to save memory.
const LONGEST_JSON: u64 = 1 << 20;

/// Two models, and the differences found.
struct Facts<'a> {
    engine: &'a Engine,
    a: &'a OpenedModel,
    b: &'a OpenedModel,
    computations: Vec<Computation>,
    found: Vec<Fact>,
}

/// Every difference besides the tensors.
///
/// # Errors
/// Any error from reading a value.
pub fn facts(engine: &Engine, a: &OpenedModel, b: &OpenedModel) -> Result<Vec<Fact>> {
    let mut facts = Facts { engine, a, b, computations: computations(engine, a, b)?, found: Vec::new() };
    facts.words();
    facts.architecture()?;
    if !facts.same_files()? {
        facts.tokenizers()?;
    }
    facts.assets()?;
    let mut formats: Vec<&str> = Vec::new();
    for foreign in a.model.foreign.iter().chain(&b.model.foreign) {
        if !formats.contains(&foreign.format.as_str()) {
            formats.push(&foreign.format);
        }
    }
    for format in formats {
        facts.metadata(format)?;
    }
    Ok(facts.found)
}

impl Facts<'_> {
    fn one_format(&self) -> bool {
        self.a.format == self.b.format
    }

    /// Adds a difference that counts if both models could have stated the fact.
    fn push(&mut self, kind: FactKind, key: &str, values: [Option<FactValue>; 2]) {
        let matters = self.one_format() || values.iter().all(Option::is_some);
        self.add(kind, key, values, matters);
    }

    fn add(&mut self, kind: FactKind, key: &str, [a, b]: [Option<FactValue>; 2], matters: bool) {
        let key = key.to_owned();
        self.found.push(Fact { kind, format: String::new(), file: String::new(), key, a, b, matters });
    }

    /// Compares the dialect and the recipe, which are single words.
    fn words(&mut self) {
        let [a, b] = [&self.a.model.dialect, &self.b.model.dialect];
        if a != b {
            let words = [a, b].map(|word| (word != "none").then(|| FactValue::Text(word.clone())));
            self.push(FactKind::Dialect, "", words);
            // It is derived from the names, which are compared separately.
            for fact in &mut self.found {
                fact.matters = false;
            }
        }
        let [a, b] = [&self.a.model.recipe, &self.b.model.recipe];
        if a != b {
            self.push(FactKind::Recipe, "", [a, b].map(|recipe| recipe.clone().map(FactValue::Text)));
        }
    }

    fn architecture(&mut self) -> Result<()> {
        let [a, b] = [self.a, self.b].map(|opened| opened.model.architecture.as_ref());
        let ids = [a, b].map(|architecture| Some(&architecture?.id));
        if ids[0] != ids[1] {
            self.push(FactKind::Architecture, "", ids.map(|id| id.cloned().map(FactValue::Text)));
        }
        if let (Some(a), Some(b)) = (a, b) {
            self.document(FactKind::Config, Some(&a.config), Some(&b.config))?;
        }
        Ok(())
    }

    /// Returns whether two models of one format have the same bytes in all files besides the tensors', which then
    /// hold the same tokenizer.
    fn same_files(&self) -> Result<bool> {
        if !self.one_format() {
            return Ok(false);
        }
        let (Some(of_a), Some(of_b)) = (other_files(self.a), other_files(self.b)) else {
            return Ok(false);
        };
        if of_a.len() != of_b.len() {
            return Ok(false);
        }
        for ((name_a, bytes_a), (name_b, bytes_b)) in of_a.iter().zip(&of_b) {
            if name_a != name_b || !self.same(bytes_a, bytes_b)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn tokenizers(&mut self) -> Result<()> {
        let tokenizers = Tokenizers::compared(self.engine, self.a, self.b)?;
        let [a, b] = [self.a, self.b].map(|opened| opened.model.tokenizer.as_ref());
        if tokenizers.is_open && a.is_some() && b.is_some() {
            return self.document(FactKind::Tokenizer, a, b);
        }
        let words = tokenizers.words.map(|word| word.map(FactValue::Text));
        if words.iter().any(Option::is_some) {
            let both = self.one_format() || words.iter().all(Option::is_some);
            // The files of two that are not understood are compared as they are.
            self.add(FactKind::Tokenizer, "", words, both && !tokenizers.is_open_twice);
        }
        for (differences, matters) in [(tokenizers.counted, true), (tokenizers.uncounted, false)] {
            for difference in differences {
                let key = difference.place();
                let words = [difference.planned, difference.written].map(|word| Some(FactValue::Text(word)));
                self.add(FactKind::Tokenizer, &key, words, matters);
            }
        }
        for (field, n) in tokenizers.more {
            self.add(FactKind::Tokenizer, &format!("{field}: {n} more differences"), [None, None], true);
        }
        Ok(())
    }

    /// Compares a JSON document: key by key if both are objects of moderate length, otherwise as a whole.
    fn document(&mut self, kind: FactKind, a: Option<&Bytes>, b: Option<&Bytes>) -> Result<()> {
        if let (Some(one), Some(two)) = (a, b) {
            if self.same(one, two)? {
                return Ok(());
            }
            if one.len().max(two.len()) <= LONGEST_JSON
                && let (Some(Json::Object(one)), Some(Json::Object(two))) =
                    (document(self.a, one)?, document(self.b, two)?)
            {
                self.keys(kind, &one, &two);
                return Ok(());
            }
        }
        if a.is_some() || b.is_some() {
            self.push(kind, "", [a, b].map(|bytes| bytes.map(size)));
        }
        Ok(())
    }

    /// Compares two JSON objects, key by key.
    fn keys(&mut self, kind: FactKind, a: &Map<String, Json>, b: &Map<String, Json>) {
        let new = b.keys().filter(|key| !a.contains_key(*key));
        for key in a.keys().chain(new) {
            let values = [a.get(key), b.get(key)];
            if values[0] != values[1] {
                // Both sides have the document: a missing key is a difference.
                self.add(kind, key, values.map(|value| value.cloned().map(FactValue::Json)), true);
            }
        }
    }

    fn assets(&mut self) -> Result<()> {
        let [of_a, of_b] = [self.a, self.b].map(|opened| -> HashMap<&str, &Bytes> {
            opened.model.assets.iter().map(|asset| (asset.name.as_str(), &asset.bytes)).collect()
        });
        let new = self.b.model.assets.iter().filter(|asset| !of_a.contains_key(asset.name.as_str()));
        for asset in self.a.model.assets.iter().chain(new) {
            let name = asset.name.as_str();
            let [a, b] = [&of_a, &of_b].map(|assets| assets.get(name).copied());
            if let (Some(a), Some(b)) = (a, b)
                && self.same(a, b)?
            {
                continue;
            }
            self.push(FactKind::Asset, name, [a, b].map(|bytes| bytes.map(size)));
        }
        Ok(())
    }

    /// Compares the metadata of one format, key by key.
    fn metadata(&mut self, format: &str) -> Result<()> {
        let [a, b] = [self.a, self.b].map(|opened| opened.model.foreign_of(format));
        let is_of_both = a.is_some() && b.is_some() || self.a.format == format && self.b.format == format;
        if !is_of_both {
            let [a, b] = [a, b].map(|foreign| match n_keys(foreign) {
                0 => None,
                n => Some(FactValue::Text(n_of(n, "key"))),
            });
            if a.is_some() || b.is_some() {
                let kind = FactKind::Metadata;
                let format = format.to_owned();
                self.found.push(Fact {
                    kind,
                    format,
                    file: String::new(),
                    key: String::new(),
                    a,
                    b,
                    matters: false,
                });
            }
            return Ok(());
        }
        // Keys that the format declares as bookkeeping do not count if the two models are laid out
        // differently.
        let declared = self.engine.registry.format(format).map_or(&[][..], |f| &f.manifest.bookkeeping);
        let declared = if cut_alike(a, b) { &[] } else { declared };
        if cut_alike(a, b) {
            self.files(format)?;
        }
        let (of_a, order_a) = self.by_key(self.a, a)?;
        let (of_b, order_b) = self.by_key(self.b, b)?;
        let new = order_b.iter().filter(|key| !of_a.contains_key(*key));
        for key in order_a.iter().chain(new) {
            let [values_a, values_b] = [&of_a, &of_b].map(|of| of.get(key).map_or(&[][..], Vec::as_slice));
            let n = values_a.len().max(values_b.len());
            for at in 0..n {
                let [one, two] = [values_a, values_b].map(|values| values.get(at));
                if let (Some((_, one)), Some((_, two))) = (one, two)
                    && one.kind == two.kind
                    && self.same(&one.bytes, &two.bytes)?
                {
                    continue;
                }
                // How a model is split into files is not part of its content; nor is what differs from file
                // to file where the other side has fewer.
                let of_parts = declared.iter().any(|known| known == key)
                    || match (one, two) {
                        (Some(_), None) => n_files(a) > n_files(b) && of_a[key].len() > 1,
                        (None, Some(_)) => n_files(b) > n_files(a) && of_b[key].len() > 1,
                        _ => false,
                    };
                let values = match self.lines(format, key) {
                    Some(lines) => lines,
                    None => [one, two].map(|of| of.map(|(_, value)| FactValue::Typed((*value).clone()))),
                };
                let [a, b] = values;
                let file = if n > 1 { one.or(two).map_or("", |(file, _)| file) } else { "" };
                self.found.push(Fact {
                    kind: FactKind::Metadata,
                    format: format.to_owned(),
                    file: file.to_owned(),
                    key: (*key).to_owned(),
                    a,
                    b,
                    matters: !of_parts,
                });
            }
        }
        Ok(())
    }

    /// Lines that differ, of what two models compute besides their tensors, if a key holds that.
    fn lines(&self, format: &str, key: &str) -> Option<[Option<FactValue>; 2]> {
        let found = self.computations.iter().find(|found| found.format == format && found.key == key)?;
        let is_listed = found.lines.iter().any(Option::is_some);
        is_listed.then(|| found.lines.clone().map(|line| line.map(FactValue::Text)))
    }

    /// Compares files of one format that have no tensors and no keys: they say something in a form of their own.
    fn files(&mut self, format: &str) -> Result<()> {
        let [of_a, of_b] = [self.a, self.b].map(|opened| -> Vec<&ForeignFile> {
            let files = opened.model.foreign_of(format).into_iter().flat_map(|foreign| &foreign.files);
            files.filter(|file| file.n_tensors == 0 && file.typed.is_empty()).collect()
        });
        let new = of_b.iter().filter(|file| of_a.iter().all(|known| known.name != file.name));
        for file in of_a.iter().chain(new) {
            let [a, b] = [&of_a, &of_b].map(|files| -> Option<&Bytes> {
                files.iter().find(|known| known.name == file.name)?.verbatim.as_ref()
            });
            if a.is_none() && b.is_none() {
                continue;
            }
            if let (Some(a), Some(b)) = (a, b)
                && (self.same(a, b)? || self.one_document(a, b)?)
            {
                continue;
            }
            self.found.push(Fact {
                kind: FactKind::Metadata,
                format: format.to_owned(),
                file: file.name.clone(),
                key: String::new(),
                a: a.map(size),
                b: b.map(size),
                // Another format may keep what files say without their own form.
                matters: self.one_format() || a.is_some() && b.is_some(),
            });
        }
        Ok(())
    }

    /// Returns whether two files are the same JSON, written in two ways. Where tokenizers differ, their files do.
    fn one_document(&self, one: &Bytes, two: &Bytes) -> Result<bool> {
        if self.found.iter().any(|fact| fact.kind == FactKind::Tokenizer && fact.matters) {
            return Ok(false);
        }
        let json = document(self.a, one)?;
        Ok(json.is_some() && json == document(self.b, two)?)
    }

    /// The values of every key with their files, and the keys in order. A value repeated in all files is
    /// listed once: the number of files does not matter.
    #[allow(clippy::type_complexity, reason = "used once, and its parts are named above")]
    fn by_key<'f>(
        &self,
        opened: &OpenedModel,
        foreign: Option<&'f Foreign>,
    ) -> Result<(HashMap<&'f str, Vec<(&'f str, &'f Value)>>, Vec<&'f str>)> {
        let mut values: HashMap<&str, Vec<(&str, &Value)>> = HashMap::new();
        let mut order = Vec::new();
        let mut seen = HashSet::new();
        for file in foreign.iter().flat_map(|foreign| &foreign.files) {
            for (key, value) in &file.typed {
                if seen.insert(key.as_str()) {
                    order.push(key.as_str());
                }
                let known = values.entry(key).or_default();
                let mut repeated = false;
                for (_, other) in known.iter() {
                    repeated |= other.kind == value.kind && same(opened, &other.bytes, opened, &value.bytes)?;
                }
                if !repeated {
                    known.push((file.name.as_str(), value));
                }
            }
        }
        Ok((values, order))
    }

    fn same(&self, one: &Bytes, two: &Bytes) -> Result<bool> {
        same(self.a, one, self.b, two)
    }
}

/// Names and bytes of all files of a model besides the tensors', for one whose reader builds the tokenizer; `None` if one
/// of its format is not held as it was.
fn other_files(opened: &OpenedModel) -> Option<Vec<(&str, &Bytes)>> {
    let own = opened.model.foreign_of(&opened.format).filter(|_| opened.model.tokenizer.is_none())?;
    let mut files = Vec::new();
    for file in own.files.iter().filter(|file| file.n_tensors == 0) {
        files.push((file.name.as_str(), file.verbatim.as_ref()?));
    }
    if files.is_empty() {
        return None;
    }
    files.extend(opened.model.assets.iter().map(|asset| (asset.name.as_str(), &asset.bytes)));
    Some(files)
}

/// The JSON that these bytes hold; `None` if they hold something else.
fn document(opened: &OpenedModel, bytes: &Bytes) -> Result<Option<Json>> {
    Ok(serde_json::from_slice(opened.fetch(bytes)?.inline().unwrap_or_default()).ok())
}

fn size(bytes: &Bytes) -> FactValue {
    FactValue::Bytes(bytes.len())
}

/// Returns whether two models have the same number of files, with equally many tensors in each.
fn cut_alike(a: Option<&Foreign>, b: Option<&Foreign>) -> bool {
    let [a, b] =
        [a, b].map(|of| of.into_iter().flat_map(|foreign| &foreign.files).map(|file| file.n_tensors));
    a.eq(b)
}

fn n_keys(of: Option<&Foreign>) -> usize {
    of.map_or(0, |foreign| foreign.files.iter().map(|file| file.typed.len()).sum())
}

fn n_files(of: Option<&Foreign>) -> usize {
    of.map_or(0, |foreign| foreign.files.len())
}

/// Returns whether two byte strings of any length are equal.
fn same(a: &OpenedModel, one: &Bytes, b: &OpenedModel, two: &Bytes) -> Result<bool> {
    if one.len() != two.len() {
        return Ok(false);
    }
    let mut at = 0;
    while at < one.len() {
        let len = PIECE.min(one.len() - at);
        if piece(a, one, at, len)? != piece(b, two, at, len)? {
            return Ok(false);
        }
        at += len;
    }
    Ok(true)
}

/// A run of a byte string of any length.
fn piece(opened: &OpenedModel, bytes: &Bytes, at: u64, len: u64) -> Result<Vec<u8>> {
    let held = match bytes {
        Bytes::Extent(extent) => {
            opened.fetch(&Bytes::Extent(Extent { offset: extent.offset + at, len, ..*extent }))?
        }
        Bytes::Inline(_) => bytes.clone(),
    };
    let all = held.inline().unwrap_or_default();
    let from = if all.len() as u64 == len { 0 } else { usize::try_from(at).unwrap_or(0) };
    let len = usize::try_from(len).unwrap_or(0);
    Ok(all.get(from..from + len).unwrap_or_default().to_vec())
}
