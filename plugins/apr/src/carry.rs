//! What of a model goes into a file's metadata, and whether the source's own text can be reused.

use crate::FORMAT;
use crate::dtypes::Numbers;
use crate::metadata::{Metadata, NO_ARCHITECTURE, NO_CONFIG};
use crate::parse::Parser;
use crate::render::{Fetch, Piece, Rendered};
use apr_sdk::{
    Asset, Bytes, Error, Extent, FileId, Foreign, ForeignFile, ForeignPolicy, Limits, Model, Result, escape,
};
use serde_json::Value as Json;

/// The metadata of a file that holds these tensors of `model`. Only the `first` file describes the whole
/// model. Other programs' keys come from `own`, the files that this one replaces.
///
/// # Errors
/// Unsupported for too many dtypes without a fixed number.
pub fn metadata(
    model: &Model,
    tensors: &[usize],
    first: bool,
    own: &[OwnText],
    policy: ForeignPolicy,
) -> Result<Metadata> {
    let mut dtypes = Numbers::default();
    for &tensor in tensors {
        dtypes.add(model.tensors[tensor].dtype)?;
    }
    let mut metadata = Metadata {
        model_type: NO_ARCHITECTURE.to_owned(),
        architecture: Bytes::from(NO_CONFIG),
        dialect: model.dialect.clone(),
        recipe: None,
        dtypes,
        tokenizer: None,
        model_card: None,
        assets: Vec::new(),
        foreign: Vec::new(),
        order: order(model, tensors)?,
        unknown: Vec::new(),
        provenance: None,
    };
    for (key, value) in own.iter().flat_map(|own| &own.found.unknown) {
        if metadata.unknown.iter().all(|(known, _)| known != key) {
            metadata.unknown.push((key.clone(), value.clone()));
        }
    }
    if !first {
        return Ok(metadata);
    }
    if let Some(architecture) = &model.architecture {
        metadata.model_type.clone_from(&architecture.id);
        metadata.architecture = architecture.config.clone();
    }
    metadata.recipe.clone_from(&model.recipe);
    metadata.tokenizer.clone_from(&model.tokenizer);
    metadata.model_card.clone_from(&model.model_card);
    metadata.assets.clone_from(&model.assets);
    metadata.provenance.clone_from(&model.provenance);
    if policy != ForeignPolicy::Drop {
        let others = model.foreign.iter().filter(|f| f.format != FORMAT && !f.files.is_empty());
        metadata.foreign = others.cloned().collect();
    }
    if policy == ForeignPolicy::Typed {
        let files = metadata.foreign.iter_mut().flat_map(|f| &mut f.files);
        files.for_each(|file| file.verbatim = None);
    }
    Ok(metadata)
}

/// The names of tensors whose order their offsets do not determine: an empty tensor shares the offset of the
/// next one.
fn order(model: &Model, tensors: &[usize]) -> Result<Option<Bytes>> {
    let mut names = Vec::new();
    let mut after_empty = false;
    for (n, &tensor) in tensors.iter().enumerate() {
        let tensor = &model.tensors[tensor];
        let empty = tensor.payload_len()? == 0;
        // The last tensor of a file shares its offset with no later one.
        if after_empty || (empty && n + 1 < tensors.len()) {
            names.push(Json::from(tensor.name.as_str()));
        }
        after_empty = empty;
    }
    Ok((!names.is_empty()).then(|| Bytes::from(Json::Array(names).to_string().as_str())))
}

/// The source's own text for the metadata section, and its meaning.
pub struct OwnText {
    text: String,
    found: Metadata,
    names: Vec<String>,
}

impl OwnText {
    /// The text of `record`, if it was kept and can be parsed.
    ///
    /// # Errors
    /// Any error from reading; InvalidArgument for typed keys, which this format does not have.
    pub fn read(record: &ForeignFile, fetch: Fetch<'_>) -> Result<Option<OwnText>> {
        if let Some((key, _)) = record.typed.first() {
            let message =
                format!("metadata key `{}`: this format has no typed metadata of its own", escape(key, 120));
            return Err(Error::invalid_argument(message));
        }
        let Some(verbatim) = &record.verbatim else { return Ok(None) };
        let held = fetch(verbatim)?;
        let Some(text) = held.inline().and_then(|held| std::str::from_utf8(held).ok()) else {
            return Ok(None);
        };
        let mut names = Vec::new();
        let limits = Limits::default();
        limits.budget.earn(text.len() as u64);
        let mut resolve = |name: &str| stand_in(&mut names, name);
        let found = Parser::new(text, 0, &limits, &mut resolve).metadata().ok();
        Ok(found.map(|found| OwnText { text: text.to_owned(), found, names }))
    }

