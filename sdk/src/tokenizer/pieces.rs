//! Scores and merges of SentencePiece's BPE: two forms of one order. Its model and formats after it hold a score for each
//! piece, `tokenizer.json` the pairs that give the pieces, best first.

use super::{Kind, Parts, Spelling, TokenType};
use std::collections::{HashMap, HashSet};

/// Bytes of a piece that is made of pairs. 1024: SentencePiece's own limit is 16 characters, a run of spaces may be longer.
const MAX_PIECE: usize = 1024;

/// Whether scores decide how this tokenizer merges, as far as a format has scores.
pub fn by_pieces(parts: &Parts) -> bool {
    parts.kind == Kind::Bpe && parts.spelling == Spelling::SentencePiece
}

/// Whether a text is found by merging, and its score says when.
pub fn counts(kind: TokenType) -> bool {
    matches!(kind, TokenType::Normal | TokenType::Unused)
}

/// The scores that mean what the merges mean, one for each of `tokens`, 0 for what is not found by merging; `None` for a
/// tokenizer that has scores, or is not one of pieces.
///
/// Where the ids of merged pieces go up with the merges, as SentencePiece trains them, these are its own: 0 for the first
/// ordinary piece, one less for each id, single characters behind all. Elsewhere a piece has minus the number of pieces that
/// are merged before it, and what no merge gives comes last.
pub fn scores_of_merges(parts: &Parts) -> Option<Vec<f64>> {
    if !by_pieces(parts) || parts.scores.is_some() {
        return None;
    }
    let results: Vec<u32> = made(parts).into_iter().map(|(_, id)| id).collect();
    let ordered = results.is_sorted();
    let first = (0u32..).zip(&parts.types).find(|(_, kind)| counts(**kind)).map_or(0, |(id, _)| id);
    let mut rank: HashMap<u32, u32> = HashMap::with_capacity(results.len());
    for id in results {
        let next = u32::try_from(rank.len()).unwrap_or(u32::MAX);
        rank.entry(id).or_insert(next);
    }
    let behind = u32::try_from(rank.len()).unwrap_or(u32::MAX);
    let score = |(id, kind): (u32, &TokenType)| {
        if !counts(*kind) {
            0.0
        } else if ordered {
            -f64::from(id.saturating_sub(first))
        } else {
            -f64::from(rank.get(&id).copied().unwrap_or(behind))
        }
    };
    Some((0u32..).zip(&parts.types).map(score).collect())
}

/// A piece for which no scores can say what the merges of a tokenizer of pieces say, if there is one: its pairs do not stand
/// together, or it is two others that are not merged, as they are where scores decide.
pub fn beyond_scores(parts: &Parts) -> Option<u32> {
    if !by_pieces(parts) || parts.merges.is_empty() {
        return None;
    }
    let made = made(parts);
    let (mut seen, mut last) = (HashSet::new(), None);
    let torn = made.iter().map(|(_, id)| *id).find(|id| last.replace(*id) != Some(*id) && !seen.insert(*id));
    torn.or_else(|| {
        let merged: HashSet<(u32, u32)> = made.iter().map(|(pair, _)| *pair).collect();
        let found = |id: u32| counts(parts.type_of(id));
        let lacks = |&(a, b): &(u32, u32)| found(a) && found(b) && !merged.contains(&(a, b));
        let mut all = pairs(parts).into_iter().filter(|(id, _)| found(*id));
        all.find(|(_, pairs)| pairs.iter().any(lacks)).map(|(id, _)| id)
    })
}

/// Each pair that is merged, with the piece that it gives; without pieces that are found before merging.
fn made(parts: &Parts) -> Vec<((u32, u32), u32)> {
    let ids: HashMap<&str, u32> = parts.each().map(|(id, text)| (text, id)).collect();
    let mut joined = String::new();
    let result = |&(left, right): &(u32, u32)| {
        joined.clear();
        joined.push_str(parts.token(left)?);
        joined.push_str(parts.token(right)?);
        let id = *ids.get(joined.as_str())?;
        counts(parts.type_of(id)).then_some(((left, right), id))
    };
    parts.merges.iter().filter_map(result).collect()
}

