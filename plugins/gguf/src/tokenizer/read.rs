//! Builds the SDK's tokenizer from keys: `llama_vocab::impl::load` of llama.cpp, and the converter's rules in
//! reverse.

use super::scan::Scan;
use super::{
    ADD, ADD_SPACE_PREFIX, CHARSMAP, CHAT_TEMPLATE, CHAT_TEMPLATES, ENDS, LOWERCASE, MERGED_PIECES, MERGES,
    MODEL, PRE, REMOVE_EXTRA_WHITESPACES, SCORES, SPECIAL, STRIP_ACCENTS, TOKEN_TYPE, TOKENS, pre, quirks,
    unsaid, usual_unknown,
};
use crate::metadata::Key;
use apr_sdk::tokenizer::{
    AddedToken, Kind, Parts, Spelling, TokenType, Tokenizer, before_bytes, byte_of, fill_definitions,
    post_processor,
};
use apr_sdk::{Error, FileId, Limits, Result, Source, escape};
use std::collections::HashMap;

/// The tokenizer that `keys` describe; `None` without one. Long values are read from `file`.
///
/// # Errors
/// Unsupported for a kind that the SDK's form cannot express; Malformed for inconsistent lists.
pub fn read(keys: &[Key], source: &dyn Source, file: FileId, limits: &Limits) -> Result<Option<Tokenizer>> {
    let scan = Scan { keys, source, file, limits };
    let Some(model) = scan.text(MODEL)? else { return Ok(None) };
    let (kind, spelling) = match model.as_str() {
        "none" | "no_vocab" => return Ok(None),
        "llama" | MERGED_PIECES => (Kind::Bpe, Spelling::SentencePiece),
        "gpt2" => (Kind::Bpe, Spelling::Bytes),
        "bert" => (Kind::WordPiece, Spelling::Plain),
        "t5" => (Kind::Unigram, Spelling::SentencePiece),
        other => {
            let other = escape(other, 40);
            return Err(Error::unsupported(format!("a tokenizer of the kind `{other}` cannot be converted")));
        }
    };
    let mut parts = Parts { kind, spelling, ..Parts::default() };
    tokens(&scan, &mut parts)?;
    unsaid::take_back_scores(&scan, &mut parts)?;
    let carried = unsaid::carried(&scan)?;
    // Merges go by them.
    carried.iter().for_each(|json| unsaid::take_back_texts(json, &mut parts));
    flags(&scan, &mut parts)?;
    if model == MERGED_PIECES {
        // All scores are the same.
        parts.scores = None;
        merges(&scan, &mut parts)?;
        if parts.merges.is_empty() {
            return Err(Error::malformed(format!("metadata key `{MERGES}` is missing or empty")));
        }
        // Such a file has one type for ordinary pieces and for those that SentencePiece finds whole.
        before_bytes(&mut parts);
    }
    added(&mut parts);
    let said = |key: &str| Ok::<_, Error>(scan.text(key)?.unwrap_or_default());
    quirks::strips(&mut parts, &said("general.name")?, &said(PRE)?);
    let mut splitter = None;
    if spelling == Spelling::Bytes {
        let name = scan.text(PRE)?.unwrap_or_else(|| "default".to_owned());
        let known = pre::splitter(&name)?;
        parts.pre_tokenizer = Some(known.pre_tokenizer.clone());
        parts.normalizer = known.normalizer.clone();
        parts.ignore_merges = known.ignore_merges;
        splitter = Some(known);
        parts.pre = Some(name);
        merges(&scan, &mut parts)?;
    }
    fill_definitions(&mut parts);
    carried.iter().for_each(|json| unsaid::take_back(&scan, json, &mut parts));
    let kept = carried.as_ref().and_then(|json| unsaid::around::take_back(json, &parts));
    let usual = unsaid::around::Usual::of(kind, spelling, splitter.as_ref());
    let around = usual.around(&parts, &|name| parts.adds(name), &|name| parts.special_id(name));
    parts.post_processor = kept.unwrap_or_else(|| post_processor(&parts, around));
    carried.iter().for_each(|json| unsaid::around::take_back_end(json, &mut parts));
    parts.notes.extend(carried.iter().flat_map(|json| unsaid::beside::notes(&scan, json)));
    Tokenizer::new(parts).map(Some)
}

