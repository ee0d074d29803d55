//! The part of a tokenizer that every format keeps, in a form that can be compared.

use super::pieces::{counts, scores_of_merges};
use super::{Kind, Spelling, TokenType, Tokenizer, Treatment};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The part of a tokenizer that survives formats with nothing but lists and flags: whatever decides which ids
/// a text becomes. It leaves out the definitions (`normalizer`, `pre_tokenizer`, ...) and the flags of added
/// tokens, but for SentencePiece-style tokenizers it includes what the definitions do.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Core {
    /// The tokenization algorithm.
    pub kind: Kind,
    /// Spelling of the token texts.
    pub spelling: Spelling,
    /// Every id's text, as it appears in input, and its type. An id without a token is unused and named after
    /// its number; so is an empty text, which not every format can express.
    pub tokens: Vec<(String, TokenType)>,
    /// Scores by id, where scores decide (SentencePiece and unigram), stated or implied by merges; `None` for
    /// a token found in another way. Empty where scores do not matter.
    pub scores: Vec<Option<f32>>,
    /// Merges, where they decide; empty where scores do.
    pub merges: Vec<(u32, u32)>,
    /// Ids by purpose (`bos`, `eos`, ...), limited to those that every format can name.
    pub special: BTreeMap<String, u32>,
    /// The special tokens that are added to every text.
    pub add: BTreeMap<String, bool>,
    /// SentencePiece's compiled normalization rules.
    pub charsmap: Option<Vec<u8>>,
    /// The treatment of a text before tokenization, for SentencePiece-style tokenizers.
    pub treatment: Option<Treatment>,
    /// Chat templates, by names reduced to letters, digits and `_`.
    pub chat_templates: BTreeMap<String, String>,
}

/// Special ids that every format can express and none invents.
const SPECIAL: [&str; 6] = ["bos", "eos", "unk", "sep", "pad", "mask"];
/// Add flags that every format can express.
const ADD: [&str; 3] = ["bos", "eos", "sep"];

/// See [`Tokenizer::core`].
pub fn core(tokenizer: &Tokenizer) -> Core {
    let by_score = tokenizer.kind == Kind::Unigram || tokenizer.spelling == Spelling::SentencePiece;
    let mut texts = surfaces(tokenizer).into_iter();
    let tokens = (0..tokenizer.vocab_size)
        .map(|id| match texts.next().flatten() {
            Some(text) if text.is_empty() && tokenizer.written(id) => {
                (format!("[EMPTY_{id}]"), tokenizer.type_of(id))
            }
            Some(text) if tokenizer.written(id) => (text.into_owned(), tokenizer.type_of(id)),
            _ => (unused(id), TokenType::Unused),
        })
        .collect();
    let stated = match &tokenizer.scores {
        Some(scores) => Some(Cow::Borrowed(scores)),
        None => scores_of_merges(tokenizer).map(Cow::Owned),
    };
    let scores = stated.filter(|_| by_score).map(|scores| scores_of(tokenizer, &scores)).unwrap_or_default();
    let merges = if scores.is_empty() { tokenizer.merges.clone() } else { Vec::new() };
    let special = tokenizer.special.iter().filter(|(name, _)| SPECIAL.contains(&name.as_str()));
    Core {
        kind: tokenizer.kind,
        spelling: tokenizer.spelling,
        tokens,
        scores,
        merges,
        special: special.cloned().collect(),
        add: tokenizer.add.iter().filter(|(name, yes)| adds(name, *yes)).cloned().collect(),
        charsmap: tokenizer.charsmap.clone().filter(|_| tokenizer.kind == Kind::Unigram),
        treatment: Treatment::of(tokenizer),
        chat_templates: tokenizer.chat_templates.iter().map(|(n, t)| (plain(n), t.clone())).collect(),
    }
}

