//! Byte-pair encoding over the tokenizer's own tables, token for token what the library's model finds.
//!
//! The library's model is built of texts: two for each merge, two for each token, and every merge that scores imply. For a vocabulary of
//! 262,144 tokens that takes longer than all else that happens to a text. Here a pair is looked up by what its texts are together.

use ahash::{AHashMap, AHashSet, RandomState};
use apr_sdk::tokenizer::{Kind, Tokenizer, library_vocabulary, merge_places};
use hashbrown::HashTable;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use tokenizers::Token;

/// Stands for no symbol before or after another.
const NONE: usize = usize::MAX;

/// A model of merges.
pub struct Merging {
    tokenizer: Arc<Tokenizer>,
    ids: Ids,
    merges: Merges,
    /// Ids of the 256 bytes, if characters without a token are spelled with them.
    bytes: Vec<Option<u32>>,
}

/// What the tokenizer says of its merges.
enum Merges {
    /// The place of each pair in the list.
    Listed(AHashMap<(u32, u32), u32>),
    /// The place of each piece by its score; `None` for what takes part in no merge.
    Scored(Vec<Option<u32>>),
}

/// A token of a word that is being merged.
#[derive(Clone, Copy)]
struct Symbol {
    id: u32,
    /// Bytes in the text; 0 once it is a part of the one before.
    len: usize,
    before: usize,
    after: usize,
}

/// A merge that may be made: its rank first, then its place in the word, so that the best one, and of equals the first, is the least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u64,
    at: usize,
    pair: (u32, u32),
    id: u32,
}

impl Merging {
    /// The model of this tokenizer. `None` for one that must be the library's: of another kind, with marks at the ends of tokens, or
    /// whose merges have tokens that are not in the vocabulary.
    pub fn new(tokenizer: &Arc<Tokenizer>) -> Option<Merging> {
        let has_marks = tokenizer.continuing_prefix.is_some() || tokenizer.word_suffix.is_some();
        if tokenizer.kind != Kind::Bpe || has_marks {
            return None;
        }
        let ids = Ids::new(tokenizer);
        let places = if tokenizer.merges.is_empty() { merge_places(tokenizer) } else { None };
        let merges = match places {
            Some(places) => Merges::Scored(places),
            None => Merges::Listed(listed(tokenizer, &ids)?),
        };
        let bytes = match tokenizer.byte_fallback {
            true => (0u8..=255).map(|byte| ids.get(tokenizer, &format!("<{byte:#04X}>"))).collect(),
            false => Vec::new(),
        };
        Some(Merging { tokenizer: Arc::clone(tokenizer), ids, merges, bytes })
    }

    /// The id of a token; `None` if the vocabulary lacks it.
    pub fn id_of(&self, text: &str) -> Option<u32> {
        self.ids.get(&self.tokenizer, text)
    }

    /// The token of an id; `None` if the vocabulary lacks it.
    pub fn token(&self, id: u32) -> Option<&str> {
        self.tokenizer.token(id).filter(|_| !self.ids.outside.contains(&id))
    }

    /// The vocabulary.
    pub fn tokens(&self) -> impl Iterator<Item = (u32, &str)> {
        self.tokenizer.each().filter(|(id, _)| !self.ids.outside.contains(id))
    }

    /// Number of tokens in the vocabulary.
    pub fn n_tokens(&self) -> usize {
        self.ids.table.len()
    }

    /// The tokens of a word.
    pub fn tokenize(&self, word: &str) -> Vec<Token> {
        let token = |id: u32, start: usize, end: usize| {
            Token::new(id, self.tokenizer.token(id).unwrap_or_default().to_owned(), (start, end))
        };
        if self.tokenizer.ignore_merges
            && let Some(id) = self.id_of(word)
        {
            return vec![token(id, 0, word.len())];
        }
        let mut symbols = self.characters(word);
        self.merge(&mut symbols);
        let mut start = 0;
        let mut tokens = Vec::new();
        for symbol in symbols.iter().filter(|symbol| symbol.len > 0) {
            tokens.push(token(symbol.id, start, start + symbol.len));
            start += symbol.len;
        }
        tokens
    }