fn tokens(scan: &Scan<'_>, parts: &mut Parts) -> Result<()> {
    let missing = || Error::malformed(format!("metadata key `{TOKENS}` is missing"));
    let texts = scan.strings(TOKENS)?.ok_or_else(missing)?;
    let numbers = scan.numbers(TOKEN_TYPE)?;
    let scores = scan.numbers(SCORES)?;
    for (key, list) in [(TOKEN_TYPE, &numbers), (SCORES, &scores)] {
        if let Some(list) = list.as_ref().filter(|list| list.len() < texts.len()) {
            let (n, tokens) = (list.len(), texts.len());
            return Err(Error::malformed(format!(
                "metadata key `{key}` has {n} items, expected one for each of {tokens} tokens"
            )));
        }
    }
    parts.vocab_size = u32::try_from(texts.len()).map_err(|_| Error::limit("more than 2^32 tokens"))?;
    for (n, text) in texts.into_iter().enumerate() {
        let number = numbers.as_ref().and_then(|list| list.get(n)).copied().unwrap_or(1.0);
        let mut kind = TokenType::ALL.iter().copied().find(|kind| f64::from(kind.number()) == number);
        if kind == Some(TokenType::None) {
            kind = Some(TokenType::Normal);
        }
        let kind =
            kind.ok_or_else(|| Error::malformed(format!("token {n} has the unknown type {number}")))?;
        let text = unwritten(text, kind, parts, n);
        parts.types.push(if text.is_none() { TokenType::None } else { kind });
        parts.tokens.push(text);
    }
    let real = parts.tokens.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    parts.tokens.truncate(real);
    parts.types.truncate(real);
    if parts.spelling == Spelling::SentencePiece {
        let mut scores = scores.unwrap_or_else(|| vec![0.0; real]);
        scores.truncate(real);
        for (score, text) in scores.iter_mut().zip(&parts.tokens) {
            if text.is_none() {
                *score = 0.0;
            }
        }
        parts.scores = Some(scores);
    }
    Ok(())
}

/// The original text of a token; `None` for a placeholder.
fn unwritten(text: String, kind: TokenType, parts: &Parts, id: usize) -> Option<String> {
    let text = match parts.kind {
        Kind::WordPiece if kind != TokenType::Control => match text.strip_prefix('\u{2581}') {
            Some(begin) => begin.to_owned(),
            None => format!("##{text}"),
        },
        _ => text,
    };
    if kind == TokenType::Unused && text == format!("[PAD{id}]") {
        return None;
    }
    if text.is_empty() {
        return Some(format!("[EMPTY_{id}]"));
    }
    // SentencePiece's own runs of spaces; it cannot be told for a space inside a longer text.
    let spaces = kind == TokenType::UserDefined && text.bytes().all(|b| b == b' ');
    if spaces && parts.spelling == Spelling::SentencePiece {
        return Some(text.replace(' ', "\u{2581}"));
    }
    Some(text)
}

