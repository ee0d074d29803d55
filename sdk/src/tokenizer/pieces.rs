//! Scores and merges of SentencePiece BPE: two forms of the same order. SentencePiece's own model, and
//! formats derived from it, store a score per piece; `tokenizer.json` stores the pairs that make up the
//! pieces, best first.

use super::results::Results;
use super::{Kind, Parts, Spelling, TokenType};
use ahash::{AHashMap, AHashSet};

/// Bytes of a piece made of pairs. 1024: SentencePiece's own limit is 16 characters, but a run of spaces may
/// be longer.
const MAX_PIECE: usize = 1024;

/// Returns whether scores can decide how this tokenizer merges.
pub fn by_pieces(parts: &Parts) -> bool {
    parts.kind == Kind::Bpe && parts.spelling == Spelling::SentencePiece
}

/// Returns whether tokens of this type are found by merging, in the order of their scores.
pub fn counts(kind: TokenType) -> bool {
    matches!(kind, TokenType::Normal | TokenType::Unused)
}

/// Returns whether two scores are the same number. The `tokenizers` library reads one in eight of `tokenizer.json` with another last bit,
/// so that files that it loaded and saved drift by a few of them.
pub fn same_score(one: f64, other: f64) -> bool {
    (one - other).abs() <= 4.0 * f64::EPSILON * one.abs()
}

/// Scores equivalent to the merges, one per entry of `tokens`, 0 for tokens that are not found by merging.
/// `None` for a tokenizer that has scores already, or is not SentencePiece BPE.
///
/// If the ids of merged pieces ascend with the merges, as in SentencePiece's own training, these are its own
/// scores: 0 for the first ordinary piece, one less for each id, single characters last. Otherwise a piece's
/// score is minus the number of pieces merged before it, and pieces that no merge produces come last.
pub fn scores_of_merges(parts: &Parts) -> Option<Vec<f64>> {
    if !by_pieces(parts) || parts.scores.is_some() {
        return None;
    }
    let results: Vec<u32> = made(parts).into_iter().map(|(_, id)| id).collect();
    let ordered = results.is_sorted();
    let first = (0u32..).zip(&parts.types).find(|(_, kind)| counts(**kind)).map_or(0, |(id, _)| id);
    let mut rank: AHashMap<u32, u32> = AHashMap::with_capacity(results.len());
    for id in results {
        let next = u32::try_from(rank.len()).unwrap_or(u32::MAX);
        rank.entry(id).or_insert(next);
    }
    let behind = u32::try_from(rank.len()).unwrap_or(u32::MAX);
    let scores = (0u32..).zip(&parts.types).map(|(id, kind)| {
        if !counts(*kind) {
            0.0
        } else if ordered {
            -f64::from(id.saturating_sub(first))
        } else {
            -f64::from(rank.get(&id).copied().unwrap_or(behind))
        }
    });
    Some(scores.collect())
}

/// A piece whose merges no scores can express, if there is one: its pairs are not consecutive in the merge
/// list, or it is the concatenation of two pieces that the list does not merge although scores would.
pub fn beyond_scores(parts: &Parts) -> Option<u32> {
    if !by_pieces(parts) || parts.merges.is_empty() {
        return None;
    }
    let merges = made(parts);
    let mut seen = AHashSet::new();
    let mut last = None;
    let torn =
        merges.iter().map(|(_, id)| *id).find(|id| last.replace(*id) != Some(*id) && !seen.insert(*id));
    torn.or_else(|| {
        let merged: AHashSet<(u32, u32)> = merges.iter().map(|(pair, _)| *pair).collect();
        let all = pairs(parts).into_iter().filter(|(id, _)| counts(parts.type_of(*id)));
        let mut lacking = all.filter(|(_, pairs)| {
            let mut found =
                pairs.iter().filter(|(a, b)| counts(parts.type_of(*a)) && counts(parts.type_of(*b)));
            found.any(|pair| !merged.contains(pair))
        });
        lacking.next().map(|(id, _)| id)
    })
}

/// Each merged pair with the piece it produces, except pieces that are matched before merging.
fn made(parts: &Parts) -> Vec<((u32, u32), u32)> {
    let ids: AHashMap<&str, u32> = parts.each().map(|(id, text)| (text, id)).collect();
    let mut results = Results::new(parts, &ids);
    let results = parts.merges.iter().filter_map(|&(left, right)| {
        let id = results.of(parts.token(left)?, parts.token(right)?)?;
        counts(parts.type_of(id)).then_some(((left, right), id))
    });
    results.collect()
}

/// The pairs that produce each piece, best piece first: the merges that the scores imply. `None` unless this
/// is SentencePiece BPE with scores.
pub fn merges_of_scores(parts: &Parts) -> Option<Vec<(u32, u32)>> {
    let places = merge_places(parts)?;
    let place = |id: u32| usize::try_from(id).ok().and_then(|at| places.get(at)).copied().flatten();
    let mut all = pairs(parts);
    all.sort_unstable_by_key(|(id, _)| place(*id));
    Some(all.into_iter().flat_map(|(_, pairs)| pairs).collect())
}