/// The score of every id whose token is found by score, rounded to the 32 bits that formats store.
fn scores_of(tokenizer: &Tokenizer, scores: &[f64]) -> Vec<Option<f32>> {
    let rounded = (0..tokenizer.vocab_size).map(|id| {
        let there = tokenizer.written(id) && tokenizer.token(id).is_some() && counts(tokenizer.type_of(id));
        let score = usize::try_from(id).ok().and_then(|at| scores.get(at)).filter(|_| there)?;
        #[allow(clippy::cast_possible_truncation, reason = "rounding to f32 is what is meant")]
        Some(*score as f32)
    });
    rounded.collect()
}

/// Returns whether an add flag counts. "No separator" is the same as no statement.
fn adds(name: &str, yes: bool) -> bool {
    ADD.contains(&name) && (yes || name != "sep")
}

/// The placeholder text for an id without a token.
pub fn unused(id: u32) -> String {
    format!("[PAD{id}]")
}

/// A template's name, with anything but letters, digits and `_` replaced by `_`.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// See [`Tokenizer::surfaces`].
pub fn surfaces(tokenizer: &Tokenizer) -> Vec<Option<Cow<'_, str>>> {
    let mut surfaces: Vec<_> =
        tokenizer.tokens.iter().map(|text| text.as_deref().map(Cow::Borrowed)).collect();
    let by_bytes = tokenizer.spelling == Spelling::Bytes && is_byte_level(tokenizer);
    for added in &tokenizer.added {
        let Some(Some(text)) = usize::try_from(added.id).ok().and_then(|n| surfaces.get_mut(n)) else {
            continue;
        };
        // Only tokens that are matched in the raw text can be spelled differently there.
        if by_bytes
            && !added.normalized
            && let Some(raw) = from_bytes(text)
        {
            *text = Cow::Owned(raw);
        }
    }
    for (text, kind) in surfaces.iter_mut().zip(&tokenizer.types) {
        if let (Some(text), TokenType::UserDefined) = (text, kind)
            && text.contains(SPACE)
        {
            *text = Cow::Owned(text.replace(SPACE, " "));
        }
    }
    surfaces
}

/// SentencePiece's stand-in for a space, U+2581.
const SPACE: char = '\u{2581}';

fn is_byte_level(tokenizer: &Tokenizer) -> bool {
    let kind = tokenizer.decoder.as_ref().and_then(|decoder| decoder.get("type"));
    kind.is_none_or(|kind| kind == "ByteLevel")
}

/// Decodes GPT-2's byte characters; `None` if a character is not one of them, nothing would change, or no text results.
fn from_bytes(text: &str) -> Option<String> {
    if text.bytes().all(|b| b.is_ascii_graphic()) {
        return None;
    }
    let bytes: Option<Vec<u8>> = text.chars().map(byte_of).collect();
    String::from_utf8(bytes?).ok()
}

/// The byte that one of GPT-2's 256 byte characters stands for.
pub fn byte_of(c: char) -> Option<u8> {
    let code = u32::from(c);
    if is_own(code) {
        return u8::try_from(code).ok();
    }
    // The remaining bytes are numbered consecutively from U+0100, in byte order.
    let nth = usize::try_from(code.checked_sub(0x100)?).ok()?;
    (0..=255u8).filter(|b| !is_own(u32::from(*b))).nth(nth)
}

fn is_own(code: u32) -> bool {
    matches!(code, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpt2s_characters_stand_for_all_bytes() {
        let mut all: Vec<u8> = (0..0x144).filter_map(char::from_u32).filter_map(byte_of).collect();
        all.sort_unstable();
        assert_eq!(all, (0..=255).collect::<Vec<u8>>());
        assert_eq!((byte_of('Ġ'), byte_of('Ċ'), byte_of(' ')), (Some(b' '), Some(b'\n'), None));
        assert_eq!(from_bytes("ĠhiÃ©").as_deref(), Some(" hié"));
        assert_eq!((from_bytes("<｜end｜>"), from_bytes("café")), (None, None));
    }
}
