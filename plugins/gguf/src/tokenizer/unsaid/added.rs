//! How added tokens are found: no key says so. llama.cpp goes by names, types and texts.

use super::super::{MERGED_PIECES, MODEL, PRE, quirks};
use super::{kind, made};
use apr_sdk::tokenizer::{AddedToken, Kind, Parts, Spelling, TokenType, Tokenizer, steps};
use apr_sdk::{LayoutSink, Value, escape};
use serde_json::{Map, Value as Json, json};
use std::borrow::Cow;
use std::collections::HashSet;

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

/// The flag of a token that the model's own vocabulary lacks: listed where a text shows it.
const OUTSIDE: &str = "outside_model";

/// The member for ids of tokens that are not found in texts, though their types say so.
const UNFOUND: &str = "not_added_tokens";

/// The text of a token that no other key gives back.
const CONTENT: &str = "content";

/// Adds to `text` what tells added tokens where one is not as its name, its type and its text imply, with a warning; also if
/// anything else is carried.
pub fn carry(
    tokenizer: &Tokenizer,
    name: &str,
    keys: &[(String, Value)],
    text: &mut Map<String, Json>,
    sink: &mut dyn LayoutSink,
) {
    let pre = made(keys, PRE).and_then(Value::as_str).unwrap_or_default();
    let merged = made(keys, MODEL).and_then(Value::as_str) == Some(MERGED_PIECES);
    let surfaces = tokenizer.surfaces();
    let normalizer = Normalizer::of(tokenizer);
    let others = tokenizer.added.iter().filter(|added| tokenizer.written(added.id)).filter_map(|added| {
        let own = tokenizer.token(added.id).unwrap_or_default();
        let surface = surfaces.get(added.id as usize)?.as_deref().filter(|_| !merged).unwrap_or(own);
        let other = Other {
            strips: Some((added.lstrip, added.rstrip))
                .filter(|strips| *strips != quirks::strip(own, name, pre)),
            alone: added.single_word,
            normalized: added.normalized && normalizer.moves(own),
            hidden: !added.special && tokenizer.type_of(added.id) == TokenType::Control,
            outside: is_made_by_model(tokenizer, added, &normalizer),
            text: (came_back(tokenizer, added.id, surface) != own).then(|| surface.to_owned()),
            is_elsewhere: surface != own,
        };
        other.is_any().then_some((added, other))
    });
    let others: Vec<(&AddedToken, Other)> = others.collect();
    let told: Vec<_> = others.iter().filter(|(_, other)| other.is_heard(tokenizer.kind)).collect();
    if let Some((first, other)) = told.first() {
        sink.warn(&warning(tokenizer, first, other, told.len()));
    }
    let unfound = unfound(tokenizer);
    if let Some(first) = unfound.first() {
        let token = escape(tokenizer.token(*first).unwrap_or_default(), 60);
        let others = and_others(unfound.len());
        sink.warn(&format!(
            "llama.cpp finds the token `{token}` where a text spells it out, but this tokenizer does not{others}: such text is \
             tokenized differently"
        ));
        text.insert(UNFOUND.to_owned(), json!(unfound));
    }
    if others.is_empty() && text.is_empty() && !merged {
        return;
    }
    let entry = |added: &AddedToken| {
        let mut added = *added;
        let flags = FLAGS.iter().filter(|(_, flag)| *flag(&mut added));
        let mut entry: Map<String, Json> = flags.map(|(key, _)| ((*key).to_owned(), true.into())).collect();
        let (kind, own) = (tokenizer.type_of(added.id), tokenizer.token(added.id).unwrap_or_default());
        let other = others.iter().find(|(other, _)| other.id == added.id).map(|(_, other)| other);
        if merged && kind != quirks::type_of_merged(kind, own) || other.is_some_and(|other| other.hidden) {
            entry.insert(SPECIAL.to_owned(), added.special.into());
            entry.insert(TYPE.to_owned(), kind.number().into());
        }
        if other.is_some_and(|other| other.outside) {
            entry.insert(OUTSIDE.to_owned(), true.into());
        }
        if other.is_some_and(|other| other.text.is_some()) {
            entry.insert(CONTENT.to_owned(), own.into());
        }
        (!entry.is_empty()).then(|| {
            entry.insert("id".to_owned(), added.id.into());
            Json::Object(entry)
        })
    };
    let all: Vec<Json> = tokenizer.added.iter().filter_map(entry).collect();
    if !all.is_empty() || !others.is_empty() {
        text.insert(KEY.to_owned(), json!(all));
    }
}

/// Tokens whose types say that they are found in texts, though they are not added ones.
fn unfound(tokenizer: &Tokenizer) -> Vec<u32> {
    let added: HashSet<u32> = tokenizer.added.iter().map(|added| added.id).collect();
    let is_found = |id: u32| matches!(tokenizer.type_of(id), TokenType::Control | TokenType::Unknown);
    let ids = tokenizer.each().map(|(id, _)| id);
    ids.filter(|id| is_found(*id) && !added.contains(id) && tokenizer.written(*id)).collect()
}

/// In which ways an added token is not what a reader takes it for.
struct Other {
    strips: Option<(bool, bool)>,
    alone: bool,
    normalized: bool,
    hidden: bool,
    outside: bool,
    text: Option<String>,
    /// True if the text as it is written is not the token's own.
    is_elsewhere: bool,
}

impl Other {
    fn is_any(&self) -> bool {
        let beside = self.alone || self.normalized || self.hidden || self.outside;
        beside || self.strips.is_some() || self.text.is_some()
    }

