//! Digests of what a model is, whatever file holds it.
//!
//! ```text
//! tensors   SHA-256 of, for each tensor by the bytes of its name:
//!             name, dtype's name (each a u64 length and bytes), u64 number of dimensions, u64 dimensions, outermost first,
//!             the SHA-256 of each consecutive MiB of the payload, row-major, little-endian; the last may be shorter
//! content   SHA-256 of the digest of tensors, and of what else the model says, each text as u64 length and bytes:
//!             dialect, architecture's id and configuration, recipe, tokenizer,
//!             model card without the name of the folder it was opened from,
//!             u64 number of companion files, each with name and bytes,
//!             u64 number of formats that say something of their own; each with its id, u64 number of files; each with its name,
//!             u64 number of keys; each with name, its type's name, and bytes as they cross the plugin interface
//! ```
//!
//! Numbers are little-endian. What a model does not have is an empty text. The spelling of a header and the record of where
//! a model came from belong to neither.

use crate::crew::map;
use crate::engine::Engine;
use crate::expression::evaluate::read;
use crate::open::OpenedModel;
use crate::wording::hex;
use apr_sdk::{Bytes, Result, Tensor};
use serde::Serialize;
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

/// Bytes of payload under one digest.
const PIECE: usize = 1 << 20;

/// The digests of a model, in lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContentDigests {
    /// Of names, types, shapes and values: equal in every file that keeps these.
    pub tensors: String,
    /// Of these and everything else the model says: equal where another program reads the same.
    pub content: String,
}

/// Computes both digests; reads all payload once, several tensors at a time.
///
/// # Errors
/// Any error from reading; Cancelled.
pub fn content_digests(engine: &Engine, opened: &OpenedModel) -> Result<ContentDigests> {
    let mut order: Vec<usize> = (0..opened.model.tensors.len()).collect();
    order.sort_by(|a, b| name_of(opened, *a).as_bytes().cmp(name_of(opened, *b).as_bytes()));
    let each = map(engine.crew.as_ref(), order.len(), &|_, n| entry(engine, opened, order[n]))?;
    let mut tensors = Sha256::new();
    each.iter().for_each(|entry| tensors.update(entry));
    let tensors = tensors.finalize();
    let mut content = Text(Sha256::new());
    content.0.update(tensors);
    content.rest_of(engine, opened)?;
    Ok(ContentDigests { tensors: hex(&tensors), content: hex(&content.0.finalize()) })
}

fn name_of(opened: &OpenedModel, number: usize) -> &str {
    &opened.model.tensors[number].name
}

/// A tensor's share of the digest.
fn entry(engine: &Engine, opened: &OpenedModel, number: usize) -> Result<Vec<u8>> {
    let Tensor { name, dtype, shape, .. } = &opened.model.tensors[number];
    let mut entry = Vec::new();
    for text in [name.as_str(), dtype.name()] {
        entry.extend_from_slice(&(text.len() as u64).to_le_bytes());
        entry.extend_from_slice(text.as_bytes());
    }
    for number in [shape.len() as u64].iter().chain(shape) {
        entry.extend_from_slice(&number.to_le_bytes());
    }
    let mut piece = Sha256::new();
    let mut len = 0;
    read::stream(engine, opened, number, &mut |mut bytes| {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - len));
            piece.update(now);
            len += now.len();
            if len == PIECE {
                entry.extend_from_slice(&piece.finalize_reset());
                len = 0;
            }
            bytes = later;
        }
        Ok(())
    })?;
    if len > 0 {
        entry.extend_from_slice(&piece.finalize());
    }
    Ok(entry)
}

/// The model card without the name of the folder, empty if it says nothing else; `None` if it does not have that name.
fn card_without_folder(opened: &OpenedModel) -> Result<Option<String>> {
    let Some(card) = &opened.model.model_card else { return Ok(None) };
    let card = opened.fetch(card)?;
    let Ok(mut card) = serde_json::from_slice::<Map<String, Json>>(card.inline().unwrap_or_default()) else {
        return Ok(None);
    };
    let had = card.shift_remove("folder").is_some();
    Ok(had.then(|| if card.is_empty() { String::new() } else { Json::Object(card).to_string() }))
}

/// A digest of texts and numbers.
struct Text(Sha256);

impl Text {
    fn number(&mut self, number: usize) {
        self.0.update((number as u64).to_le_bytes());
    }

    fn text(&mut self, text: &[u8]) {
        self.number(text.len());
        self.0.update(text);
    }

    fn bytes(&mut self, opened: &OpenedModel, bytes: Option<&Bytes>) -> Result<()> {
        let Some(bytes) = bytes else {
            self.text(&[]);
            return Ok(());
        };
        let Bytes::Extent(extent) = bytes else {
            let Bytes::Inline(held) = opened.fetch(bytes)? else { return Ok(()) };
            self.text(&held);
            return Ok(());
        };
        // Long ones are read piece by piece.
        self.0.update(extent.len.to_le_bytes());
        let mut buffer = vec![0; PIECE];
        let mut at = 0;
        while at < extent.len {
            let n = usize::try_from(extent.len - at).unwrap_or(PIECE).min(PIECE);
            opened.files.read_at(extent.file, extent.offset + at, &mut buffer[..n])?;
            self.0.update(&buffer[..n]);
            at += n as u64;
        }
        Ok(())
    }

    /// Adds everything but the tensors.
    fn rest_of(&mut self, engine: &Engine, opened: &OpenedModel) -> Result<()> {
        let model = &opened.model;
        self.text(model.dialect.as_bytes());
        self.text(model.architecture.as_ref().map_or(&[], |architecture| architecture.id.as_bytes()));
        self.bytes(opened, model.architecture.as_ref().map(|architecture| &architecture.config))?;
        self.text(model.recipe.as_ref().map_or(&[], |recipe| recipe.as_bytes()));
        self.bytes(opened, opened.tokenizer(engine).unwrap_or_default().as_ref())?;
        match card_without_folder(opened)? {
            Some(card) => self.text(card.as_bytes()),
            None => self.bytes(opened, model.model_card.as_ref())?,
        }
        self.number(model.assets.len());
        for asset in &model.assets {
            self.text(asset.name.as_bytes());
            self.bytes(opened, Some(&asset.bytes))?;
        }
        self.number(model.foreign.len());
        for foreign in &model.foreign {
            self.text(foreign.format.as_bytes());
            self.number(foreign.files.len());
            for file in &foreign.files {
                self.text(file.name.as_bytes());
                self.number(file.typed.len());
                for (key, value) in &file.typed {
                    self.text(key.as_bytes());
                    self.text(value.kind.name().unwrap_or_default().as_bytes());
                    self.bytes(opened, Some(&value.bytes))?;
                }
            }
        }
        Ok(())
    }
}