    /// The tokens of a word's characters.
    fn characters(&self, word: &str) -> Vec<Symbol> {
        let mut symbols = Vec::with_capacity(word.len());
        // What is unknown is added before the next token of a character; bytes do not wait for it, as in the library.
        let mut unknown: Option<(u32, usize)> = None;
        for character in word.chars() {
            let mut utf8 = [0; 4];
            let text: &str = character.encode_utf8(&mut utf8);
            if let Some(id) = self.id_of(text) {
                add(&mut symbols, unknown.take());
                add(&mut symbols, Some((id, text.len())));
            } else if let Some(ids) = self.bytes_of(text) {
                ids.into_iter().for_each(|id| add(&mut symbols, Some((id, 1))));
            } else if let Some(unk) = self.tokenizer.unk {
                unknown = match unknown {
                    Some((unk, len)) if self.tokenizer.fuse_unk => Some((unk, len + text.len())),
                    single => {
                        add(&mut symbols, single);
                        Some((unk, text.len()))
                    }
                };
            }
        }
        add(&mut symbols, unknown);
        symbols
    }

    /// Ids of the bytes of a character; `None` if one has none.
    fn bytes_of(&self, text: &str) -> Option<Vec<u32>> {
        text.bytes().map(|byte| self.bytes.get(usize::from(byte)).copied().flatten()).collect()
    }

    /// Merges what can be merged, best first.
    fn merge(&self, symbols: &mut [Symbol]) {
        let mut joined = String::new();
        let mut candidate = |symbols: &[Symbol], at: usize| -> Option<Reverse<Candidate>> {
            let one = symbols.get(at)?;
            let pair = (one.id, symbols.get(one.after)?.id);
            let (rank, id) = self.find(pair, &mut joined)?;
            Some(Reverse(Candidate { rank, at, pair, id }))
        };
        let mut queue: BinaryHeap<_> = (0..symbols.len()).filter_map(|at| candidate(symbols, at)).collect();
        while let Some(Reverse(best)) = queue.pop() {
            let Some(&one) = symbols.get(best.at).filter(|symbol| symbol.len > 0) else { continue };
            let Some(&other) = symbols.get(one.after) else { continue };
            // It may have been merged otherwise since.
            if (one.id, other.id) != best.pair
                && candidate(symbols, best.at).is_none_or(|Reverse(now)| now.id != best.id)
            {
                continue;
            }
            if let Some(merged) = symbols.get_mut(best.at) {
                *merged = Symbol { id: best.id, len: one.len + other.len, after: other.after, ..one };
            }
            if let Some(gone) = symbols.get_mut(one.after) {
                gone.len = 0;
            }
            if let Some(next) = symbols.get_mut(other.after) {
                next.before = best.at;
            }
            queue.extend(candidate(symbols, one.before));
            queue.extend(candidate(symbols, best.at));
        }
    }

    /// The rank of a merge, and the token that it gives.
    fn find(&self, pair: (u32, u32), joined: &mut String) -> Option<(u64, u32)> {
        match &self.merges {
            Merges::Listed(places) => {
                let place = *places.get(&pair)?;
                Some((place.into(), self.together(pair, joined)?))
            }
            Merges::Scored(places) => {
                let place = |id: u32| places.get(usize::try_from(id).ok()?).copied().flatten();
                place(pair.0).and(place(pair.1))?;
                let id = self.together(pair, joined)?;
                // Of the pairs that give a piece, the one with the lower ids comes first.
                Some((u64::from(place(id)?) << 32 | u64::from(pair.0), id))
            }
        }
    }

    /// The token that two are together; `joined` is memory for its text.
    fn together(&self, pair: (u32, u32), joined: &mut String) -> Option<u32> {
        let [left, right] = [pair.0, pair.1].map(|id| self.tokenizer.token(id).unwrap_or_default());
        if left.len() + right.len() > self.ids.longest {
            return None;
        }
        joined.clear();
        joined.push_str(left);
        joined.push_str(right);
        self.id_of(joined)
    }
}

