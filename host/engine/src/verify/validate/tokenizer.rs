//! Findings about a model's tokenizer.

use crate::architecture::{not_understood, tensor_specs};
use crate::engine::Engine;
use crate::open::OpenedModel;
use crate::types::token_rows;
use crate::wording::n_of;
use apr_sdk::tokenizer::Tokenizer;
use apr_sdk::{Bytes, ErrorKind, Result, escape};

/// How many names are listed in a finding. 8: there are seven usual purposes of tokens.
const MAX_NAMED: usize = 8;

/// The longest note that is shown, in characters. 600: those of the plugins are shorter.
const MAX_NOTE: usize = 600;

/// What a tokenizer says in two ways, or of ids that no token has, and the ids that the embedding has no row for.
pub fn findings(engine: &Engine, opened: &OpenedModel, json: &Bytes) -> Result<Vec<String>> {
    let json = opened.fetch(json)?;
    let tokenizer = match Tokenizer::from_json(json.inline().unwrap_or_default()) {
        Ok(tokenizer) => tokenizer,
        Err(error) => return Ok(vec![not_understood(&error)]),
    };
    let mut messages: Vec<String> = tokenizer.notes.iter().map(|note| escape(note, MAX_NOTE)).collect();
    // Of tensors that no table describes, none is known to be the embedding.
    match tensor_specs(engine, &opened.model, None) {
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => return Err(error),
        Err(_) => {}
        Ok(specs) => messages.extend(
            token_rows::embedding(&opened.model, &specs)
                .and_then(|(tensor, rows)| beyond_rows(&tokenizer, &tensor.name, rows)),
        ),
    }
    Ok(messages)
}

/// Says that tokens, or ids with a purpose, have no row among the `rows` of the embedding.
fn beyond_rows(tokenizer: &Tokenizer, embedding: &str, rows: u64) -> Option<String> {
    let unk = tokenizer.unk.map(|id| ("unk", id));
    let ends = tokenizer.ends.iter().map(|id| ("eos", *id));
    let special = tokenizer.special.iter().map(|(name, id)| (name.as_str(), *id)).chain(unk).chain(ends);
    let special: Vec<String> = special
        .filter(|(_, id)| u64::from(*id) >= rows)
        .map(|(name, id)| format!("`{}` ({id})", escape(name, 40)))
        .take(MAX_NAMED)
        .collect();
    let mut tokens = tokenizer.each().filter(|(id, _)| u64::from(*id) >= rows);
    let first = tokens.next().map(|(id, text)| {
        format!("{} (the first is {id} `{}`)", n_of(1 + tokens.count(), "token"), escape(text, 60))
    });
    let special = (!special.is_empty()).then(|| special.join(", "));
    let beyond = match (first, special) {
        (Some(first), Some(special)) => format!("{first}, nor for {special}"),
        (first, special) => first.or(special)?,
    };
    let embedding = escape(embedding, 120);
    Some(format!(
        "the embedding `{embedding}` has {}, but none for {beyond}",
        n_of(usize::try_from(rows).unwrap_or(usize::MAX), "row")
    ))
}
