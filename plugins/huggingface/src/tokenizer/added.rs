//! Tokens that other files than the vocabulary's name: made added tokens as version 5.23 of transformers makes them. What is new is
//! numbered from the first free id on: listed tokens, those with a purpose, those of named modalities, further ones.

use super::stated::{DECODER, NAMES, text};
use super::{added_token, added_type, classes, fast};
use apr_sdk::tokenizer::{Parts, Spelling, TokenType};
use apr_sdk::{Error, Result, escape};
use serde_json::{Map, Value as Json, json};
use std::collections::HashSet;

/// The key of further special tokens: a list, or an object by name.
pub const EXTRA: &str = "extra_special_tokens";
/// What version 4 calls the list.
pub const ADDITIONAL: &str = "additional_special_tokens";
/// The key of special tokens by name.
const BY_NAME: &str = "model_specific_special_tokens";

/// Returns whether a key of a configuration may name special tokens.
pub fn names_tokens(key: &str) -> bool {
    key.ends_with("_token") || [EXTRA, ADDITIONAL, BY_NAME].contains(&key)
}

/// A special token that a configuration names.
struct Named<'j> {
    text: String,
    /// Its key; that of the list for those that are listed.
    key: String,
    /// The text, or the object that has it.
    entry: &'j Json,
    /// True if version 4 of the library does not know such a key.
    is_new: bool,
}

/// The special tokens that a configuration names, in the order in which the library adds them.
fn special(said: &Json) -> Vec<Named<'_>> {
    let named = |key: &str, entry, is_new| {
        Some(Named { text: text(entry)?.to_owned(), key: key.to_owned(), entry, is_new })
    };
    let purposes = NAMES.iter().map(|name| format!("{name}_token"));
    let mut all: Vec<Named<'_>> = purposes.filter_map(|key| named(&key, said.get(&key)?, false)).collect();
    let is_other = |key: &str| key.strip_suffix("_token").is_some_and(|name| !NAMES.contains(&name));
    let object = |key: &str| said.get(key).and_then(Json::as_object);
    let keys = said.as_object().into_iter().flatten().filter(|(key, _)| is_other(key));
    let mut modal: Vec<Named<'_>> = keys.filter_map(|(key, entry)| named(key, entry, true)).collect();
    let of_extra = object(EXTRA).into_iter().flatten();
    for extra in of_extra.filter_map(|(key, entry)| named(key, entry, false)) {
        match modal.iter_mut().find(|known| known.key == extra.key) {
            Some(known) => *known = extra,
            None => modal.push(extra),
        }
    }
    if modal.is_empty() {
        let by_name = object(BY_NAME).into_iter().flatten();
        modal.extend(by_name.filter_map(|(key, entry)| named(key, entry, true)));
    }
    all.extend(modal);
    let list = |key: &'static str| {
        let items = said.get(key).and_then(Json::as_array).filter(|items| !items.is_empty());
        items.map(|items| (key, items))
    };
    let (key, items) = list(EXTRA).or_else(|| list(ADDITIONAL)).unzip();
    let listed = items.into_iter().flatten();
    all.extend(listed.filter_map(|entry| named(key.unwrap_or_default(), entry, false)));
    all
}

/// The special tokens that version 5 of the library hands to chat templates, by the name of the variable: what a configuration states
/// under a name, or what the class has. A list has no names.
pub fn variables(said: &Map<String, Json>, class: &str) -> Vec<(String, String)> {
    let (usual, recipe) = (classes::tokens(class), classes::recipe(class));
    let mut all: Vec<(String, String)> = Vec::new();
    for name in NAMES {
        let key = format!("{name}_token");
        let own = || usual.and_then(|usual| usual.get(name)).map(String::as_str);
        let text = said.get(&key).map_or_else(own, text);
        all.extend(text.map(|text| (key, text.to_owned())));
    }
    for (name, own) in recipe.into_iter().flat_map(|recipe| recipe.named()) {
        let text = said.get(name).map_or(Some(own), text);
        all.extend(text.map(|text| (name.to_owned(), text.to_owned())));
    }
    for named in special(&Json::Object(said.clone())) {
        if ![EXTRA, ADDITIONAL].contains(&named.key.as_str())
            && all.iter().all(|(name, _)| *name != named.key)
        {
            all.push((named.key, named.text));
        }
    }
    all
}

