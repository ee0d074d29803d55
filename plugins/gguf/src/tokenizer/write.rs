//! Writes the SDK's tokenizer as keys: names, types, order and values as in llama.cpp's `set_vocab` methods
//! and its `SpecialVocab`.

use super::{
    ADD, ADD_SPACE_PREFIX, CHARSMAP, CHAT_TEMPLATE, CHAT_TEMPLATES, ENDS, LOWERCASE, MERGED_PIECES, MERGES,
    MODEL, PRE, REMOVE_EXTRA_WHITESPACES, SCORES, SPECIAL, STRIP_ACCENTS, TOKEN_TYPE, TOKENS, UNKNOWN, pre,
    quirks, usual_unknown,
};
use apr_sdk::tokenizer::{Kind, Spelling, TokenType, Tokenizer, byte_of, scores_of_merges};
use apr_sdk::{Error, Result, Value, ValueType, escape};
use std::collections::HashMap;

/// The score of an id without a token, if tokens have scores.
const NO_TOKEN: f32 = -10000.0;

/// The keys for a model of architecture `arch`. `asked` is the pre-tokenizer that the user named.
///
/// # Errors
/// Unsupported for a tokenizer that the format cannot express, or whose pre-tokenizer has no name in it.
pub fn keys(tokenizer: &Tokenizer, arch: &str, asked: Option<&str>) -> Result<Vec<(String, Value)>> {
    let merged = quirks::merges_pieces(tokenizer, arch);
    let model = if merged { MERGED_PIECES } else { model_name(tokenizer)? };
    refuse(tokenizer)?;
    if merged {
        let spaced = |id: &u32| tokenizer.token(*id).is_some_and(|text| text.contains(' '));
        if tokenizer.merges.is_empty() {
            return Err(Error::malformed(
                "the tokenizer has no merges, which models of this architecture require",
            ));
        }
        if let Some((id, _)) = tokenizer.merges.iter().find(|(left, right)| spaced(left) || spaced(right)) {
            let text = escape(tokenizer.token(*id).unwrap_or_default(), 60);
            return Err(Error::unsupported(format!(
                "a merge of token {id} `{text}` contains a space, which separates the parts of a merge in \
                 this format"
            )));
        }
    }
    let mut keys = Keys(Vec::new());
    quirks::before(&mut keys, tokenizer, arch);
    keys.set(MODEL, Value::from_string(model));
    if !merged {
        keys.set(PRE, Value::from_string(pre::name(tokenizer, arch, asked)?));
    }
    keys.set(TOKENS, texts(tokenizer, merged)?);
    if merged {
        keys.set(SCORES, same_scores(tokenizer));
    } else if let Some(scores) = scores(tokenizer) {
        keys.set(SCORES, scores);
    }
    keys.set(TOKEN_TYPE, types(tokenizer, merged));
    if tokenizer.kind == Kind::Unigram {
        keys.set(ADD_SPACE_PREFIX, Value::from_bool(tokenizer.add_space_prefix.unwrap_or(true)));
        let remove = tokenizer.remove_extra_whitespaces.unwrap_or(true);
        keys.set(REMOVE_EXTRA_WHITESPACES, Value::from_bool(remove));
        if let Some(charsmap) = tokenizer.charsmap.as_ref().filter(|bytes| !bytes.is_empty()) {
            keys.set(CHARSMAP, Value::from_items(ValueType::U8, charsmap.len() as u64, charsmap));
        }
    }
    if merged || tokenizer.spelling == Spelling::Bytes && !tokenizer.merges.is_empty() {
        keys.set(MERGES, strings(tokenizer.merges.iter().map(|merge| merge_text(tokenizer, *merge))));
    }
    special(&mut keys, tokenizer);
    quirks::after(&mut keys, tokenizer, arch);
    Ok(keys.0)
}

/// Keys in the order in which they were first set; a later value replaces an earlier one in place.
pub struct Keys(Vec<(String, Value)>);

impl Keys {
    pub fn set(&mut self, key: &str, value: Value) {
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some(slot) => slot.1 = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }
}

fn model_name(tokenizer: &Tokenizer) -> Result<&'static str> {
    match (tokenizer.kind, tokenizer.spelling) {
        (Kind::Bpe, Spelling::Bytes) => Ok("gpt2"),
        (Kind::Bpe, Spelling::SentencePiece) => Ok("llama"),
        (Kind::Unigram, _) => Ok("t5"),
        (Kind::WordPiece, _) => Ok("bert"),
        (Kind::Bpe, Spelling::Plain) => Err(Error::unsupported(
            "the tokenizer merges characters rather than bytes or SentencePiece pieces, which the format \
             cannot express",
        )
        .hint("convert to a format that preserves the whole tokenizer")),
    }
}

