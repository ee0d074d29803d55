//! Handles tokens without a row of the embedding, for targets that need a row for each: SentencePiece tokens
//! are dropped with a warning, other tokenizers are refused.

use crate::architecture::TensorSpecs;
use crate::open::OpenedModel;
use crate::planned::PlannedModel;
use crate::planned::coverage::Dropped;
use crate::registry::Format;
use crate::wording::n_of;
use apr_sdk::tokenizer::{Spelling, Tokenizer};
use apr_sdk::{Bytes, Error, Model, Result, Tensor, escape};
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::HashSet;

/// The role of the tensor that has a row for each token.
const EMBEDDING: &str = "embedding";

/// The reason given for a dropped token.
const RULE: &str = "the embedding has no row for it";

/// What a tokenizer states of its size, which is all that most of them are asked.
#[derive(Deserialize)]
struct Stated {
    vocab_size: u32,
}

/// Drops the tokens of a model that the embedding has no row for, if `target` requires it; returns those
/// tokens and a warning, if there are any.
///
/// # Errors
/// Unsupported for tokens beyond the rows that cannot be dropped: those of another kind of tokenizer, or with
/// a purpose (`bos`, `eos`, ...); any error from reading the tokenizer.
pub fn fit(
    source: &OpenedModel,
    planned: &mut PlannedModel,
    specs: &TensorSpecs,
    target: &Format,
) -> Result<Option<(Vec<Dropped>, String)>> {
    let model = planned.model();
    let Some(json) = &model.tokenizer else { return Ok(None) };
    let Some((embedding, rows)) = embedding(model, specs) else { return Ok(None) };
    let held = source.fetch(json)?;
    let json = held.inline().unwrap_or_default();
    let rows = u32::try_from(rows).unwrap_or(u32::MAX);
    // What is no tokenizer is refused by whoever reads all of it.
    let stated = serde_json::from_slice::<Stated>(json).ok().map(|stated| stated.vocab_size);
    if stated.is_some_and(|size| (1..=rows).contains(&size)) {
        return Ok(None);
    }
    let tokenizer = Tokenizer::from_json(json)?;
    if tokenizer.vocab_size <= rows {
        return Ok(None);
    }
    let beyond: Vec<(u32, &str)> = tokenizer.each().filter(|(id, _)| *id >= rows).collect();
    refuse(&tokenizer, &beyond, embedding, rows, target)?;
    let dropped: Vec<Dropped> = beyond
        .iter()
        .map(|(id, text)| Dropped { name: format!("{id} `{}`", escape(text, 60)), rule: RULE.to_owned() })
        .collect();
    let warning = dropped.first().map(|first| {
        format!(
            "the tokenizer has {} tokens, but the embedding only {rows} rows: {} left out, starting with {}",
            tokenizer.vocab_size,
            match dropped.len() {
                1 => "1 token is".to_owned(),
                n => format!("{} are", n_of(n, "token")),
            },
            first.name,
        )
    });
    let kept = Bytes::from(without(tokenizer, rows)?.to_json());
    planned.with_rest(|rest| rest.tokenizer = Some(kept));
    Ok(warning.map(|warning| (dropped, warning)))
}

/// The tensor that has a row for each token, if the architecture's table names it, and how many rows it has.
pub fn embedding<'m>(model: &'m Model, specs: &TensorSpecs) -> Option<(&'m Tensor, u64)> {
    let mut tensors = model.tensors.iter().enumerate();
    let (_, tensor) = tensors.find(|(number, _)| specs.of(*number).role.as_deref() == Some(EMBEDDING))?;
    Some((tensor, *tensor.shape.first()?))
}

/// Fails if tokens beyond the rows cannot be dropped.
fn refuse(
    tokenizer: &Tokenizer,
    beyond: &[(u32, &str)],
    embedding: &Tensor,
    rows: u32,
    target: &Format,
) -> Result<()> {
    const HINT: &str = "remove the extra tokens from the tokenizer's files, or add rows to the embedding \
                        (resize_token_embeddings)";
    match obstacle(tokenizer, beyond, rows, target) {
        Some(message) => Err(Error::unsupported(message).tensor(&embedding.name).hint(HINT)),
        None => Ok(()),
    }
}

/// The reason why tokens beyond the rows cannot be dropped; `None` if they can.
fn obstacle(tokenizer: &Tokenizer, beyond: &[(u32, &str)], rows: u32, target: &Format) -> Option<String> {
    if tokenizer.spelling != Spelling::SentencePiece {
        let first = beyond.first().map_or_else(String::new, |(_, text)| {
            format!(" (the first without a row is `{}`)", escape(text, 60))
        });
        return Some(format!(
            "the tokenizer has {} tokens{first}, but the model's embedding only {rows} rows: {} requires a \
             row for each",
            tokenizer.vocab_size, target.manifest.name
        ));
    }
    let unk = tokenizer.unk.map(|id| ("unk", id));
    let ends = tokenizer.ends.iter().map(|id| ("eos", *id));
    let mut named = tokenizer.special.iter().map(|(name, id)| (name.as_str(), *id)).chain(unk).chain(ends);
    if let Some((name, id)) = named.find(|(_, id)| *id >= rows) {
        let name = escape(name, 40);
        let text = escape(tokenizer.token(id).unwrap_or_default(), 60);
        return Some(format!(
            "the tokenizer's `{name}` is token {id} `{text}`, but the model's embedding has only {rows} rows"
        ));
    }
    let texts: HashSet<&str> = beyond.iter().map(|(_, text)| *text).collect();
    let text = mentioned(tokenizer.post_processor.as_ref()?, &texts)?;
    Some(format!(
        "the tokenizer adds `{}` to every text, but the model's embedding of {rows} rows has none for it",
        escape(text, 60)
    ))
}

/// The first of `texts` that is a string somewhere in `json`.
fn mentioned<'j>(json: &'j Json, texts: &HashSet<&str>) -> Option<&'j str> {
    match json {
        Json::String(text) => Some(text.as_str()).filter(|text| texts.contains(text)),
        Json::Array(items) => items.iter().find_map(|item| mentioned(item, texts)),
        Json::Object(keys) => keys.values().find_map(|value| mentioned(value, texts)),
        _ => None,
    }
}

/// The tokenizer without tokens from `rows` on, and without merges that involve them.
fn without(tokenizer: Tokenizer, rows: u32) -> Result<Tokenizer> {
    let mut parts = tokenizer.into_parts();
    let n_kept = usize::try_from(rows).unwrap_or(usize::MAX);
    let gone: HashSet<String> = parts.tokens.iter_mut().skip(n_kept).filter_map(Option::take).collect();
    parts.tokens.truncate(n_kept);
    parts.types.truncate(n_kept);
    if let Some(scores) = &mut parts.scores {
        scores.truncate(n_kept);
    }
    parts.added.retain(|added| added.id < rows);
    parts.vocab_size = rows;
    parts.n_pieces = parts.n_pieces.map(|n| n.min(rows));
    let merges = std::mem::take(&mut parts.merges);
    let merges = merges.into_iter().filter(|&(left, right)| {
        let joined = parts.token(left).zip(parts.token(right)).map(|(left, right)| [left, right].concat());
        joined.is_some_and(|joined| !gone.contains(&joined))
    });
    parts.merges = merges.collect();
    Tokenizer::new(parts)
}
