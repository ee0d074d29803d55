//! Scores with more bits than the format has for them, which decide where two segmentations of a text are about as probable: runs of
//! one character, say.

use super::super::SCORES;
use super::super::scan::Scan;
use super::made;
use apr_sdk::tokenizer::{Kind, Parts, Tokenizer, same_score};
use apr_sdk::{LayoutSink, Result, Value, ValueType};

/// The key for the scores in 64 bits, where 32 do not hold all of them. llama.cpp ignores it.
const KEY: &str = "tokenizer.apr.scores";

/// Adds the scores to `keys` where the format's own key has rounded any, with a warning.
pub fn carry(tokenizer: &Tokenizer, keys: &mut Vec<(String, Value)>, sink: &mut dyn LayoutSink) {
    // Those of merged pieces say an order.
    let scores = tokenizer.scores.as_ref().filter(|_| tokenizer.kind == Kind::Unigram);
    let Some(scores) = scores.filter(|_| made(keys, SCORES).is_some()) else { return };
    let inexact: Vec<f64> = (0u32..)
        .zip(scores)
        .filter(|(id, score)| {
            tokenizer.written(*id) && tokenizer.token(*id).is_some() && stored(**score) != **score
        })
        .map(|(_, score)| *score)
        .collect();
    if inexact.is_empty() {
        return;
    }
    let n = inexact.iter().filter(|score| !same_score(stored(**score), **score)).count();
    if n > 0 {
        sink.warn(&format!(
            "llama.cpp has 32 bits for a score, to which {n} of this tokenizer's are rounded: where two ways to cut a text \
             into tokens are about as probable, as in a run of one character, it may choose the other"
        ));
    }
    let bytes: Vec<u8> = scores.iter().flat_map(|score| score.to_le_bytes()).collect();
    keys.push((KEY.to_owned(), Value::from_items(ValueType::F64, scores.len() as u64, &bytes)));
}

/// A score as the format's own key has it.
fn stored(score: f64) -> f64 {
    #[allow(clippy::cast_possible_truncation, reason = "the format stores 32 bits")]
    let rounded = score as f32;
    f64::from(rounded)
}

/// Restores to `parts` the scores that [`carry`] wrote. Where the format's own key was changed since, that counts.
///
/// # Errors
/// Malformed for a key with other contents.
pub fn take_back(scan: &Scan<'_>, parts: &mut Parts) -> Result<()> {
    let exact = scan.numbers(KEY)?.unwrap_or_default();
    for (score, exact) in parts.scores.iter_mut().flatten().zip(exact) {
        if stored(exact) == *score {
            *score = exact;
        }
    }
    Ok(())
}