/// Fails for a kind of tokenization that no reader of the format knows.
fn refuse(tokenizer: &Tokenizer) -> Result<()> {
    let quoted = |text: &str| format!("`{}`", escape(text, 40));
    let of_words = tokenizer.kind == Kind::WordPiece;
    let other = tokenizer.continuing_prefix.as_deref().filter(|prefix| of_words && *prefix != "##");
    if tokenizer.kind != Kind::Bpe && other.is_none() {
        return Ok(());
    }
    let what = if let Some(prefix) = other {
        format!("marks pieces inside a word with {} (`continuing_subword_prefix`)", quoted(prefix))
    } else if let Some(suffix) = tokenizer.word_suffix.as_deref().filter(|text| !text.is_empty()) {
        format!("marks the ends of words with {} (`end_of_word_suffix`)", quoted(suffix))
    } else if let Some(prefix) = tokenizer.continuing_prefix.as_deref().filter(|text| !text.is_empty()) {
        format!("marks pieces inside a word with {} (`continuing_subword_prefix`)", quoted(prefix))
    } else if tokenizer.spelling == Spelling::Bytes && !has_all_bytes(tokenizer) {
        match (tokenizer.byte_fallback, tokenizer.fuse_unk && tokenizer.unk.is_some()) {
            (true, _) => {
                "lacks some of the 256 byte tokens and uses other tokens for those bytes (`byte_fallback`)"
                    .to_owned()
            }
            (_, true) => {
                "lacks some of the 256 byte tokens and fuses several into one unknown token (`fuse_unk`)"
                    .to_owned()
            }
            _ => return Ok(()),
        }
    } else {
        return Ok(());
    };
    Err(Error::unsupported(format!("the tokenizer {what}, which the format cannot express"))
        .hint("convert to a format that preserves the whole tokenizer"))
}

/// Whether each of GPT-2's byte characters is a token.
fn has_all_bytes(tokenizer: &Tokenizer) -> bool {
    let mut found = std::collections::HashSet::new();
    for (_, text) in tokenizer.each() {
        let mut chars = text.chars();
        if let (Some(c), None) = (chars.next(), chars.next()) {
            found.extend(byte_of(c));
        }
    }
    found.len() == 256
}

fn texts(tokenizer: &Tokenizer, merged: bool) -> Result<Value> {
    let word_piece = tokenizer.kind == Kind::WordPiece;
    let mut seen = HashMap::with_capacity(tokenizer.tokens.len());
    let mut all = Vec::with_capacity(tokenizer.tokens.len());
    let mut surfaces = tokenizer.surfaces().into_iter();
    for id in 0..tokenizer.vocab_size {
        let written = tokenizer.written(id);
        let surface = surfaces.next().flatten();
        // Merges name pieces as they are.
        let own = || tokenizer.token(id).map(std::borrow::Cow::Borrowed);
        let text = if merged { own() } else { surface }.filter(|_| written);
        let text = text.map_or_else(|| format!("[PAD{id}]"), std::borrow::Cow::into_owned);
        let text =
            if word_piece && tokenizer.type_of(id) != TokenType::Control { marked(&text) } else { text };
        all.push(text);
    }
    for (id, text) in all.iter().enumerate() {
        if let Some(other) = seen.insert(text.as_str(), id) {
            let text = escape(text, 60);
            return Err(Error::unsupported(format!(
                "tokens {other} and {id} are both written as `{text}`, which llama.cpp refuses to load"
            ))
            .hint("convert to a format that preserves the whole tokenizer"));
        }
    }
    Ok(strings(all.iter().map(String::as_str)))
}

/// Marks the start of a word instead of its continuation: the reverse of the tokenizer's convention.
fn marked(text: &str) -> String {
    match text.strip_prefix("##") {
        Some(inside) => inside.to_owned(),
        None => format!("\u{2581}{text}"),
    }
}

/// SentencePiece scores. A tokenizer with merges instead gets equivalent scores, so that the same pieces
/// result.
fn scores(tokenizer: &Tokenizer) -> Option<Value> {
    if tokenizer.spelling != Spelling::SentencePiece {
        return None;
    }
    let scores = tokenizer.scores.clone().or_else(|| scores_of_merges(tokenizer)).unwrap_or_default();
    let mut bytes = Vec::with_capacity(4 * scores.len());
    for id in 0..tokenizer.vocab_size {
        let score = usize::try_from(id).ok().and_then(|n| scores.get(n)).copied();
        let score = score.filter(|_| tokenizer.written(id) && tokenizer.token(id).is_some());
        // The format stores 32 bits.
        #[allow(clippy::cast_possible_truncation, reason = "rounding to f32 is what is meant")]
        let score = score.map_or(NO_TOKEN, |score| score as f32);
        bytes.extend_from_slice(&score.to_le_bytes());
    }
    Some(Value::from_items(ValueType::F32, u64::from(tokenizer.vocab_size), &bytes))
}

/// The score that says nothing, for every token.
fn same_scores(tokenizer: &Tokenizer) -> Value {
    const SAID: f32 = -1000.0;
    let bytes = SAID.to_le_bytes().repeat(tokenizer.vocab_size as usize);
    Value::from_items(ValueType::F32, u64::from(tokenizer.vocab_size), &bytes)
}

