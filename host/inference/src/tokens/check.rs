//! Whether two tokenizers read a text alike.

use super::{Encoding, Placed, Tokens};
use apr_sdk::Result;

/// What two tokenizers make of one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// How many tokens the one makes of it.
    pub one: u64,
    /// How many the other does.
    pub two: u64,
    /// The first place where they do otherwise; `None` if all ids are the same.
    pub first: Option<Divergence>,
}

/// The first place where two tokenizers do otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The number of the token in the text, from 0.
    pub token: u64,
    /// The line of the text, from 1.
    pub line: u64,
    /// The byte of the text at which the token of the one begins; its length if it has no such token.
    pub byte: usize,
    /// The id there by the one, if it has as many tokens.
    pub one: Option<u32>,
    /// The id there by the other.
    pub two: Option<u32>,
}

/// Reads a text with two tokenizers.
///
/// # Errors
/// As [`Tokens::encode`].
pub fn compare(one: &mut Tokens, two: &mut Tokens, text: &str, how: Encoding) -> Result<Comparison> {
    let (ids, others) = (one.encode(text, how)?, two.encode(text, how)?);
    let count = |ids: &[u32]| u64::try_from(ids.len()).unwrap_or(u64::MAX);
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
            let (one, two) = (ids.get(at).copied(), others.get(at).copied());
            let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
            Some(Divergence { token: number(at), line: number(line), byte, one, two })
        }
    };
    Ok(Comparison { one: count(&ids), two: count(&others), first })
}

/// Where token number `at` of a text lies. Places are not kept while ids are: they are six times as long.
fn place(tokens: &mut Tokens, text: &str, how: Encoding, at: usize) -> Result<Option<Placed>> {
    let (mut n, mut found) = (0, None);
    tokens.each(text, how, &mut |token| {
        if n == at {
            found = Some(token);
        }
        n += 1;
    })?;
    Ok(found)
}