/// The pairs that give each piece, the best piece first: what scores mean, for a tokenizer of pieces that has scores.
/// `None` for any other.
pub fn merges_of_scores(parts: &Parts) -> Option<Vec<(u32, u32)>> {
    let scores = parts.scores.as_ref().filter(|_| by_pieces(parts))?;
    let mut found: Vec<(f64, u32, u32)> = Vec::new();
    for (id, pairs) in pairs(parts) {
        // What is found whole before anything else comes before all pairs.
        let score = match parts.type_of(id) {
            TokenType::UserDefined => f64::INFINITY,
            _ => usize::try_from(id).ok().and_then(|at| scores.get(at)).copied().unwrap_or(0.0),
        };
        found.extend(pairs.into_iter().map(|(a, b)| (score, a, b)));
    }
    // Stable: pieces of one score stay in the order of ids.
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    Some(found.into_iter().map(|(_, a, b)| (a, b)).collect())
}

/// Every piece that is two others, with all the pairs that it is.
fn pairs(parts: &Parts) -> Vec<(u32, Vec<(u32, u32)>)> {
    let mergeable = |id: u32| matches!(parts.type_of(id), TokenType::Normal | TokenType::UserDefined);
    let ids: HashMap<&str, u32> =
        parts.each().filter(|(id, _)| mergeable(*id)).map(|(id, text)| (text, id)).collect();
    let of = |(id, text): (u32, &str)| {
        let cuts = text.char_indices().skip(1);
        let mut pairs: Vec<(u32, u32)> =
            cuts.filter_map(|(at, _)| Some((*ids.get(&text[..at])?, *ids.get(&text[at..])?))).collect();
        pairs.sort_unstable();
        (!pairs.is_empty()).then_some((id, pairs))
    };
    parts.each().filter(|(id, text)| mergeable(*id) && text.len() <= MAX_PIECE).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tokenizer of pieces: control, then `pieces`, with the merges of these texts.
    fn pieces(pieces: &[&str], merges: &[(&str, &str)]) -> Parts {
        let tokens: Vec<_> =
            std::iter::once("<s>").chain(pieces.iter().copied()).map(|t| Some(t.to_owned())).collect();
        let mut types = vec![TokenType::Normal; tokens.len()];
        types[0] = TokenType::Control;
        let id = |text: &str| {
            u32::try_from(tokens.iter().position(|t| t.as_deref() == Some(text)).unwrap()).unwrap()
        };
        let merges = merges.iter().map(|(a, b)| (id(a), id(b))).collect();
        Parts { spelling: Spelling::SentencePiece, types, merges, tokens, ..Parts::default() }
    }

    const TRAINED: [&str; 5] = ["ab", "abc", "a", "b", "c"];

    #[test]
    fn merges_in_the_order_of_ids_have_sentencepieces_scores() {
        let parts = pieces(&TRAINED, &[("a", "b"), ("ab", "c")]);
        assert_eq!(scores_of_merges(&parts).unwrap(), [0.0, 0.0, -1.0, -2.0, -3.0, -4.0]);
        assert_eq!(beyond_scores(&parts), None);
        let scored = Parts { scores: scores_of_merges(&parts), ..parts.clone() };
        assert_eq!(merges_of_scores(&scored).unwrap(), parts.merges);
        assert_eq!(scores_of_merges(&scored), None);
    }

    #[test]
    fn merges_in_another_order_are_ranked_and_what_none_gives_comes_last() {
        let parts =
            pieces(&["a", "b", "c", "bc", "ab", "abc"], &[("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc")]);
        assert_eq!(scores_of_merges(&parts).unwrap(), [0.0, -3.0, -3.0, -3.0, -1.0, 0.0, -2.0]);
        assert_eq!(beyond_scores(&parts), None);
    }

    #[test]
    fn what_scores_cannot_say_is_named() {
        // Scores would merge a and bc as well.
        let lacking = pieces(&["a", "b", "c", "bc", "ab", "abc"], &[("a", "b"), ("b", "c"), ("ab", "c")]);
        assert_eq!(beyond_scores(&lacking), Some(6));
        let torn = pieces(
            &["a", "b", "c", "bc", "ab", "abc", "ca"],
            &[("a", "b"), ("b", "c"), ("ab", "c"), ("c", "a"), ("a", "bc")],
        );
        assert_eq!(beyond_scores(&torn), Some(6));
        let bytes = Parts { spelling: Spelling::Bytes, ..lacking };
        assert_eq!((beyond_scores(&bytes), scores_of_merges(&bytes)), (None, None));
    }
}