fn types(tokenizer: &Tokenizer, merged: bool) -> Value {
    let mut bytes = Vec::with_capacity(4 * tokenizer.tokens.len());
    for id in 0..tokenizer.vocab_size {
        let kind = match tokenizer.type_of(id) {
            kind if merged => quirks::type_of_merged(kind, tokenizer.token(id).unwrap_or_default()),
            kind => kind,
        };
        let kind = match kind {
            TokenType::None => TokenType::Unused,
            _ if !tokenizer.written(id) => TokenType::Unused,
            kind => kind,
        };
        bytes.extend_from_slice(&i32::from(kind.number()).to_le_bytes());
    }
    Value::from_items(ValueType::I32, u64::from(tokenizer.vocab_size), &bytes)
}

/// The two texts of a merge, separated by a space; a space inside one becomes U+0120.
fn merge_text(tokenizer: &Tokenizer, (left, right): (u32, u32)) -> String {
    let part = |id: u32| tokenizer.token(id).unwrap_or_default().replace(' ', "\u{120}");
    format!("{} {}", part(left), part(right))
}

fn special(keys: &mut Keys, tokenizer: &Tokenizer) {
    let last = super::unsaid::around::other_end(tokenizer);
    for (name, id) in &tokenizer.special {
        if let Some((_, key)) = SPECIAL.iter().find(|(known, _)| known == name) {
            let id = last.filter(|_| name == "eos").unwrap_or(*id);
            keys.set(key, Value::from_u32(id));
        }
    }
    // The converter's end is what a template puts behind a text; the stated one becomes that of a turn.
    let free = ["eot", "eom"].into_iter().find(|name| tokenizer.special_id(name).is_none());
    if let (Some(_), Some(id), Some(name)) = (last, tokenizer.special_id("eos"), free)
        && let Some((_, key)) = SPECIAL.iter().find(|(known, _)| *known == name)
    {
        keys.set(key, Value::from_u32(id));
    }
    // A model of words or pieces knows its unknown token by itself, whichever is stated for that purpose: readers compute with the key.
    let usual = usual_unknown(tokenizer.kind, tokenizer.spelling);
    let is_stated = tokenizer.special_id("unk").is_some();
    let unknown = tokenizer.unk.filter(|id| is_stated || Some(*id) != usual);
    if let Some(id) = unknown.filter(|_| tokenizer.spelling != Spelling::Bytes) {
        keys.set(UNKNOWN, Value::from_u32(id));
    }
    for (name, yes) in &tokenizer.add {
        if let Some((_, key)) = ADD.iter().find(|(known, _)| known == name) {
            keys.set(key, Value::from_bool(*yes));
        }
    }
    if !tokenizer.ends.is_empty() {
        let ids: Vec<u8> = tokenizer.ends.iter().flat_map(|id| id.to_le_bytes()).collect();
        keys.set(ENDS, Value::from_items(ValueType::U32, tokenizer.ends.len() as u64, &ids));
    }
    chat_templates(keys, tokenizer);
    if let Some(yes) = tokenizer.lowercase {
        keys.set(LOWERCASE, Value::from_bool(yes));
    }
    if let Some(yes) = tokenizer.strip_accents {
        keys.set(STRIP_ACCENTS, Value::from_bool(yes));
    }
}

/// Names of the templates beside the main one, as keys have them: of letters and digits, and no two the same.
pub fn template_names(tokenizer: &Tokenizer) -> Vec<(String, &str)> {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut names: Vec<(String, &str)> = Vec::new();
    let others = tokenizer.chat_templates.iter();
    for (name, _) in others.filter(|(name, text)| name != "default" && !name.is_empty() && !text.is_empty()) {
        let bare: String = name.chars().map(plain).collect();
        let mut written = bare.clone();
        let mut n = 2;
        while names.iter().any(|(other, _)| *other == written) {
            written = format!("{bare}_{n}");
            n += 1;
        }
        names.push((written, name));
    }
    names
}

fn chat_templates(keys: &mut Keys, tokenizer: &Tokenizer) {
    let text = |name: &str| tokenizer.chat_templates.iter().find(|(other, _)| other == name);
    let names = template_names(tokenizer);
    for (written, name) in &names {
        let template = text(name).map_or("", |(_, text)| text);
        keys.set(&format!("{CHAT_TEMPLATE}.{written}"), Value::from_string(template));
    }
    if !names.is_empty() {
        keys.set(CHAT_TEMPLATES, strings(names.iter().map(|(written, _)| written.as_str())));
    }
    if let Some((_, template)) = text("default").filter(|(_, template)| !template.is_empty()) {
        keys.set(CHAT_TEMPLATE, Value::from_string(template));
    }
}

/// Creates an array of strings.
pub fn strings<T: AsRef<str>>(texts: impl Iterator<Item = T>) -> Value {
    let (mut bytes, mut count) = (Vec::new(), 0);
    for text in texts {
        let text = text.as_ref().as_bytes();
        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(text);
        count += 1;
    }
    Value::from_items(ValueType::STRING, count, &bytes)
}