/// Adds a token to a word.
fn add(symbols: &mut Vec<Symbol>, token: Option<(u32, usize)>) {
    if let Some((id, len)) = token {
        let at = symbols.len();
        if let Some(last) = symbols.last_mut() {
            last.after = at;
        }
        symbols.push(Symbol { id, len, before: at.checked_sub(1).unwrap_or(NONE), after: NONE });
    }
}

/// The place of each listed pair; `None` if one has tokens, or gives one, that the vocabulary lacks.
fn listed(tokenizer: &Tokenizer, ids: &Ids) -> Option<AHashMap<(u32, u32), u32>> {
    let pairs: AHashMap<(u32, u32), u32> = tokenizer.merges.iter().copied().zip(0..).collect();
    let is_outside = |id: &u32| ids.outside.contains(id);
    if !ids.outside.is_empty() && tokenizer.merges.iter().any(|(a, b)| is_outside(a) || is_outside(b)) {
        return None;
    }
    let gives = |text: &str| {
        let mut cuts = text.char_indices().skip(1).map(|(at, _)| text.split_at(at));
        cuts.any(|(left, right)| {
            let pair = ids.get(tokenizer, left).zip(ids.get(tokenizer, right));
            pair.is_some_and(|pair| pairs.contains_key(&pair))
        })
    };
    let given = ids.outside.iter().filter_map(|id| tokenizer.token(*id)).any(gives);
    (!given).then_some(pairs)
}

/// The tokens of the vocabulary by their texts, which are the tokenizer's.
struct Ids {
    hasher: RandomState,
    table: HashTable<u32>,
    /// Ids whose tokens the vocabulary lacks.
    outside: AHashSet<u32>,
    /// Bytes of the longest token.
    longest: usize,
}

impl Ids {
    fn new(tokenizer: &Tokenizer) -> Ids {
        let hasher = RandomState::new();
        let mut table = HashTable::with_capacity(tokenizer.tokens.len());
        let mut longest = 0;
        for (id, text) in library_vocabulary(tokenizer) {
            longest = longest.max(text.len());
            table.insert_unique(hasher.hash_one(text), id, |id| {
                hasher.hash_one(tokenizer.token(*id).unwrap_or_default())
            });
        }
        let mut ids = Ids { hasher, table, outside: AHashSet::new(), longest };
        let added = tokenizer.added.iter().filter(|added| added.outside_model).map(|added| added.id);
        let outside =
            added.filter(|id| ids.get(tokenizer, tokenizer.token(*id).unwrap_or_default()).is_none());
        ids.outside = outside.collect();
        ids
    }

    fn get(&self, tokenizer: &Tokenizer, text: &str) -> Option<u32> {
        let is_same = |id: &u32| tokenizer.token(*id) == Some(text);
        self.table.find(self.hasher.hash_one(text), is_same).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::library::{Model, model};
    use super::*;
    use apr_sdk::tokenizer::{AddedToken, Parts, Spelling, TokenType};
    use tokenizers::Model as _;

    /// Numbers that look random, the same each time.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(self.0 >> 33).unwrap() % n
        }

        fn is(&mut self) -> bool {
            self.below(2) == 1
        }