fn flags(scan: &Scan<'_>, parts: &mut Parts) -> Result<()> {
    // In file order, in which the converter found them.
    for key in scan.keys {
        if let Some((name, _)) = SPECIAL.iter().find(|(_, known)| *known == key.name) {
            // Ignore an id beyond the vocabulary, as llama.cpp does with a warning.
            match scan.number(&key.name) {
                Some(id) if id < parts.vocab_size => parts.special.push(((*name).to_owned(), id)),
                Some(id) => {
                    let (key, size) = (&key.name, parts.vocab_size);
                    parts.notes.push(format!(
                        "metadata key `{key}` is {id}, but the vocabulary has only {size} ids"
                    ));
                }
                None => {}
            }
        }
        if let Some((name, _)) = ADD.iter().find(|(_, known)| *known == key.name)
            && let Some(yes) = scan.flag(&key.name)
        {
            parts.add.push(((*name).to_owned(), yes));
        }
        if let Some(name) = key.name.strip_prefix(CHAT_TEMPLATE).and_then(|rest| rest.strip_prefix('.'))
            && key.name != CHAT_TEMPLATES
            && let Some(text) = scan.text(&key.name)?
        {
            parts.chat_templates.push((name.to_owned(), text));
        }
    }
    parts.ends = scan.ids(ENDS)?.unwrap_or_default();
    parts.ends.retain(|id| *id < parts.vocab_size);
    if let Some(text) = scan.text(CHAT_TEMPLATE)? {
        parts.chat_templates.push(("default".to_owned(), text));
    }
    parts.add_space_prefix = scan.flag(ADD_SPACE_PREFIX);
    // For SentencePiece BPE, llama.cpp does neither, whatever the keys say.
    if parts.kind != Kind::Bpe {
        parts.remove_extra_whitespaces = scan.flag(REMOVE_EXTRA_WHITESPACES);
        parts.charsmap = scan.bytes(CHARSMAP)?;
    }
    parts.lowercase = scan.flag(LOWERCASE);
    parts.strip_accents = scan.flag(STRIP_ACCENTS);
    let stated = parts.special_id("unk").filter(|id| parts.token(*id).is_some());
    let typed = parts.types.iter().position(|kind| *kind == TokenType::Unknown);
    let default = usual_unknown(parts.kind, parts.spelling);
    parts.unk = match parts.spelling {
        // Bytes are never unknown.
        Spelling::Bytes => None,
        _ => stated.or_else(|| typed.and_then(|n| u32::try_from(n).ok())).or(default),
    };
    parts.unk = parts.unk.filter(|id| parts.token(*id).is_some());
    Ok(())
}

/// Fills in the tokens that are matched before anything else.
fn added(parts: &mut Parts) {
    for (id, kind) in (0u32..).zip(&parts.types) {
        let special = matches!(kind, TokenType::Control | TokenType::Unknown);
        if special || *kind == TokenType::UserDefined {
            // A text that could be spelled in bytes is not: it is that of the input.
            let text = parts.tokens.get(id as usize).and_then(Option::as_deref).unwrap_or_default();
            let normalized = parts.spelling == Spelling::Bytes
                && !text.is_ascii()
                && text.chars().all(|c| byte_of(c).is_some());
            parts.added.push(AddedToken { id, special, normalized, ..AddedToken::default() });
        }
    }
}

fn merges(scan: &Scan<'_>, parts: &mut Parts) -> Result<()> {
    let Some(texts) = scan.strings(MERGES)? else { return Ok(()) };
    let ids: HashMap<&str, u32> = parts.each().map(|(id, text)| (text, id)).collect();
    let mut merges = Vec::with_capacity(texts.len());
    for (n, text) in texts.iter().enumerate() {
        let id = |part: &str| {
            ids.get(part).copied().ok_or_else(|| {
                let (text, part) = (escape(text, 80), escape(part, 40));
                Error::malformed(format!("merge {n} is `{text}`, but `{part}` is not a token"))
            })
        };
        // A part may begin with a space, but must not be empty.
        let cut = text.char_indices().skip(1).find(|(_, c)| *c == ' ');
        let Some((at, _)) = cut else {
            return Err(Error::malformed(format!("merge {n} is `{}`, expected a pair", escape(text, 80))));
        };
        merges.push((id(&text[..at])?, id(&text[at + 1..])?));
    }
    parts.merges = merges;
    Ok(())
}
