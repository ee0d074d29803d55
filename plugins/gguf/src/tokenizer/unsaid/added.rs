//! Which spaces added tokens absorb: no key says so, llama.cpp goes by names.

use super::super::{MERGED_PIECES, MODEL, PRE, quirks};
use super::made;
use apr_sdk::tokenizer::{AddedToken, Parts, TokenType, Tokenizer};
use apr_sdk::{LayoutSink, Value, escape};
use serde_json::{Map, Value as Json, json};

const KEY: &str = "added_tokens";

/// The flag of tokens that are not shown, and the type of a token: listed where the written types do not tell them.
const SPECIAL: &str = "special";
const TYPE: &str = "type";

/// A flag: its name in `tokenizer.json`, and its field.
type Flag = (&'static str, fn(&mut AddedToken) -> &mut bool);

const FLAGS: [Flag; 4] = [
    ("lstrip", |added| &mut added.lstrip),
    ("rstrip", |added| &mut added.rstrip),
    ("single_word", |added| &mut added.single_word),
    ("normalized", |added| &mut added.normalized),
];

/// Adds the flags of added tokens to `text` where one has more than its name implies, with a warning; also if
/// anything else is carried.
pub fn carry(
    tokenizer: &Tokenizer,
    name: &str,
    keys: &[(String, Value)],
    text: &mut Map<String, Json>,
    sink: &mut dyn LayoutSink,
) {
    let pre = made(keys, PRE).and_then(Value::as_str);
    let more = |added: &&AddedToken| {
        let (left, right) =
            quirks::strip(tokenizer.token(added.id).unwrap_or_default(), name, pre.unwrap_or_default());
        tokenizer.written(added.id) && (added.lstrip && !left || added.rstrip && !right || added.single_word)
    };
    let merged = made(keys, MODEL).and_then(Value::as_str) == Some(MERGED_PIECES);
    let lost: Vec<&AddedToken> = tokenizer.added.iter().filter(more).collect();
    if let Some(first) = lost.first() {
        sink.warn(&warning(tokenizer, first, lost.len()));
    } else if text.is_empty() && !merged {
        return;
    }
    let entry = |added: &AddedToken| {
        let mut added = *added;
        let flags = FLAGS.iter().filter(|(_, flag)| *flag(&mut added));
        let mut entry: Map<String, Json> = flags.map(|(key, _)| ((*key).to_owned(), true.into())).collect();
        let kind = tokenizer.type_of(added.id);
        if merged && kind != quirks::type_of_merged(kind, tokenizer.token(added.id).unwrap_or_default()) {
            entry.insert(SPECIAL.to_owned(), added.special.into());
            entry.insert(TYPE.to_owned(), kind.number().into());
        }
        (!entry.is_empty()).then(|| {
            entry.insert("id".to_owned(), added.id.into());
            Json::Object(entry)
        })
    };
    let all: Vec<Json> = tokenizer.added.iter().filter_map(entry).collect();
    if !all.is_empty() {
        text.insert(KEY.to_owned(), json!(all));
    }
}

fn warning(tokenizer: &Tokenizer, first: &AddedToken, count: usize) -> String {
    let token = escape(tokenizer.token(first.id).unwrap_or_default(), 60);
    let (takes, flags) = match (first.lstrip, first.rstrip) {
        (true, true) => ("takes the spaces on both its sides", "`lstrip`, `rstrip`"),
        (true, false) => ("takes the spaces before it", "`lstrip`"),
        (false, true) => ("takes the spaces behind it", "`rstrip`"),
        (false, false) => ("is only found as a word of its own", "`single_word`"),
    };
    let others = match count {
        1 => String::new(),
        2 => ", nor so of 1 other".to_owned(),
        n => format!(", nor so of {} others", n - 1),
    };
    format!(
        "llama.cpp does not know that the added token `{token}` {takes} ({flags}){others}: the text beside it becomes other tokens"
    )
}

/// Restores the flags; a token that is not listed has none. A token whose entry says whether it is special is an added one,
/// whatever its type.
pub fn take_back(json: &Json, parts: &mut Parts) {
    let Some(list) = json.get(KEY).and_then(Json::as_array) else { return };
    let mut entries = std::collections::HashMap::new();
    let known: std::collections::HashMap<u32, usize> =
        parts.added.iter().enumerate().map(|(n, added)| (added.id, n)).collect();
    for entry in list {
        let Some(id) = entry.get("id").and_then(Json::as_u64).and_then(|id| u32::try_from(id).ok()) else {
            continue;
        };
        let again = entries.insert(id, entry).is_some();
        let special = entry.get(SPECIAL).and_then(Json::as_bool);
        let told = entry.get(TYPE).and_then(Json::as_u64).and_then(TokenType::from_number);
        if let (Some(special), Some(kind), false) = (special, parts.types.get_mut(id as usize), again) {
            match known.get(&id).and_then(|n| parts.added.get_mut(*n)) {
                Some(added) => added.special = special,
                None => parts.added.push(AddedToken { id, special, ..AddedToken::default() }),
            }
            *kind = told.unwrap_or(if special { TokenType::Control } else { TokenType::UserDefined });
        }
    }
    parts.added.sort_by_key(|added| added.id);
    for added in &mut parts.added {
        let entry = entries.get(&added.id);
        for (key, flag) in FLAGS {
            *flag(added) = entry.and_then(|entry| entry.get(key)).and_then(Json::as_bool).unwrap_or(false);
        }
    }
}
