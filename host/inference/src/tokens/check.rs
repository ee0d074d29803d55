//! Compares how two tokenizers read a text.

use super::{Encoding, Placed, Tokens};
use apr_sdk::Result;

/// The tokenization of one text by two tokenizers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Number of tokens from the first.
    pub one: u64,
    /// Number of tokens from the second.
    pub two: u64,
    /// The first difference; `None` if all ids are equal.
    pub first: Option<Divergence>,
}

/// The first position where two tokenizers differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// Index of the token in the text, from 0.
    pub token: u64,
    /// Line in the text, from 1.
    pub line: u64,
    /// Byte offset of the first tokenizer's token in the text; the text's length if there is no such token.
    pub byte: usize,
    /// The id from the first tokenizer, if it has that many tokens.
    pub one: Option<u32>,
    /// The id from the second, if it has that many tokens.
    pub two: Option<u32>,
}

/// Tokenizes a text with both.
///
/// # Errors
/// As [`Tokens::encode`].
pub fn compare(one: &mut Tokens, two: &mut Tokens, text: &str, how: Encoding) -> Result<Comparison> {
    let ids = one.encode(text, how)?;
    let others = two.encode(text, how)?;
    let n = ids.len().max(others.len());
    let first = match (0..n).find(|&n| ids.get(n) != others.get(n)) {
        None => None,
        Some(at) => {
            let (longer, id) = if at < ids.len() { (one, ids.get(at)) } else { (two, others.get(at)) };
            let place = place(longer, text, how, at)?;
            let byte = place.map_or(text.len(), |place| place.start);
            let before = text.as_bytes().get(..byte).unwrap_or_default();
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            debug_assert!(place.is_none_or(|place| Some(&place.id) == id));
            let [one, two] = [&ids, &others].map(|ids| ids.get(at).copied());
            Some(Divergence { token: number(at), line: number(line), byte, one, two })
        }
    };
    Ok(Comparison { one: number(ids.len()), two: number(others.len()), first })
}

fn number(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// The position of token `at` in a text. Positions are not kept with the ids: they take six times as much
/// memory.
fn place(tokens: &mut Tokens, text: &str, how: Encoding, at: usize) -> Result<Option<Placed>> {
    let mut n = 0;
    let mut placed = None;
    tokens.each(text, how, &mut |token| {
        if n == at {
            placed = Some(token);
        }
        n += 1;
    })?;
    Ok(placed)
}