/// The place of each piece in the order in which the scores have them merged, best first, by id: `None` for a token that no such
/// merge gives or takes. Pieces in the same order and then pairs by their ids are [`merges_of_scores`]. `None` as there.
pub fn merge_places(parts: &Parts) -> Option<Vec<Option<u32>>> {
    let scores = parts.scores.as_ref().filter(|_| by_pieces(parts))?;
    // Tokens matched before anything else precede all pieces.
    let score = |id: u32| match parts.type_of(id) {
        TokenType::UserDefined => f64::INFINITY,
        _ => usize::try_from(id).ok().and_then(|at| scores.get(at)).copied().unwrap_or(0.0),
    };
    let mut scored: Vec<(f64, u32)> = mergeable(parts).map(|(id, _)| (score(id), id)).collect();
    // Stable: pieces with equal scores stay in id order.
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut places = vec![None; parts.tokens.len()];
    for (place, (_, id)) in (0u32..).zip(scored) {
        if let Some(of_id) = usize::try_from(id).ok().and_then(|at| places.get_mut(at)) {
            *of_id = Some(place);
        }
    }
    Some(places)
}

/// The pieces that merges give and take. What was added to the pieces is none.
fn mergeable(parts: &Parts) -> impl Iterator<Item = (u32, &str)> {
    let outside: AHashSet<u32> =
        parts.added.iter().filter(|added| added.outside_model).map(|added| added.id).collect();
    parts.each().filter(move |(id, text)| {
        (1..=MAX_PIECE).contains(&text.len())
            && matches!(parts.type_of(*id), TokenType::Normal | TokenType::UserDefined)
            && !outside.contains(id)
    })
}

/// Every piece that is the concatenation of two others, with all such pairs, in id order.
fn pairs(parts: &Parts) -> Vec<(u32, Vec<(u32, u32)>)> {
    let ids: AHashMap<&str, u32> = mergeable(parts).map(|(id, text)| (text, id)).collect();
    let mut all = Vec::new();
    for (id, text) in mergeable(parts) {
        let mut pairs = Vec::new();
        for (at, _) in text.char_indices().skip(1) {
            // Most splits have no left part: the right one is not looked for then.
            if let Some(left) = ids.get(&text[..at])
                && let Some(right) = ids.get(&text[at..])
            {
                pairs.push((*left, *right));
            }
        }
        if !pairs.is_empty() {
            pairs.sort_unstable();
            all.push((id, pairs));
        }
    }
    all
}

fn n_ordinary(types: &[TokenType]) -> usize {
    types.iter().filter(|kind| **kind == TokenType::Normal).count()
}

/// Marks the tokens before the first byte as those that a user defined: SentencePiece puts what its user defined before the bytes,
/// and what it was trained before them never. What no merges give is left: a tokenizer of merges never finds it in a text.
pub fn before_bytes(parts: &mut Parts) {
    let Some(first) = parts.types.iter().position(|kind| *kind == TokenType::Byte) else { return };
    let given: AHashSet<u32> = made(parts).into_iter().map(|(_, id)| id).collect();
    let (before, after) = parts.types.split_at_mut(first);
    // Bytes that were put behind a vocabulary that something else trained say nothing.
    if n_ordinary(before) >= n_ordinary(after) {
        return;
    }
    for ((id, kind), text) in (0u32..).zip(before).zip(&parts.tokens) {
        let is_character = text.as_deref().is_some_and(|text| text.chars().nth(1).is_none());
        if *kind == TokenType::Normal && (is_character || given.contains(&id)) {
            *kind = TokenType::UserDefined;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::AddedToken;
    use super::*;

    /// A SentencePiece BPE tokenizer: a control token, then `pieces`, merged by the given texts.
    fn pieces(pieces: &[&str], merges: &[(&str, &str)]) -> Parts {
        let tokens: Vec<_> =
            std::iter::once("<s>").chain(pieces.iter().copied()).map(|t| Some(t.to_owned())).collect();
        let mut types = vec![TokenType::Normal; tokens.len()];
        types[0] = TokenType::Control;
        let merges = merges.iter().map(|(a, b)| (id(&tokens, a), id(&tokens, b))).collect();
        Parts { spelling: Spelling::SentencePiece, types, merges, tokens, ..Parts::default() }
    }

    fn id(tokens: &[Option<String>], text: &str) -> u32 {
        u32::try_from(tokens.iter().position(|t| t.as_deref() == Some(text)).unwrap()).unwrap()
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
    fn what_was_added_to_the_pieces_takes_part_in_no_merge() {
        let mut parts = pieces(&TRAINED, &[]);
        parts.scores = Some(vec![0.0, 0.0, -1.0, -2.0, -3.0, -4.0]);
        (parts.types[1], parts.types[2]) = (TokenType::UserDefined, TokenType::UserDefined);
        assert_eq!(merges_of_scores(&parts).unwrap().len(), 2);
        parts.added = vec![AddedToken { id: 2, outside_model: true, ..AddedToken::default() }];
        assert_eq!(merges_of_scores(&parts).unwrap(), [(3, 4)]);
    }

    #[test]
    fn what_scores_cannot_say_is_named() {
        // Scores would also merge a and bc.
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