/// What `added_tokens.json` adds to the other files, in the form of a configuration's list. A token that they have under another
/// id keeps it. `own` is the configuration without `special_tokens_map.json`, whose list under the older name comes too late for a
/// token to be found before a text is normalized.
pub fn listed(
    parts: &mut Parts,
    more: &Map<String, Json>,
    said: &Map<String, Json>,
    own: &Map<String, Json>,
) -> Map<String, Json> {
    let own = Json::Object(own.clone());
    let own = special(&own).into_iter().filter(|named| named.key == ADDITIONAL);
    let own: Vec<String> = own.map(|named| named.text).collect();
    let said = Json::Object(said.clone());
    let special = special(&said);
    let mut listed = Map::new();
    for (text, id) in more {
        let Some(id) = id.as_u64().and_then(|id| u32::try_from(id).ok()) else { continue };
        let known = id_near(parts, id, text);
        if parts.added.iter().any(|added| Some(added.id) == known) {
            continue;
        }
        if let Some(known) = known.filter(|known| *known != id) {
            let text = escape(text, 60);
            parts.notes.push(format!(
                "`{text}` has id {id} in added_tokens.json, but {known} in the vocabulary, which takes \
                 precedence"
            ));
            continue;
        }
        let named: Vec<&Named<'_>> = special.iter().filter(|named| named.text == *text).collect();
        let is_early = named.iter().any(|named| {
            let purpose = named.key.strip_suffix("_token");
            named.key == EXTRA || own.contains(text) || purpose.is_some_and(|name| NAMES.contains(&name))
        });
        listed.insert(
            id.to_string(),
            json!({"content": text, "special": !named.is_empty(), "normalized": !is_early}),
        );
    }
    listed
}

/// Takes the flags from the special tokens of a configuration.
pub fn make_plain(said: &mut Map<String, Json>) {
    let texts: HashSet<String> =
        special(&Json::Object(said.clone())).into_iter().map(|named| named.text).collect();
    for (key, value) in said.iter_mut() {
        let tokens: Vec<&mut Json> = match value {
            Json::Array(items) if [EXTRA, ADDITIONAL].contains(&key.as_str()) => items.iter_mut().collect(),
            Json::Object(items) if [EXTRA, BY_NAME, DECODER].contains(&key.as_str()) => {
                items.iter_mut().map(|(_, token)| token).collect()
            }
            token if key.ends_with("_token") => vec![token],
            _ => Vec::new(),
        };
        for token in tokens {
            if let Some(own) = text(token).filter(|text| texts.contains(*text)).map(str::to_owned) {
                *token = json!({"content": own, "special": true});
            }
        }
    }
}

/// Makes added tokens of those that the configuration lists, as the library does: what it says of their flags replaces what
/// `tokenizer.json` says, and a special token is never ordinary text. `rows` is how many ids the model has; a token beyond is left
/// out, and noted.
///
/// # Errors
/// Malformed where the configuration has another text for an id than the other files.
pub fn add(parts: &mut Parts, said: &Json, rows: u32) -> Result<()> {
    let special = special(said);
    let n_known = u32::try_from(parts.tokens.len()).unwrap_or(u32::MAX);
    let is_special = |text: &str| special.iter().any(|named| named.text == text);
    let listed = said.get(DECODER).and_then(Json::as_object);
    let mut listed: Vec<(u32, &Json)> =
        listed.into_iter().flatten().filter_map(|(id, token)| Some((id.parse().ok()?, token))).collect();
    listed.sort_by_key(|(id, _)| *id);
    let mut beyond: Vec<(&str, &str)> = Vec::new();
    for (id, token) in listed {
        let Some(text) = token.get("content").and_then(Json::as_str) else { continue };
        let wrong = |message: String| {
            Err(Error::malformed(message)
                .in_file("tokenizer_config.json")
                .hint("correct `added_tokens_decoder`, or save the tokenizer with the library again"))
        };
        let shown = escape(text, 60);
        let known = id_near(parts, id, text);
        if known != Some(id)
            && let Some(other) = parts.token(id).filter(|other| *other != text)
        {
            let other = escape(other, 60);
            return wrong(format!(
                "token {id} is `{shown}` in `added_tokens_decoder`, but `{other}` in the vocabulary"
            ));
        }
        let next = u32::try_from(parts.tokens.len()).unwrap_or(u32::MAX);
        match known {
            Some(known) if known != id => {
                return wrong(format!(
                    "token `{shown}` has id {id} in `added_tokens_decoder`, but {known} in the vocabulary"
                ));
            }
            Some(_) => {}
            // The library numbers new tokens itself; one that the model has no row for is no token of it.
            None if id >= rows => {
                beyond.push((text, DECODER));
                continue;
            }
            None if id != next => {
                return wrong(format!(
                    "token `{shown}` has id {id} in `added_tokens_decoder`, but the library would assign \
                     the next free one, {next}"
                ));
            }
            None => fast::place(parts, parts.tokens.len(), id, text)?,
        }
        note_normalized(parts, id, token);
        put(parts, id, token, is_special(text), id >= n_known);
    }
    let mut by_five = Vec::new();
    let mut seen: Vec<(u32, &Json)> = Vec::new();
    let listed: HashSet<u32> = parts.added.iter().map(|added| added.id).collect();
    for Named { text, key, entry, is_new } in &special {
        let next = u32::try_from(parts.tokens.len()).unwrap_or(u32::MAX);
        let id = match id_of(parts, text) {
            Some(id) => id,
            None if next < rows && beyond.is_empty() => {
                fast::place(parts, parts.tokens.len(), next, text)?;
                next
            }
            None => {
                if let Some(listed) = beyond.iter_mut().find(|(other, _)| other == text) {
                    listed.1 = key;
                } else {
                    beyond.push((text, key));
                }
                continue;
            }
        };
        // A piece that is said to pad, and is an ordinary one, is found as such.
        let is_piece =
            parts.spelling == Spelling::SentencePiece && parts.type_of(id) == TokenType::Normal && id < next;
        // Of several statements the last one counts that is not one of the others again.
        let is_again = seen.contains(&(id, *entry));
        seen.push((id, *entry));
        if !is_piece && !is_again && !listed.contains(&id) {
            let is_first = parts.added.iter().all(|added| added.id != id);
            let is_text = entry.get("special").and_then(Json::as_bool) == Some(false);
            put(parts, id, entry, !is_text || key.ends_with("_token"), id >= n_known);
            if *is_new && is_first {
                by_five.push((&**text, &**key));
            }
        }
    }
    note_beyond(parts, &beyond, rows);
    if !by_five.is_empty() {
        let tokens = shown(&by_five);
        parts.notes.push(format!(
            "tokenizer_config.json defines the added tokens {tokens}: transformers 5 and apr \
             use them, transformers 4 does not"
        ));
    }
    let n = parts.tokens.len();
    if let Some(scores) = &mut parts.scores {
        scores.resize(n, 0.0);
    }
    Ok(())
}