        fn text(&mut self, n: usize) -> String {
            (0..n).map(|_| ["a", "b", "c", "d", "é", "語"][self.below(6)]).collect()
        }
    }

    /// A tokenizer of a few letters and what they make together; some letters have no token.
    fn parts(numbers: &mut Numbers) -> Parts {
        let mut tokens: Vec<String> = ["<unk>", "<s>", "a", "b", "c", "é"].map(str::to_owned).to_vec();
        let mut types = vec![TokenType::Unknown, TokenType::Control];
        types.resize(tokens.len(), TokenType::Normal);
        if numbers.is() {
            let bytes: Vec<u8> = "d語".bytes().take(if numbers.is() { 4 } else { 2 }).collect();
            tokens.extend(bytes.iter().map(|byte| format!("<{byte:#04X}>")));
            types.resize(tokens.len(), TokenType::Byte);
        }
        for _ in 0..numbers.below(40) {
            let n = 2 + numbers.below(4);
            let text = numbers.text(n);
            if !tokens.contains(&text) {
                tokens.push(text);
                types.push(
                    [TokenType::Normal, TokenType::UserDefined, TokenType::Unused][numbers.below(9) / 4],
                );
            }
        }
        let unk = numbers.is().then_some(0);
        let [byte_fallback, fuse_unk, ignore_merges] = [numbers.is(), numbers.is(), numbers.is()];
        let tokens = tokens.into_iter().map(Some).collect();
        Parts { tokens, types, unk, byte_fallback, fuse_unk, ignore_merges, ..Parts::default() }
    }

    fn check(parts: Parts, numbers: &mut Numbers) {
        let tokenizer = Arc::new(Tokenizer::new(parts).unwrap());
        let library = model(&tokenizer).unwrap();
        let ours = Model::Merging(Merging::new(&tokenizer).unwrap());
        assert_eq!(ours.get_vocab(), library.get_vocab());
        assert_eq!(ours.get_vocab_size(), library.get_vocab_size());
        for id in 0..tokenizer.vocab_size {
            assert_eq!(ours.id_to_token(id), library.id_to_token(id));
        }
        for _ in 0..20 {
            let n = numbers.below(30);
            let text = numbers.text(n);
            assert_eq!(
                ours.tokenize(&text).unwrap(),
                library.tokenize(&text).unwrap(),
                "{text}: {tokenizer:?}"
            );
        }
    }

    #[test]
    fn finds_what_the_library_finds_by_scores() {
        let numbers = &mut Numbers(1);
        for _ in 0..300 {
            let mut parts = parts(numbers);
            parts.spelling = Spelling::SentencePiece;
            let scores = parts.tokens.iter().map(|_| [0.0, -0.0, -1.0, -2.0, -3.0, 4.0][numbers.below(6)]);
            parts.scores = Some(scores.collect());
            check(parts, numbers);
        }
    }

    #[test]
    fn finds_what_the_library_finds_by_merges() {
        let numbers = &mut Numbers(2);
        for _ in 0..300 {
            let mut parts = parts(numbers);
            let texts: Vec<&str> = parts.tokens.iter().flatten().map(String::as_str).collect();
            let mut merges = Vec::new();
            for (a, left) in (0..).zip(&texts) {
                for (b, right) in (0..).zip(&texts) {
                    if texts.contains(&format!("{left}{right}").as_str()) && numbers.below(5) > 0 {
                        merges.insert(numbers.below(merges.len() + 1), (a, b));
                    }
                }
            }
            // A pair that is listed twice counts where it is last.
            merges.extend(merges.first().copied());
            parts.merges = merges;
            check(parts, numbers);
        }
    }

    #[test]
    fn leaves_to_the_library_what_merges_give_outside_the_vocabulary() {
        let tokens: Vec<_> = ["a", "b", "c", "ab"].map(|text| Some(text.to_owned())).to_vec();
        let added = vec![AddedToken { id: 3, outside_model: true, ..AddedToken::default() }];
        let types = vec![TokenType::Normal; 4];
        let parts = Parts { tokens, types, added, ..Parts::default() };
        let mut given = parts.clone();
        given.merges = vec![(0, 1)];
        check(parts, &mut Numbers(3));
        assert!(Merging::new(&Arc::new(Tokenizer::new(given).unwrap())).is_none());
    }

    #[test]
    fn long_words_take_no_square_of_time() {
        let tokens: Vec<_> = (0..12).map(|n| Some("a".repeat(1 << n))).collect();
        let merges = (0..11).map(|n| (n, n)).collect();
        let parts = Parts { types: vec![TokenType::Normal; 12], tokens, merges, ..Parts::default() };
        let merging = Merging::new(&Arc::new(Tokenizer::new(parts).unwrap())).unwrap();
        assert_eq!(merging.tokenize(&"a".repeat(1 << 18)).len(), 1 << 7);
    }
}
