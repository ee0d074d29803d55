//! What a folder states of its special tokens, together with what the class of its tokenizer has where the folder says nothing.
//! classes.json lists these classes: tests/tokenizers/classes.py reads them out of transformers.

use super::{added_token, added_type, class, fast};
use apr_sdk::tokenizer::{Around, Kind, Parts, Spelling, TokenType, post_processor, steps};
use apr_sdk::{Error, Result, escape};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The special tokens of each class, the class of each type of models, and the steps that version 5 of the library makes anew.
struct Classes {
    tokens: HashMap<String, HashMap<String, String>>,
    of_models: HashMap<String, String>,
    steps: HashMap<String, Json>,
}

static CLASSES: LazyLock<Classes> = LazyLock::new(|| {
    let read = |key: &str| {
        let json: Json = serde_json::from_str(include_str!("classes.json")).unwrap_or_default();
        json.get(key).cloned().unwrap_or_default()
    };
    Classes {
        tokens: serde_json::from_value(read("classes")).unwrap_or_default(),
        of_models: serde_json::from_value(read("models")).unwrap_or_default(),
        steps: serde_json::from_value(read("steps")).unwrap_or_default(),
    }
});

/// What the purposes of special tokens are called.
const NAMES: [&str; 7] = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"];

/// The class of a folder's tokenizer, without `Fast`: the one that a file names, or that its type of models has. Empty if neither
/// is known.
pub fn class(said: Option<&Json>, config: Option<&Json>) -> String {
    let text = |json: Option<&Json>, key: &str| json?.get(key)?.as_str().map(str::to_owned);
    let of_model = || CLASSES.of_models.get(&text(config, "model_type")?).cloned();
    let named = text(said, "tokenizer_class").or_else(|| text(config, "tokenizer_class")).or_else(of_model);
    named.map(|class| class.trim_end_matches("Fast").to_owned()).unwrap_or_default()
}

/// The configuration with what else decides on special tokens: `special_tokens_map.json`, which counts where the configuration
/// does not list added tokens, and the class, where nothing is said and the vocabulary has the token.
pub fn whole(said: Option<&Json>, map: Option<&Json>, class: &str, parts: &Parts) -> Option<Json> {
    let mut whole = said.and_then(Json::as_object).cloned().unwrap_or_default();
    let listed = whole.contains_key("added_tokens_decoder");
    let mapped = map.and_then(Json::as_object).filter(|_| !listed).into_iter().flatten();
    let is_role = |key: &str| key.strip_suffix("_token").is_some_and(|name| NAMES.contains(&name));
    for (key, value) in mapped.filter(|(key, value)| is_role(key) && !value.is_null()) {
        whole.insert(key.clone(), value.clone());
    }
    let known = CLASSES.tokens.get(class);
    for (name, text) in NAMES.iter().filter_map(|name| Some((name, known?.get(*name)?))) {
        let key = format!("{name}_token");
        if !whole.contains_key(&key) && parts.each().any(|(_, token)| token == text) {
            whole.insert(key, text.as_str().into());
        }
    }
    (said.is_some() || !whole.is_empty()).then_some(Json::Object(whole))
}

/// The special tokens that a configuration names: the texts, and the objects that some of them are.
fn special(said: &Json) -> Vec<(String, &Json)> {
    let entry = |name: &&str| {
        let entry = said.get(format!("{name}_token"))?;
        let text = entry.as_str().or_else(|| entry.get("content")?.as_str())?;
        Some((text.to_owned(), entry))
    };
    let more = ["additional_special_tokens", "extra_special_tokens"];
    let more = more.iter().filter_map(|key| said.get(*key)?.as_array()).flatten();
    // Version 5 has tokens of further purposes, by name.
    let named = more_named(said);
    let more = more.chain(named).filter_map(|entry| {
        Some((entry.as_str().or_else(|| entry.get("content")?.as_str())?.to_owned(), entry))
    });
    NAMES.iter().filter_map(entry).chain(more).collect()
}

