//! What a tokenizer does to a text but llama.cpp does not: each causes a warning, and all is preserved in a
//! key of our own, which llama.cpp ignores and the reader restores.

mod added;
pub mod around;
pub mod beside;
mod bytes;
mod pieces;
mod scores;
mod words;

pub use added::take_back_texts;
pub use scores::take_back as take_back_scores;

use super::scan::Scan;
use super::write::template_names;
use super::{PRE, SPECIAL, pre};
use apr_sdk::tokenizer::{Kind, Parts, Spelling, Tokenizer, has_usual_decoder};
use apr_sdk::{Error, LayoutSink, Result, Value, escape};
use serde_json::{Map, Value as Json};

/// The key for a JSON object with `normalizer`, `pre_tokenizer`, `decoder`, `post_processor` and `added_tokens` (ids, flags
/// and texts) as in `tokenizer.json`, with `outside_model` of one that the model's own vocabulary lacks, `not_added_tokens`, ids that are not found in texts; `add_space_prefix`,
/// `ignore_merges`, `fuse_unk`, `max_word_chars`, `split_special_tokens`, `clean_up_spaces`, `truncation` and `padding` as in the SDK; `chat_template_names` for
/// those that keys have otherwise, `chat_variables` as in the SDK, `empty_chat_templates` by name, `space_first`, what llama.cpp does for the key of that name,
/// `keys`, what others said beside it, `unk`, the stated token for that purpose where the key has the model's own, `post_processor_beside`, the flags of what is added, and `eos`, the end of an answer where `eos_beside` is put behind texts and is
/// the key's. Anything absent follows from the other keys.
const TEXT: &str = "tokenizer.apr.text";
const DECODER: &str = "decoder";

const SPLITS: &str = "split_special_tokens";
const CLEANS: &str = "clean_up_spaces";
const TEMPLATES: &str = "chat_template_names";
const EMPTY: &str = "empty_chat_templates";
const VARIABLES: &str = "chat_variables";
const WHOLE: &str = "ignore_merges";
const UNK: &str = "unk";
const TRUNCATION: &str = "truncation";
const PADDING: &str = "padding";

/// The longest note that is shown, in characters. 600: those of the plugins are shorter.
const MAX_NOTE: usize = 600;

/// Adds to `keys` what llama.cpp would not do, with warnings. `name` is the model's.
pub fn carry(tokenizer: &Tokenizer, name: &str, keys: &mut Vec<(String, Value)>, sink: &mut dyn LayoutSink) {
    let mut text = Map::new();
    tokenizer.notes.iter().for_each(|note| sink.warn(&escape(note, MAX_NOTE)));
    around::carry(tokenizer, keys, &mut text, sink);
    match (tokenizer.kind, tokenizer.spelling) {
        (_, Spelling::SentencePiece) => pieces::carry(tokenizer, keys, &mut text, sink),
        (Kind::Bpe, Spelling::Bytes) => bytes::carry(tokenizer, keys, &mut text, sink),
        (Kind::WordPiece, _) => words::carry(tokenizer, keys, &mut text, sink),
        _ => {}
    }
    scores::carry(tokenizer, keys, sink);
    if !has_usual_decoder(tokenizer) {
        text.insert(DECODER.to_owned(), tokenizer.decoder.clone().unwrap_or_default());
    }
    for (key, batching) in [(TRUNCATION, &tokenizer.truncation), (PADDING, &tokenizer.padding)] {
        text.extend(batching.clone().map(|batching| (key.to_owned(), batching)));
    }
    if tokenizer.split_special_tokens {
        sink.warn(
            "llama.cpp may recognize special tokens spelled out in a text, but this tokenizer treats \
             them as ordinary text (`split_special_tokens`)",
        );
        text.insert(SPLITS.to_owned(), true.into());
    }
    if let Some(cleans) = tokenizer.clean_up_spaces.filter(|cleans| *cleans) {
        text.insert(CLEANS.to_owned(), cleans.into());
    }
    let stated = tokenizer.special_id(UNK).filter(|_| tokenizer.spelling != Spelling::Bytes);
    if let (Some(stated), Some(own)) = (stated, tokenizer.unk)
        && stated != own
    {
        text.insert(UNK.to_owned(), stated.into());
    }
    merges(tokenizer, keys, &mut text, sink);
    templates(tokenizer, &mut text, sink);
    variables(tokenizer, &mut text, sink);
    added::carry(tokenizer, name, keys, &mut text, sink);
    if !text.is_empty() {
        keys.push((TEXT.to_owned(), Value::from_string(Json::Object(text).to_string())));
    }
}