    /// Whether a text becomes other tokens by it. What is merged gives such a token only where another flag is told of.
    fn is_heard(&self, kind: Kind) -> bool {
        // Where a name says more than the model does, all models of that name are so, and their texts have no such spaces.
        let strips = self.strips.is_some_and(|(left, right)| left || right);
        let outside = self.outside && kind != Kind::Bpe;
        strips || self.alone || self.normalized || outside || self.text.is_some() && self.is_elsewhere
    }
}

/// What the normalizer may do to a text.
struct Normalizer {
    composes: bool,
    does_more: bool,
    /// True if all it does is to mark spaces.
    marks_only: bool,
}

impl Normalizer {
    fn of(tokenizer: &Tokenizer) -> Normalizer {
        let steps = steps(tokenizer.normalizer.as_ref());
        let composes = steps.iter().any(|step| kind(step) == "NFC");
        let marks = |step: &&Json| {
            let content = step.get("content").and_then(Json::as_str);
            kind(step) == "Prepend" || kind(step) == "Replace" && content == Some("\u{2581}")
        };
        Normalizer {
            composes,
            does_more: steps.iter().any(|step| kind(step) != "NFC"),
            marks_only: steps.iter().all(marks),
        }
    }

    /// Whether a token may be found elsewhere after it than before it. Composing joins letters with what follows them.
    fn moves(&self, text: &str) -> bool {
        let composed = !text.is_ascii() || text.ends_with(char::is_alphanumeric);
        self.does_more || self.composes && composed
    }
}

/// Whether a text may have this token's where the token itself is not found, so that a model which had it would give it.
fn is_made_by_model(tokenizer: &Tokenizer, added: &AddedToken, normalizer: &Normalizer) -> bool {
    let text = tokenizer.token(added.id).unwrap_or_default();
    let gives = match (tokenizer.kind, tokenizer.spelling) {
        // Of what no pair of the list makes, only whole words and single characters.
        (Kind::Bpe, Spelling::Bytes) => tokenizer.ignore_merges || text.chars().count() == 1,
        _ => true,
    };
    let made = if normalizer.marks_only { text.contains('\u{2581}') } else { normalizer.moves(text) };
    let moved = if added.normalized { normalizer.moves(text) } else { made };
    // The longest token at a place is tried alone: one that is no word of its own there hides shorter ones.
    added.outside_model && gives && (moved || tokenizer.added.iter().any(|other| other.single_word))
}

/// The number of tokens beside the one that is named.
fn and_others(count: usize) -> String {
    match count {
        1 => String::new(),
        2 => " (and 1 other token)".to_owned(),
        n => format!(" (and {} other tokens)", n - 1),
    }
}

fn warning(tokenizer: &Tokenizer, first: &AddedToken, other: &Other, count: usize) -> String {
    let token = escape(tokenizer.token(first.id).unwrap_or_default(), 60);
    let others = and_others(count);
    let beside = other.strips.is_some_and(|(left, right)| left || right) || other.alone || other.normalized;
    if let Some(text) = other.text.as_ref().filter(|_| other.is_elsewhere && !beside) {
        let text = escape(text, 60);
        return format!(
            "llama.cpp finds the added token `{token}` in the text `{text}`, but this tokenizer does \
             not{others}: such text is tokenized differently"
        );
    }
    if other.outside && !beside {
        return format!(
            "llama.cpp also finds the added token `{token}` in normalized text, but this tokenizer does \
             not{others}: such text is tokenized differently"
        );
    }
    let (does, flags) = match (other.strips, other.alone) {
        (Some((true, true)), _) => ("strips the spaces on both sides", "`lstrip`, `rstrip`"),
        (Some((true, false)), _) => ("strips the spaces before it", "`lstrip`"),
        (Some((false, true)), _) => ("strips the spaces after it", "`rstrip`"),
        (_, true) => ("only matches whole words", "`single_word`"),
        (_, false) => ("matches normalized text", "`normalized`"),
    };
    format!(
        "llama.cpp ignores that the added token `{token}` {does} ({flags}){others}: the text around it is \
         tokenized differently"
    )
}

/// The text that the reader makes of an added token's.
fn came_back<'t>(tokenizer: &Tokenizer, id: u32, surface: &'t str) -> Cow<'t, str> {
    let spaces = tokenizer.type_of(id) == TokenType::UserDefined && surface.bytes().all(|b| b == b' ');
    match tokenizer.spelling {
        Spelling::SentencePiece if spaces => surface.replace(' ', "\u{2581}").into(),
        _ => surface.into(),
    }
}

/// Restores the texts of tokens to `parts`.
pub fn take_back_texts(json: &Json, parts: &mut Parts) {
    for entry in json.get(KEY).and_then(Json::as_array).into_iter().flatten() {
        let id = entry.get("id").and_then(Json::as_u64).and_then(|id| usize::try_from(id).ok());
        let text = entry.get(CONTENT).and_then(Json::as_str);
        let slot = id.and_then(|id| parts.tokens.get_mut(id)).filter(|slot| slot.is_some());
        if let (Some(text), Some(slot)) = (text, slot) {
            *slot = Some(text.to_owned());
        }
    }
}

/// Restores the flags; a token that is not listed has no flags. A token whose entry says whether it is special is an added one,
/// whatever its type.
pub fn take_back(json: &Json, parts: &mut Parts) {
    let unfound = json.get(UNFOUND).and_then(Json::as_array).into_iter().flatten();
    let unfound: HashSet<u64> = unfound.filter_map(Json::as_u64).collect();
    parts.added.retain(|added| !unfound.contains(&u64::from(added.id)));
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
        added.outside_model =
            entry.and_then(|entry| entry.get(OUTSIDE)).and_then(Json::as_bool).unwrap_or(false);
    }
}