    /// The text as the new section, if reading it would give exactly `planned`.
    ///
    /// # Errors
    /// Any error from reading.
    pub fn fits(&self, planned: &Metadata, fetch: Fetch<'_>) -> Result<Option<Rendered>> {
        let mut hidden = Hidden { bytes: vec![None; self.names.len()] };
        if !hidden.same_metadata(&self.found, planned, fetch)? {
            return Ok(None);
        }
        let hidden = self.names.iter().cloned().zip(hidden.bytes);
        let hidden: Option<Vec<_>> = hidden.map(|(name, bytes)| Some((name, bytes?))).collect();
        Ok(hidden.map(|hidden| Rendered { pieces: vec![Piece::Text(self.text.clone())], hidden }))
    }
}

/// A file number that no source uses: extents in it stand for hidden tensors, by index.
const NOWHERE: FileId = FileId::MAX;

fn stand_in(names: &mut Vec<String>, name: &str) -> Result<Bytes> {
    if names.iter().any(|known| known == name) {
        return Err(Error::malformed("duplicate name of a hidden tensor"));
    }
    names.push(name.to_owned());
    Ok(Bytes::Extent(Extent::new(NOWHERE, names.len() as u64 - 1, 0)))
}

/// What the hidden tensors mentioned in a text contain, in the text's order.
struct Hidden {
    bytes: Vec<Option<Bytes>>,
}

impl Hidden {
    /// Whether the text has the same bytes as the model; hidden bytes are compared by their place.
    fn same(&mut self, found: &Bytes, planned: &Bytes, fetch: Fetch<'_>) -> Result<bool> {
        match found {
            Bytes::Extent(extent) => {
                let slot = usize::try_from(extent.offset).ok().and_then(|n| self.bytes.get_mut(n));
                Ok(slot.map(|slot| *slot = Some(planned.clone())).is_some())
            }
            Bytes::Inline(found) if found.len() as u64 != planned.len() => Ok(false),
            Bytes::Inline(found) => Ok(fetch(planned)?.inline() == Some(found)),
        }
    }

    fn same_option(
        &mut self,
        found: Option<&Bytes>,
        planned: Option<&Bytes>,
        fetch: Fetch<'_>,
    ) -> Result<bool> {
        match (found, planned) {
            (Some(found), Some(planned)) => self.same(found, planned, fetch),
            (None, None) => Ok(true),
            _ => Ok(false),
        }
    }

    fn same_metadata(&mut self, found: &Metadata, planned: &Metadata, fetch: Fetch<'_>) -> Result<bool> {
        let words =
            |m: &Metadata| (m.model_type.clone(), m.dialect.clone(), m.recipe.clone(), m.dtypes.clone());
        if words(found) != words(planned) || found.unknown.len() != planned.unknown.len() {
            return Ok(false);
        }
        for ((key, found), (planned_key, planned)) in found.unknown.iter().zip(&planned.unknown) {
            if key != planned_key || !self.same(found, planned, fetch)? {
                return Ok(false);
            }
        }
        Ok(self.same(&found.architecture, &planned.architecture, fetch)?
            && self.same_option(found.tokenizer.as_ref(), planned.tokenizer.as_ref(), fetch)?
            && self.same_option(found.model_card.as_ref(), planned.model_card.as_ref(), fetch)?
            && self.same_assets(&found.assets, &planned.assets, fetch)?
            && self.same_foreign(&found.foreign, &planned.foreign, fetch)?
            && self.same_option(found.order.as_ref(), planned.order.as_ref(), fetch)?
            && self.same_option(found.provenance.as_ref(), planned.provenance.as_ref(), fetch)?)
    }

    fn same_assets(&mut self, found: &[Asset], planned: &[Asset], fetch: Fetch<'_>) -> Result<bool> {
        if found.len() != planned.len() {
            return Ok(false);
        }
        for (found, planned) in found.iter().zip(planned) {
            if found.name != planned.name || !self.same(&found.bytes, &planned.bytes, fetch)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn same_foreign(&mut self, found: &[Foreign], planned: &[Foreign], fetch: Fetch<'_>) -> Result<bool> {
        if found.len() != planned.len() {
            return Ok(false);
        }
        for (found, planned) in found.iter().zip(planned) {
            if found.format != planned.format || found.files.len() != planned.files.len() {
                return Ok(false);
            }
            for (found, planned) in found.files.iter().zip(&planned.files) {
                if !self.same_file(found, planned, fetch)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn same_file(&mut self, found: &ForeignFile, planned: &ForeignFile, fetch: Fetch<'_>) -> Result<bool> {
        let facts = |f: &ForeignFile| (f.name.clone(), f.n_tensors, f.typed.len());
        if facts(found) != facts(planned) {
            return Ok(false);
        }
        for ((key, found), (planned_key, planned)) in found.typed.iter().zip(&planned.typed) {
            let same = key == planned_key && found.kind == planned.kind;
            if !same || !self.same(&found.bytes, &planned.bytes, fetch)? {
                return Ok(false);
            }
        }
        self.same_option(found.verbatim.as_ref(), planned.verbatim.as_ref(), fetch)
    }
}