/// Adds to `text` whether a word that is a token is taken as it is, unless the pre-tokenizer's name implies it, with a warning.
fn merges(
    tokenizer: &Tokenizer,
    keys: &[(String, Value)],
    text: &mut Map<String, Json>,
    sink: &mut dyn LayoutSink,
) {
    let name = made(keys, PRE).and_then(Value::as_str);
    let implied = name.and_then(|name| pre::splitter(name).ok()).is_some_and(|known| known.ignore_merges);
    if tokenizer.kind != Kind::Bpe || tokenizer.ignore_merges == implied {
        return;
    }
    sink.warn(match implied {
        false => {
            "llama.cpp merges words that are tokens themselves, but this tokenizer keeps them whole \
             (`ignore_merges`): words without merges are tokenized differently"
        }
        true => {
            "llama.cpp keeps words whole that are tokens themselves, but this tokenizer merges them (no \
             `ignore_merges`): words without merges are tokenized differently"
        }
    });
    text.insert(WHOLE.to_owned(), tokenizer.ignore_merges.into());
}

/// Adds to `text` the names of chat templates that a key has otherwise, with a warning for templates that have no key.
fn templates(tokenizer: &Tokenizer, text: &mut Map<String, Json>, sink: &mut dyn LayoutSink) {
    let named = template_names(tokenizer);
    let (empty, full): (Vec<_>, Vec<_>) =
        tokenizer.chat_templates.iter().partition(|(_, template)| template.is_empty());
    if full.iter().any(|(name, _)| name.is_empty()) {
        sink.warn("the chat template `` is left out: the format does not allow empty names");
    }
    if let Some((name, _)) = empty.first() {
        let name = escape(name, 60);
        sink.warn(&format!("the chat template `{name}` is empty, and llama.cpp then uses one of its own"));
        text.insert(EMPTY.to_owned(), empty.iter().map(|(name, _)| name.as_str()).collect());
    }
    let others = named.into_iter().filter(|(written, name)| written != name);
    let others: Map<String, Json> = others.map(|(written, name)| (written, name.into())).collect();
    if !others.is_empty() {
        text.insert(TEMPLATES.to_owned(), Json::Object(others));
    }
}

/// The variables that llama.cpp gives chat templates of special tokens.
const GIVEN: [&str; 2] = ["bos_token", "eos_token"];

/// Adds to `text` the variables of chat templates where one that a template names is another by the other keys, with a warning.
fn variables(tokenizer: &Tokenizer, text: &mut Map<String, Json>, sink: &mut dyn LayoutSink) {
    let Some(stated) = &tokenizer.chat_variables else { return };
    let find = |list: &[(String, String)], name: &str| {
        list.iter().find(|(known, _)| known == name).map(|(_, text)| text.clone())
    };
    let is_named = |name: &str| tokenizer.chat_templates.iter().any(|(_, template)| template.contains(name));
    let mut others = tokenizer.clone().into_parts();
    others.chat_variables = None;
    others.special.retain(|(name, _)| SPECIAL.iter().any(|(known, _)| known == name));
    let others = others.variables();
    let names = stated.iter().chain(&others).map(|(name, _)| name.as_str()).filter(|name| is_named(name));
    let names: std::collections::BTreeSet<&str> = names.collect();
    for name in &names {
        let (own, other) = (find(stated, name), find(&others, name));
        let other = other.filter(|_| GIVEN.contains(name));
        if own == other {
            continue;
        }
        let shown = |text: Option<String>| {
            text.map_or("nothing".to_owned(), |text| format!("`{}`", escape(&text, 40)))
        };
        let (name, own, other) = (escape(name, 40), shown(own), shown(other));
        sink.warn(&format!(
            "`{name}` in a chat template is {own} in this tokenizer, but {other} in llama.cpp: the rendered texts differ"
        ));
    }
    if names.iter().any(|name| find(stated, name) != find(&others, name)) {
        let all: Map<String, Json> =
            stated.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect();
        text.insert(VARIABLES.to_owned(), Json::Object(all));
    }
}

/// What [`carry`] wrote, if it did.
///
/// # Errors
/// Malformed for a key with other contents.
pub fn carried(scan: &Scan<'_>) -> Result<Option<Json>> {
    let parse = |text: String| {
        let json = serde_json::from_str(&text);
        json.map_err(|e| Error::malformed(format!("metadata key `{TEXT}` is not valid JSON: {e}")))
    };
    scan.text(TEXT)?.map(parse).transpose()
}

