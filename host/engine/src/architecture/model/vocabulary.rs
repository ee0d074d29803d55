//! The numbers of a model's tokens, for tensors that are made of their rows.

use crate::engine::Engine;
use crate::open::OpenedModel;
use apr_sdk::tokenizer::Tokenizer;
use apr_sdk::{Bytes, Result};
use std::cell::OnceCell;

/// A model's tokens, read when a table first asks for one.
pub(in crate::architecture) struct Vocabulary<'a> {
    engine: &'a Engine,
    source: &'a OpenedModel,
    /// The tokenizer's JSON, where it has been read already.
    json: Option<Bytes>,
    tokenizer: OnceCell<Option<Tokenizer>>,
}

impl<'a> Vocabulary<'a> {
    /// The tokens of a model, of which `json` is the tokenizer if that is known.
    pub fn new(engine: &'a Engine, source: &'a OpenedModel, json: Option<&Bytes>) -> Vocabulary<'a> {
        Vocabulary { engine, source, json: json.cloned(), tokenizer: OnceCell::new() }
    }

    /// The number of the token with this text; `None` if the model has no such token, or no tokenizer.
    ///
    /// # Errors
    /// Any error from reading the tokenizer.
    pub fn id(&self, text: &str) -> Result<Option<u64>> {
        let tokenizer = match self.tokenizer.get() {
            Some(tokenizer) => tokenizer,
            None => {
                let read = self.read()?;
                self.tokenizer.get_or_init(|| read)
            }
        };
        let mut tokens = tokenizer.iter().flat_map(|tokenizer| tokenizer.each());
        Ok(tokens.find(|(_, own)| *own == text).map(|(id, _)| u64::from(id)))
    }

    fn read(&self) -> Result<Option<Tokenizer>> {
        let json = match &self.json {
            Some(json) => Some(json.clone()),
            None => self.source.tokenizer(self.engine)?,
        };
        let Some(json) = json else { return Ok(None) };
        let held = self.source.fetch(&json)?;
        Tokenizer::from_json(held.inline().unwrap_or_default()).map(Some)
    }
}
