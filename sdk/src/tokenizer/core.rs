//! What of a tokenizer every format keeps, in a form in which two tokenizers can be compared.

use super::pieces::{counts, scores_of_merges};
use super::{Kind, Spelling, TokenType, Tokenizer, Treatment};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The part of a tokenizer that survives formats which hold only lists and flags: what cuts a text into the same ids. The
/// definitions (`normalizer`, `pre_tokenizer`, ...) and the flags of added tokens are not in it; what the definitions of a
/// tokenizer of pieces do is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Core {
    /// How a text is cut.
    pub kind: Kind,
    /// How texts of tokens are spelled.
    pub spelling: Spelling,
    /// Every id: its text as it looks in a text, and its type. Ids without a token are unused, named after their number, and so
    /// are empty texts, which not every format can say.
    pub tokens: Vec<(String, TokenType)>,
    /// Scores by id, where they decide (SentencePiece and unigram), as stated or as merges mean them; `None` for a token
    /// that is found in another way. Empty where nothing decides by scores.
    pub scores: Vec<Option<f32>>,
    /// Merges, where they decide: not where scores do.
    pub merges: Vec<(u32, u32)>,
    /// Ids by what they are for, without those that some formats cannot name.
    pub special: BTreeMap<String, u32>,
    /// What is added to every text.
    pub add: BTreeMap<String, bool>,
    /// SentencePiece's compiled normalization rules.
    pub charsmap: Option<Vec<u8>>,
    /// What is done to a text before it is cut, for a tokenizer of pieces.
    pub treatment: Option<Treatment>,
    /// Chat templates, by names of letters, digits and `_`.
    pub chat_templates: BTreeMap<String, String>,
}

/// Names of special ids that every format can say, and that none makes up.
const SPECIAL: [&str; 6] = ["bos", "eos", "unk", "sep", "pad", "mask"];
/// What every format can say of adding.
const ADD: [&str; 3] = ["bos", "eos", "sep"];

/// The core of `tokenizer`.
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
    let stated = || match &tokenizer.scores {
        Some(scores) => Some(Cow::Borrowed(scores)),
        None => scores_of_merges(tokenizer).map(Cow::Owned),
    };
    let scores =
        stated().filter(|_| by_score).map(|scores| scores_of(tokenizer, &scores)).unwrap_or_default();
    let merges = if scores.is_empty() { tokenizer.merges.clone() } else { Vec::new() };
    let keep = |name: &str| SPECIAL.contains(&name);
    Core {
        kind: tokenizer.kind,
        spelling: tokenizer.spelling,
        tokens,
        scores,
        merges,
        special: tokenizer.special.iter().filter(|(name, _)| keep(name)).cloned().collect(),
        add: tokenizer.add.iter().filter(|(name, yes)| adds(name, *yes)).cloned().collect(),
        charsmap: tokenizer.charsmap.clone().filter(|_| tokenizer.kind == Kind::Unigram),
        treatment: Treatment::of(tokenizer),
        chat_templates: tokenizer.chat_templates.iter().map(|(n, t)| (plain(n), t.clone())).collect(),
    }
}

/// The score of every id whose token is found by its score. The formats hold 32 bits.
fn scores_of(tokenizer: &Tokenizer, scores: &[f64]) -> Vec<Option<f32>> {
    let one = |id: u32| {
        let there = tokenizer.written(id) && tokenizer.token(id).is_some() && counts(tokenizer.type_of(id));
        let score = usize::try_from(id).ok().and_then(|at| scores.get(at)).filter(|_| there)?;
        #[allow(clippy::cast_possible_truncation, reason = "rounding to f32 is what is meant")]
        Some(*score as f32)
    };
    (0..tokenizer.vocab_size).map(one).collect()
}

/// Whether a statement counts. That nothing separates is the same as saying nothing.
fn adds(name: &str, yes: bool) -> bool {
    ADD.contains(&name) && (yes || name != "sep")
}

/// The text of an id that no token has.
pub fn unused(id: u32) -> String {
    format!("[PAD{id}]")
}

/// A template's name of letters, digits and `_`.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// As [`Tokenizer::surfaces`].
pub fn surfaces(tokenizer: &Tokenizer) -> Vec<Option<Cow<'_, str>>> {
    let mut surfaces: Vec<_> =
        tokenizer.tokens.iter().map(|text| text.as_deref().map(Cow::Borrowed)).collect();
    let by_bytes = tokenizer.spelling == Spelling::Bytes && is_byte_level(tokenizer);
    for added in &tokenizer.added {
        let Some(Some(text)) = usize::try_from(added.id).ok().and_then(|n| surfaces.get_mut(n)) else {
            continue;
        };
        // Only what is looked for in the raw text can be spelled otherwise there.
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

/// SentencePiece's space.
const SPACE: char = '\u{2581}';

fn is_byte_level(tokenizer: &Tokenizer) -> bool {
    let kind = tokenizer.decoder.as_ref().and_then(|decoder| decoder.get("type"));
    kind.is_none_or(|kind| kind == "ByteLevel")
}

/// What GPT-2's characters stand for; `None` if a character is not one of them, or nothing changes.
fn from_bytes(text: &str) -> Option<String> {
    if text.bytes().all(|b| b.is_ascii_graphic()) {
        return None;
    }
    let bytes: Option<Vec<u8>> = text.chars().map(byte_of).collect();
    bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The byte that one of GPT-2's 256 characters stands for.
pub fn byte_of(c: char) -> Option<u8> {
    let code = u32::from(c);
    let own = |b: u32| matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if own(code) {
        return u8::try_from(code).ok();
    }
    // The others follow one another from U+0100 on, in the order of bytes.
    let nth = usize::try_from(code.checked_sub(0x100)?).ok()?;
    (0..=255u8).filter(|b| !own(u32::from(*b))).nth(nth)
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
        assert_eq!(from_bytes("<｜end｜>"), None);
    }
}