/// Restores to `parts` what [`carry`] wrote, but for what is put around a text: [`around::take_back`].
pub fn take_back(scan: &Scan<'_>, json: &Json, parts: &mut Parts) {
    let some = |value: &Json| Some(value.clone()).filter(|value| !value.is_null());
    let flag = |key: &str| json.get(key).and_then(Json::as_bool);
    parts.split_special_tokens = flag(SPLITS).unwrap_or(false);
    parts.clean_up_spaces = flag(CLEANS);
    parts.truncation = json.get(TRUNCATION).and_then(some);
    parts.padding = json.get(PADDING).and_then(some);
    parts.ignore_merges = flag(WHOLE).unwrap_or(parts.ignore_merges);
    for (written, name) in json.get(TEMPLATES).and_then(Json::as_object).into_iter().flatten() {
        let slot = parts.chat_templates.iter_mut().find(|(other, _)| other == written);
        if let (Some((slot, _)), Some(name)) = (slot, name.as_str()) {
            name.clone_into(slot);
        }
    }
    let empty = json.get(EMPTY).and_then(Json::as_array).into_iter().flatten();
    for name in empty.filter_map(Json::as_str) {
        if parts.chat_templates.iter().all(|(known, _)| known != name) {
            parts.chat_templates.push((name.to_owned(), String::new()));
        }
    }
    if let Some(variables) = json.get(VARIABLES).and_then(Json::as_object) {
        let text = |(name, text): (&String, &Json)| Some((name.clone(), text.as_str()?.to_owned()));
        parts.chat_variables = Some(variables.iter().filter_map(text).collect());
    }
    let unk = json.get(UNK).and_then(Json::as_u64).and_then(|id| u32::try_from(id).ok());
    let unk = unk.filter(|id| parts.token(*id).is_some());
    let stated = parts.special.iter_mut().find(|(name, _)| name == UNK);
    if let (Some(id), Some((_, stated))) = (unk, stated) {
        *stated = id;
    }
    parts.fuse_unk = flag(pieces::FUSES).unwrap_or(parts.fuse_unk);
    added::take_back(json, parts);
    if let Some(decoder) = json.get(DECODER) {
        parts.decoder = some(decoder);
    }
    if parts.spelling == Spelling::SentencePiece {
        pieces::take_back(scan, json, parts);
        return;
    }
    match parts.spelling {
        Spelling::Bytes => bytes::take_back(json, parts),
        _ => words::take_back(json, parts),
    }
    if let Some(normalizer) = json.get("normalizer") {
        parts.normalizer = some(normalizer);
    }
    if let Some(pre_tokenizer) = json.get("pre_tokenizer").filter(|_| parts.kind == Kind::WordPiece) {
        parts.pre_tokenizer = some(pre_tokenizer);
    }
}

/// The value of `key` among the planned keys.
fn made<'k>(keys: &'k [(String, Value)], key: &str) -> Option<&'k Value> {
    keys.iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

/// The `type` of a step.
fn kind(step: &Json) -> &str {
    step.get("type").and_then(Json::as_str).unwrap_or("?")
}

/// The effect of leaving out a normalizer step, for a warning.
fn without(step: &Json) -> String {
    let text = |pointer: &str| step.pointer(pointer).and_then(Json::as_str);
    let pattern = text("/pattern/String").or(text("/pattern/Regex"));
    match (kind(step), pattern) {
        ("Lowercase", _) => {
            "llama.cpp does not lowercase text, but this tokenizer does (`Lowercase`): capital letters are \
             tokenized differently"
                .to_owned()
        }
        ("StripAccents", _) => {
            "llama.cpp does not strip accents, but this tokenizer does (`StripAccents`): accented letters \
             are tokenized differently"
                .to_owned()
        }
        (form @ ("NFC" | "NFD" | "NFKC" | "NFKD"), _) => format!(
            "llama.cpp does not normalize text to `{form}`, but this tokenizer does: affected characters \
             are tokenized differently"
        ),
        ("Replace", Some(pattern)) => {
            let (pattern, content) = (escape(pattern, 60), escape(text("/content").unwrap_or_default(), 60));
            format!(
                "llama.cpp does not replace `{pattern}` with `{content}`, but this tokenizer does \
                 (`Replace`): text that contains it is tokenized differently"
            )
        }
        (other, _) => {
            let other = escape(other, 40);
            format!(
                "llama.cpp does not support this tokenizer's `{other}`: affected text is tokenized \
                 differently"
            )
        }
    }
}