fn more_named(said: &Json) -> impl Iterator<Item = &Json> {
    said.get("extra_special_tokens").and_then(Json::as_object).into_iter().flat_map(|map| map.values())
}

/// Makes added tokens of those that the configuration lists, as the library does: what it says of their flags replaces what
/// `tokenizer.json` says, and a special token is never ordinary text. `rows` is how many ids the model has.
///
/// # Errors
/// Malformed where the configuration has another text for an id than the other files.
pub fn add(parts: &mut Parts, said: &Json, rows: u32) -> Result<()> {
    let special = special(said);
    let n_known = u32::try_from(parts.tokens.len()).unwrap_or(u32::MAX);
    let is_special = |text: &str| special.iter().any(|(other, _)| other == text);
    let listed = said.get("added_tokens_decoder").and_then(Json::as_object);
    let mut listed: Vec<(u32, &Json)> =
        listed.into_iter().flatten().filter_map(|(id, token)| Some((id.parse().ok()?, token))).collect();
    listed.sort_by_key(|(id, _)| *id);
    for (id, token) in listed {
        let Some(text) = token.get("content").and_then(Json::as_str) else { continue };
        let known = ids_of(parts, text);
        if known != Some(id) && parts.token(id).is_some_and(|other| other != text) {
            let (text, other) = (escape(text, 60), escape(parts.token(id).unwrap_or_default(), 60));
            return Err(Error::malformed(format!(
                "token {id} is `{text}` there, and `{other}` in the vocabulary"
            ))
            .in_file("tokenizer_config.json")
            .hint("correct `added_tokens_decoder`, or save the tokenizer with the library again"));
        }
        let next = u32::try_from(parts.tokens.len()).unwrap_or(u32::MAX);
        match known {
            Some(known) if known != id => {
                let text = escape(text, 60);
                return Err(Error::malformed(format!(
                    "token `{text}` has the id {id} there, and {known} in the vocabulary"
                ))
                .in_file("tokenizer_config.json")
                .hint("correct `added_tokens_decoder`, or save the tokenizer with the library again"));
            }
            Some(_) => {}
            // The library numbers new tokens itself; one that the model has no row for is no token of it.
            None if id >= rows.max(next) => continue,
            None if id != next => {
                let text = escape(text, 60);
                return Err(Error::malformed(format!(
                    "token `{text}` has the id {id} there, and the library would give it {next}, the first that is free"
                ))
                .in_file("tokenizer_config.json")
                .hint("correct `added_tokens_decoder`, or save the tokenizer with the library again"));
            }
            None if id >= rows => continue,
            None => fast::place(parts, parts.tokens.len(), id, text)?,
        }
        put(parts, id, token, is_special(text), id >= n_known);
    }
    for (text, entry) in &special {
        let next = u32::try_from(parts.tokens.len()).unwrap_or(u32::MAX);
        let id = match ids_of(parts, text) {
            Some(id) => id,
            None if next < rows => {
                fast::place(parts, parts.tokens.len(), next, text)?;
                next
            }
            None => continue,
        };
        // A piece that is said to pad, and is an ordinary one, is found as such.
        let is_piece =
            parts.spelling == Spelling::SentencePiece && parts.type_of(id) == TokenType::Normal && id < next;
        if !is_piece && parts.added.iter().all(|added| added.id != id) {
            put(parts, id, entry, true, id >= n_known);
        }
    }
    let n = parts.tokens.len();
    if let Some(scores) = &mut parts.scores {
        scores.resize(n, 0.0);
    }
    Ok(())
}

fn ids_of(parts: &Parts, text: &str) -> Option<u32> {
    parts.each().find(|(_, token)| *token == text).map(|(id, _)| id)
}

