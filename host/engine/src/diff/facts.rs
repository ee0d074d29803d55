//! Compares what two models say besides their tensors: metadata, architecture, tokenizer, companion files.
//!
//! A difference only counts where both models could have stated the fact: both have metadata of a format,
//! both name an architecture, or both are in the same format. What only one of two formats can hold is
//! reported but does not count; nor do keys that only describe how a model is split into files.

use crate::diff::tokenizers::Tokenizers;
use crate::diff::{Fact, FactKind, FactValue};
use crate::engine::Engine;
use crate::open::OpenedModel;
use crate::wording::n_of;
use apr_sdk::{Bytes, Extent, Foreign, Result, Value};
use serde_json::Value as Json;
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
    found: Vec<Fact>,
}

/// Every difference besides the tensors.
///
/// # Errors
/// Any error from reading a value.
pub fn facts(engine: &Engine, a: &OpenedModel, b: &OpenedModel) -> Result<Vec<Fact>> {
    let mut facts = Facts { engine, a, b, found: Vec::new() };
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

    fn push(&mut self, kind: FactKind, key: &str, a: Option<FactValue>, b: Option<FactValue>) {
        let matters = self.one_format() || a.is_some() && b.is_some();
        let (format, file, key) = (String::new(), String::new(), key.to_owned());
        self.found.push(Fact { kind, format, file, key, a, b, matters });
    }

    /// Compares the dialect and the recipe, which are single words.
    fn words(&mut self) {
        let (a, b) = (&self.a.model, &self.b.model);
        let known = |word: &String| (word != "none").then(|| FactValue::Text(word.clone()));
        if a.dialect != b.dialect {
            let (one, two) = (known(&a.dialect), known(&b.dialect));
            self.push(FactKind::Dialect, "", one, two);
            // It is derived from the names, which are compared separately.
            self.found.iter_mut().for_each(|fact| fact.matters = false);
        }
        let (a, b) = (&self.a.model.recipe, &self.b.model.recipe);
        if a != b {
            let (one, two) = (a.clone().map(FactValue::Text), b.clone().map(FactValue::Text));
            self.push(FactKind::Recipe, "", one, two);
        }
    }

    fn architecture(&mut self) -> Result<()> {
        let (a, b) = (self.a.model.architecture.as_ref(), self.b.model.architecture.as_ref());
        let id = |of: Option<&apr_sdk::Architecture>| of.map(|arch| FactValue::Text(arch.id.clone()));
        if a.map(|arch| &arch.id) != b.map(|arch| &arch.id) {
            let (one, two) = (id(a), id(b));
            self.push(FactKind::Architecture, "", one, two);
        }
        if let (Some(a), Some(b)) = (a, b) {
            let (a, b) = (a.config.clone(), b.config.clone());
            self.document(FactKind::Config, Some(&a), Some(&b))?;
        }
        Ok(())
    }

    /// Returns whether two models of one format have the same bytes in all files besides the tensors', which then
    /// hold the same tokenizer.
    fn same_files(&self) -> Result<bool> {
        let files = |opened: &OpenedModel| -> Option<Vec<(String, Bytes)>> {
            let is_built = opened.model.tokenizer.is_none();
            let own = opened.model.foreign_of(&opened.format).filter(|_| is_built)?;
            let forms = own.files.iter().filter(|file| file.n_tensors == 0);
            let forms: Option<Vec<(String, Bytes)>> =
                forms.map(|file| Some((file.name.clone(), file.verbatim.clone()?))).collect();
            let assets = opened.model.assets.iter().map(|asset| (asset.name.clone(), asset.bytes.clone()));
            forms.filter(|forms| !forms.is_empty()).map(|forms| forms.into_iter().chain(assets).collect())
        };
        let (Some(of_a), Some(of_b), true) = (files(self.a), files(self.b), self.one_format()) else {
            return Ok(false);
        };
        if of_a.len() != of_b.len() {
            return Ok(false);
        }
        for ((name, one), (other, two)) in of_a.iter().zip(&of_b) {
            if name != other || !self.same(one, two)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn tokenizers(&mut self) -> Result<()> {
        let found = Tokenizers::compared(self.engine, self.a, self.b)?;
        let (a, b) = (self.a.model.tokenizer.clone(), self.b.model.tokenizer.clone());
        if found.is_open && a.is_some() && b.is_some() {
            return self.document(FactKind::Tokenizer, a.as_ref(), b.as_ref());
        }
        let [one, two] = found.words.map(|word| word.map(FactValue::Text));
        if one.is_some() || two.is_some() {
            self.push(FactKind::Tokenizer, "", one, two);
            // The files of two that are not understood are compared as they are.
            if let (Some(fact), true) = (self.found.last_mut(), found.is_open_twice) {
                fact.matters = false;
            }
        }
        for (difference, matters) in found
            .counted
            .into_iter()
            .map(|found| (found, true))
            .chain(found.uncounted.into_iter().map(|found| (found, false)))
        {
            let key = difference.place();
            let (one, two) = (FactValue::Text(difference.planned), FactValue::Text(difference.written));
            self.push(FactKind::Tokenizer, &key, Some(one), Some(two));
            self.found.last_mut().into_iter().for_each(|fact| fact.matters = matters);
        }
        for (field, n) in found.more {
            self.push(FactKind::Tokenizer, &format!("{field}: {n} more differ"), None, None);
            self.found.last_mut().into_iter().for_each(|fact| fact.matters = true);
        }
        Ok(())
    }

    /// Compares a JSON document: key by key if both are objects of moderate length, otherwise as a whole.
    fn document(&mut self, kind: FactKind, a: Option<&Bytes>, b: Option<&Bytes>) -> Result<()> {
        if let (Some(one), Some(two)) = (a, b) {
            if self.same(one, two)? {
                return Ok(());
            }
            if one.len().max(two.len()) <= LONGEST_JSON {
                let parse = |opened: &OpenedModel, bytes: &Bytes| -> Result<Option<Json>> {
                    let held = opened.fetch(bytes)?;
                    Ok(serde_json::from_slice(held.inline().unwrap_or_default()).ok())
                };
                if let (Some(Json::Object(one)), Some(Json::Object(two))) =
                    (parse(self.a, one)?, parse(self.b, two)?)
                {
                    let new = two.keys().filter(|key| !one.contains_key(*key));
                    for key in one.keys().chain(new) {
                        let (one, two) = (one.get(key), two.get(key));
                        if one != two {
                            let value = |of: Option<&Json>| of.cloned().map(FactValue::Json);
                            self.push(kind, key, value(one), value(two));
                            // Both sides have the document: a missing key is a difference.
                            if let Some(fact) = self.found.last_mut() {
                                fact.matters = true;
                            }
                        }
                    }
                    return Ok(());
                }
            }
        }
        if a.is_some() || b.is_some() {
            let size = |of: Option<&Bytes>| of.map(|bytes| FactValue::Bytes(bytes.len()));
            self.push(kind, "", size(a), size(b));
        }
        Ok(())
    }

    fn assets(&mut self) -> Result<()> {
        let (a, b) = (&self.a.model.assets, &self.b.model.assets);
        let (of_a, of_b): (HashMap<&str, &Bytes>, HashMap<&str, &Bytes>) = (
            a.iter().map(|asset| (asset.name.as_str(), &asset.bytes)).collect(),
            b.iter().map(|asset| (asset.name.as_str(), &asset.bytes)).collect(),
        );
        let new = b.iter().filter(|asset| !of_a.contains_key(asset.name.as_str()));
        for asset in a.iter().chain(new) {
            let name = asset.name.as_str();
            let (one, two) = (of_a.get(name).copied(), of_b.get(name).copied());
            if let (Some(one), Some(two)) = (one, two)
                && self.same(one, two)?
            {
                continue;
            }
            let size = |of: Option<&Bytes>| of.map(|bytes| FactValue::Bytes(bytes.len()));
            self.push(FactKind::Asset, name, size(one), size(two));
        }
        Ok(())
    }

    /// Compares the metadata of one format, key by key.
    fn metadata(&mut self, format: &str) -> Result<()> {
        let (a, b) = (self.a.model.foreign_of(format), self.b.model.foreign_of(format));
        let own = |opened: &OpenedModel| opened.format == format;
        let n_keys = |of: Option<&Foreign>| {
            of.map_or(0, |foreign| foreign.files.iter().map(|file| file.typed.len()).sum())
        };
        let both = a.is_some() && b.is_some() || own(self.a) && own(self.b);
        if !both {
            let (one, two) = (n_keys(a), n_keys(b));
            if one + two > 0 {
                let keys = |n: usize| (n > 0).then(|| FactValue::Text(n_of(n, "key")));
                self.push(FactKind::Metadata, "", keys(one), keys(two));
                if let Some(fact) = self.found.last_mut() {
                    format.clone_into(&mut fact.format);
                    fact.matters = false;
                }
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
            let (one, two) = (of_a.get(key), of_b.get(key));
            let n = one.map_or(0, Vec::len).max(two.map_or(0, Vec::len));
            for at in 0..n {
                let (one, two) = (one.and_then(|of| of.get(at)), two.and_then(|of| of.get(at)));
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
                let value =
                    |of: Option<&(&str, &Value)>| of.map(|(_, value)| FactValue::Typed((*value).clone()));
                let file = if n > 1 { one.or(two).map_or("", |(file, _)| file) } else { "" };
                self.found.push(Fact {
                    kind: FactKind::Metadata,
                    format: format.to_owned(),
                    file: file.to_owned(),
                    key: (*key).to_owned(),
                    a: value(one),
                    b: value(two),
                    matters: !of_parts,
                });
            }
        }
        Ok(())
    }

    /// Compares files of one format that have no tensors and no keys: they say something in a form of their own.
    fn files(&mut self, format: &str) -> Result<()> {
        let files = |opened: &'_ OpenedModel| -> Vec<(String, Option<Bytes>)> {
            let files = opened.model.foreign_of(format).into_iter().flat_map(|foreign| &foreign.files);
            let only_form = files.filter(|file| file.n_tensors == 0 && file.typed.is_empty());
            only_form.map(|file| (file.name.clone(), file.verbatim.clone())).collect()
        };
        let (of_a, of_b) = (files(self.a), files(self.b));
        let of = |files: &[(String, Option<Bytes>)], name: &str| -> Option<Bytes> {
            files.iter().find(|(known, _)| known == name)?.1.clone()
        };
        let new = of_b.iter().filter(|(name, _)| of_a.iter().all(|(known, _)| known != name));
        for (name, _) in of_a.iter().chain(new) {
            let (one, two) = (of(&of_a, name), of(&of_b, name));
            if one.is_none() && two.is_none() {
                continue;
            }
            if let (Some(one), Some(two)) = (&one, &two)
                && (self.same(one, two)? || self.one_document(one, two)?)
            {
                continue;
            }
            // Another format may keep what files say without their own form.
            let matters = self.one_format() || one.is_some() && two.is_some();
            let size = |of: Option<Bytes>| of.map(|bytes| FactValue::Bytes(bytes.len()));
            let (format, key) = (format.to_owned(), String::new());
            let (kind, file) = (FactKind::Metadata, name.clone());
            self.found.push(Fact { kind, format, file, key, a: size(one), b: size(two), matters });
        }
        Ok(())
    }

    /// Returns whether two files are the same JSON, written in two ways. Where tokenizers differ, their files do.
    fn one_document(&self, one: &Bytes, two: &Bytes) -> Result<bool> {
        if self.found.iter().any(|fact| fact.kind == FactKind::Tokenizer && fact.matters) {
            return Ok(false);
        }
        let parse = |opened: &OpenedModel, bytes: &Bytes| -> Result<Option<Json>> {
            let held = opened.fetch(bytes)?;
            Ok(serde_json::from_slice(held.inline().unwrap_or_default()).ok())
        };
        let one = parse(self.a, one)?;
        Ok(one.is_some() && one == parse(self.b, two)?)
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
        let (mut order, mut seen) = (Vec::new(), HashSet::new());
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

/// Returns whether two models have the same number of files, with equally many tensors in each.
fn cut_alike(a: Option<&Foreign>, b: Option<&Foreign>) -> bool {
    let counts = |of: Option<&Foreign>| -> Vec<u64> {
        of.iter().flat_map(|foreign| &foreign.files).map(|file| file.n_tensors).collect()
    };
    counts(a) == counts(b)
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
        let piece = |opened: &OpenedModel, bytes: &Bytes| match bytes {
            Bytes::Extent(extent) => {
                opened.fetch(&Bytes::Extent(Extent { offset: extent.offset + at, len, ..*extent }))
            }
            Bytes::Inline(_) => Ok(bytes.clone()),
        };
        let (one, two) = (piece(a, one)?, piece(b, two)?);
        let part = |bytes: &Bytes| -> Vec<u8> {
            let all = bytes.inline().unwrap_or_default();
            let from = if all.len() as u64 == len { 0 } else { usize::try_from(at).unwrap_or(0) };
            let len = usize::try_from(len).unwrap_or(0);
            all.get(from..from + len).unwrap_or_default().to_vec()
        };
        if part(&one) != part(&two) {
            return Ok(false);
        }
        at += len;
    }
    Ok(true)
}