/// Notes tokens that are left out, for the model has no rows for them.
fn note_beyond(parts: &mut Parts, beyond: &[(&str, &str)], rows: u32) {
    if beyond.is_empty() {
        return;
    }
    let (tokens, are) = (shown(beyond), if beyond.len() == 1 { "it is" } else { "they are" });
    parts.notes.push(format!(
        "the tokenizer's configuration adds {tokens} to the vocabulary, but the model has only {rows} ids: \
         {are} left out"
    ));
}

/// Tokens with their keys, in words.
fn shown(tokens: &[(&str, &str)]) -> String {
    /// Tokens that are named.
    const NAMED: usize = 4;
    let one = |(text, key): &(&str, &str)| format!("`{}` (`{}`)", escape(text, 40), escape(key, 40));
    let named: Vec<String> = tokens.iter().take(NAMED).map(one).collect();
    let more = match tokens.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", named.join(", "))
}

/// The id of a text that is expected at `id`: thousands of tokens may be listed, which are not to be searched for one by one.
fn id_near(parts: &Parts, id: u32, text: &str) -> Option<u32> {
    if parts.token(id) == Some(text) { Some(id) } else { id_of(parts, text) }
}

fn id_of(parts: &Parts, text: &str) -> Option<u32> {
    parts.each().find(|(_, token)| *token == text).map(|(id, _)| id)
}

/// Notes where the configuration lists an added token with another flag than tokenizer.json.
fn note_normalized(parts: &mut Parts, id: u32, token: &Json) {
    let Some(was) = parts.added.iter().find(|added| added.id == id) else { return };
    let is = added_token(id, token).normalized;
    if was.normalized != is && parts.normalizer.is_some() {
        let shown = escape(parts.token(id).unwrap_or_default(), 60);
        parts.notes.push(format!(
            "the added token `{shown}` has `normalized` {is} in tokenizer_config.json and {} in tokenizer.json: version 5 of \
             transformers and apr go by the former, version 4 by the latter",
            !is
        ));
    }
}

/// Makes a token an added one with the flags of `token`, which may be a text alone. `is_new` if no other file has the token.
fn put(parts: &mut Parts, id: u32, token: &Json, special: bool, is_new: bool) {
    let was = parts.added.iter().position(|added| added.id == id);
    let mut made = added_token(id, token);
    made.special |= special;
    made.outside_model = was.map_or(is_new, |at| parts.added[at].outside_model);
    let special = made.special;
    let text = parts.token(id).unwrap_or_default().to_owned();
    let changes = was.is_none_or(|at| parts.added[at].special != special);
    match was {
        Some(at) => parts.added[at] = made,
        None => parts.added.push(made),
    }
    let keeps = [TokenType::Unknown, TokenType::Byte].contains(&parts.type_of(id));
    if let Some(kind) = parts.types.get_mut(id as usize).filter(|_| changes && !keeps) {
        *kind = added_type(special, &text);
    }
}