/// Makes a token an added one with the flags of `token`, which may be a text alone. `is_new` if no other file has the token.
fn put(parts: &mut Parts, id: u32, token: &Json, special: bool, is_new: bool) {
    let was = parts.added.iter().position(|added| added.id == id);
    let mut made = added_token(id, token);
    made.special |= special;
    made.outside_model = was.map_or(is_new, |at| parts.added[at].outside_model);
    let special = made.special;
    let text = parts.token(id).unwrap_or_default().to_owned();
    if was.is_some_and(|at| parts.added[at].normalized != made.normalized) && parts.normalizer.is_some() {
        let (shown, is, not) = (escape(&text, 60), made.normalized, !made.normalized);
        parts.notes.push(format!(
            "the added token `{shown}` has `normalized` {is} in tokenizer_config.json and {not} in tokenizer.json: version 5 of \
             transformers and this conversion go by the former, version 4 by the latter"
        ));
    }
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

/// Classes for which version 4 of the library goes by the flags for the tokens around a text, whatever tokenizer.json says, and
/// what it takes them for where they are not stated.
const BY_FLAGS: [(&str, [bool; 2]); 5] = [
    ("LlamaTokenizer", [true, false]),
    ("CodeLlamaTokenizer", [true, false]),
    ("GemmaTokenizer", [true, false]),
    ("CohereTokenizer", [true, false]),
    ("GPTNeoXTokenizer", [false, false]),
];

/// Notes where versions of the library go by the class of a tokenizer rather than by its tokenizer.json, and the two differ. This
/// plugin goes by tokenizer.json.
pub fn note(parts: &mut Parts, said: &Json, config: Option<&Json>, class: &str) {
    let flag = |key: &str| said.get(key).and_then(Json::as_bool);
    if let Some((_, usual)) = BY_FLAGS.iter().find(|(name, _)| *name == class) {
        let text = |name: &str| {
            let entry = said.get(format!("{name}_token"))?;
            entry.as_str().or_else(|| entry.get("content")?.as_str())
        };
        let by_flags = [("bos", usual[0]), ("eos", usual[1])].map(|(name, usual)| {
            let is_added = flag(&format!("add_{name}_token")).unwrap_or(usual);
            is_added.then(|| text(name).unwrap_or("a token that the vocabulary lacks"))
        });
        let puts = puts(parts.post_processor.as_ref());
        if puts.each_ref().map(Option::as_deref) != by_flags {
            let shown = |sides: [Option<&str>; 2]| match sides {
                [None, None] => "nothing".to_owned(),
                [Some(first), Some(last)] => format!("`{}` and `{}`", escape(first, 40), escape(last, 40)),
                [Some(first), None] => format!("`{}` before", escape(first, 40)),
                [None, Some(last)] => format!("`{}` behind", escape(last, 40)),
            };
            let (own, other) = (shown(puts.each_ref().map(Option::as_deref)), shown(by_flags));
            parts.notes.push(format!(
                "tokenizer.json puts {own} around a text, the class `{class}` with the flags of tokenizer_config.json {other}: version 4 \
                 of transformers goes by the flags, version 5 and this conversion by tokenizer.json"
            ));
        }
    }
    let Some(own) =
        CLASSES.steps.get(class).filter(|_| parts.kind == Kind::Bpe && !is_passed_over(config, class))
    else {
        return;
    };
    // Such a file under this name is read as it is.
    if parts.spelling == Spelling::Bytes && class == "LlamaTokenizer" {
        return;
    }
    let mut own = own.clone();
    let scheme = match (flag("add_prefix_space"), flag("legacy")) {
        (Some(false), _) => "never",
        (_, Some(true)) if class == "LlamaTokenizer" => "always",
        _ => "first",
    };
    if own.pointer("/pre_tokenizer/type").and_then(Json::as_str) == Some("Metaspace") {
        own["pre_tokenizer"]["prepend_scheme"] = scheme.into();
    }
    let pairs = [("normalizer", &parts.normalizer), ("pre_tokenizer", &parts.pre_tokenizer)];
    let others = pairs.into_iter().filter(|(key, step)| plain(step.as_ref()) != plain(own.get(*key)));
    let others: Vec<String> = others.map(|(key, _)| format!("`{key}`")).collect();
    if !others.is_empty() {
        let others = others.join(" and ");
        parts.notes.push(format!(
            "tokenizer.json has another {others} than the class `{class}`: version 5 of transformers goes by the class, version 4 and \
             this conversion by tokenizer.json"
        ));
    }
}

/// Whether version 5 of the library does not ask the class that a file names: the type of models has none, or another.
fn is_passed_over(config: Option<&Json>, class: &str) -> bool {
    let of_model = config.and_then(|config| CLASSES.of_models.get(config.get("model_type")?.as_str()?));
    of_model.is_some_and(|of_model| of_model != class && !CLASSES.tokens.contains_key(of_model))
}

/// The steps without what has no effect on which tokens there are, or is set by a flag.
fn plain(step: Option<&Json>) -> Vec<Json> {
    let mut all: Vec<Json> = steps(step).into_iter().cloned().collect();
    for step in all.iter_mut().filter_map(Json::as_object_mut) {
        ["add_prefix_space", "trim_offsets"].iter().for_each(|key| drop(step.remove(*key)));
    }
    all
}

/// The token that a post-processor puts before one text, and the one behind it.
fn puts(step: Option<&Json>) -> [Option<String>; 2] {
    let around = steps(step).into_iter().find_map(|step| {
        let single = step.get("single").and_then(Json::as_array)?;
        let text = |entry: Option<&Json>| entry?.pointer("/SpecialToken/id")?.as_str().map(str::to_owned);
        Some([single.first(), single.last()].map(text))
    });
    around.unwrap_or_default()
}

/// Classes of bytes that put a token before each text and one behind it.
const AROUND: [&str; 7] = [
    "RobertaTokenizer",
    "BartTokenizer",
    "LEDTokenizer",
    "LongformerTokenizer",
    "LayoutLMv3Tokenizer",
    "MvpTokenizer",
    "MarkupLMTokenizer",
];

/// What is put around a text, where no tokenizer.json says it: what flags state, and what the class does without them.
pub fn around(parts: &mut Parts, class: &str) {
    if parts.kind == Kind::WordPiece {
        return;
    }
    let id = |name: &str, other: &str| parts.special_id(name).or_else(|| parts.special_id(other));
    let both = AROUND.contains(&class);
    let usual = match (parts.kind, parts.spelling) {
        (Kind::Unigram, _) => [false, true],
        (Kind::Bpe, Spelling::SentencePiece) => [true, false],
        _ => [both, both],
    };
    let adds = |name: &str, usual: bool| parts.adds(name).unwrap_or(usual);
    let (first, last) = (id("bos", "cls"), id("eos", "sep"));
    let around = Around {
        bos: first.filter(|_| adds("bos", usual[0])),
        eos: last.filter(|_| adds("eos", usual[1])),
        sep: last.filter(|_| both),
    };
    if parts.adds("bos").is_none()
        && usual == [true, false]
        && BY_FLAGS.iter().any(|(name, _)| *name == class)
    {
        parts.notes.push(format!(
            "nothing says whether a token is put before a text: version 4 of transformers, llama.cpp and this conversion put one for the \
             class `{class}`, version 5 of transformers none where there is no tokenizer.json"
        ));
    }
    parts.post_processor = post_processor(parts, around);
}

/// The steps before bytes are merged, where no tokenizer.json says them: those of the class.
pub fn bytes(parts: &mut Parts, class: &str, space: Option<bool>) {
    if let Some(own) = CLASSES.steps.get(class).filter(|own| own.to_string().contains("\"ByteLevel\"")) {
        let step = |key: &str| own.get(key).filter(|step| !step.is_null()).cloned();
        (parts.normalizer, parts.pre_tokenizer) = (step("normalizer"), step("pre_tokenizer"));
    }
    if let (Some(step), Some(put)) = (&mut parts.pre_tokenizer, space) {
        class::put_space_first(step, put);
    }
}
