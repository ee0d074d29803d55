//! Compares the tokenizer that was planned with the one that was written, as far as every format keeps it.

use super::differences::{Differences, SHOWN, map_size, or_none, quoted};
use super::pieces::{by_pieces, merges_of_scores};
use super::{Core, TokenType, Tokenizer, Treatment, core};
use crate::escape;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// See [`Tokenizer::core_differences`].
pub fn core_differences(planned: &Tokenizer, written: &Tokenizer) -> Differences {
    let want = core::core(planned);
    let have = core::core(written);
    let mut differences = Differences::default();
    differences.unless_same("kind", "", &want.kind, &have.kind);
    differences.unless_same("spelling", "", &want.spelling, &have.spelling);
    let alike = differences.is_empty();
    differences.unless_same("number of tokens", "", &want.tokens.len(), &have.tokens.len());
    tokens(planned, written, &want, &have, &mut differences);
    if alike {
        scores(&want, &have, &mut differences);
        merges(planned, written, &want, &have, &mut differences);
    }
    let around = Around::of(planned);
    differences.named("special id", &around.special(&want, &have), &have.special, ToString::to_string);
    differences.named("add flag", &around.flags(&want, &have), &have.add, ToString::to_string);
    if alike {
        charsmaps(&want.charsmap, &have.charsmap, &mut differences);
        if let (Some(want), Some(have)) = (&want.treatment, &have.treatment) {
            treatments(want, have, &mut differences);
        }
    }
    differences.templates(&want.chat_templates, &have.chat_templates);
    differences
}

fn token(core: &Core, id: usize) -> String {
    format!("of token {id} `{}`", text(core, id))
}

/// The text of a token for display, empty for an id that is none's.
fn text(core: &Core, id: impl TryInto<usize>) -> String {
    let token = id.try_into().ok().and_then(|id| core.tokens.get(id));
    token.map(|(text, _)| escape(text, SHOWN)).unwrap_or_default()
}

fn tokens(planned: &Tokenizer, written: &Tokenizer, want: &Core, have: &Core, differences: &mut Differences) {
    for id in 0..want.tokens.len().max(have.tokens.len()) {
        let [want_text, have_text] =
            [want, have].map(|core| core.tokens.get(id).map(|(text, _)| text.as_str()));
        if want_text != have_text {
            differences.put("text", || (format!("of token {id}"), quoted(want_text), quoted(have_text)));
        } else if let (Some((_, kind)), Some((_, other))) = (want.tokens.get(id), have.tokens.get(id))
            && !same_type(planned, written, id, *kind, *other)
        {
            differences.put("type", || (token(want, id), format!("{kind:?}"), format!("{other:?}")));
        }
    }
}

/// Returns whether the planned type of a token and the written one mean the same.
fn same_type(planned: &Tokenizer, written: &Tokenizer, id: usize, kind: TokenType, other: TokenType) -> bool {
    match (kind, other) {
        // Some formats have one word for both, and say elsewhere which token is the unknown one: of another with that type they
        // cannot tell.
        (TokenType::Unknown, TokenType::Control) => is_unknown(written, id) || !is_unknown(planned, id),
        (TokenType::Control, TokenType::Unknown) => is_unknown(planned, id) || !is_unknown(written, id),
        // Others have none and go by the token's look; its flag tells what it is.
        (TokenType::UserDefined, TokenType::Control) => {
            written.added.iter().any(|added| usize::try_from(added.id) == Ok(id) && !added.special)
        }
        _ => kind == other,
    }
}

fn is_unknown(tokenizer: &Tokenizer, id: usize) -> bool {
    tokenizer.unk.is_some_and(|unk| usize::try_from(unk) == Ok(id))
}

fn scores(want: &Core, have: &Core, differences: &mut Differences) {
    for (id, (score, other)) in want.scores.iter().zip(&have.scores).enumerate() {
        if score != other {
            differences.put("score", || (token(want, id), or_none(*score), or_none(*other)));
        }
    }
}

/// Compares merges if the target stores any: with the planned ones, or with those implied by the planned
/// scores.
fn merges(planned: &Tokenizer, written: &Tokenizer, want: &Core, have: &Core, differences: &mut Differences) {
    if by_pieces(written) && written.merges.is_empty() {
        return;
    }
    let implied =
        (by_pieces(planned) && planned.merges.is_empty()).then(|| merges_of_scores(planned)).flatten();
    let merges = implied.as_ref().unwrap_or(&planned.merges);
    differences.merges([merges, &written.merges], [&|id| text(want, id), &|id| text(have, id)]);
}

/// Roles of tokens that no tokenizer's file has to state: the beginning where none is added, the end of a turn, of a
/// message, what is unknown to tokenizers that know every byte, and what fills up a batch.
const LEFT_TO_PROGRAMS: [&str; 5] = ["bos", "eot", "eom", "unk", "pad"];

/// The tokens that a post-processor adds around a text; they stand in where no special id and no flag states
/// them.
#[derive(Default)]
struct Around {
    first: Option<u32>,
    last: Option<u32>,
}

impl Around {
    fn of(tokenizer: &Tokenizer) -> Around {
        let step = tokenizer.post_processor.as_ref();
        let inner = step.and_then(|step| step.get("processors")).and_then(Json::as_array);
        let steps = inner.map(Vec::as_slice).or(step.map(std::slice::from_ref)).unwrap_or_default();
        let mut around = Around::default();
        for step in steps {
            let single = step.get("single").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
            around.first = special_token(tokenizer, single.first()).or(around.first);
            around.last = special_token(tokenizer, single.last()).or(around.last);
        }
        around
    }

    /// The planned ids, completed where the output has an id and the plan does not: from the post-processor, and with
    /// roles that a tokenizer's own files leave to programs, and formats state by architecture.
    fn special(&self, want: &Core, have: &Core) -> BTreeMap<String, u32> {
        let mut ids = BTreeMap::new();
        for (name, id) in [("bos", self.first), ("eos", self.last), ("sep", self.last)] {
            if let Some(id) = id.filter(|_| have.special.contains_key(name)) {
                ids.insert(name.to_owned(), id);
            }
        }
        for (name, id) in &have.special {
            if LEFT_TO_PROGRAMS.contains(&name.as_str()) {
                ids.insert(name.clone(), *id);
            }
        }
        ids.extend(want.special.clone());
        ids
    }

    /// Like [`Around::special`], for the flags that say whether a token is added.
    fn flags(&self, want: &Core, have: &Core) -> BTreeMap<String, bool> {
        let mut flags = BTreeMap::new();
        for (name, yes) in [("bos", self.first.is_some()), ("eos", self.last.is_some())] {
            if have.add.contains_key(name) {
                flags.insert(name.to_owned(), yes);
            }
        }
        flags.extend(want.add.clone());
        flags
    }
}

/// The token that an entry of a post-processor's template adds.
fn special_token(tokenizer: &Tokenizer, entry: Option<&Json>) -> Option<u32> {
    let text = entry?.pointer("/SpecialToken/id")?.as_str()?;
    tokenizer.each().find(|(_, token)| *token == text).map(|(id, _)| id)
}

fn charsmaps(want: &Option<Vec<u8>>, have: &Option<Vec<u8>>, differences: &mut Differences) {
    if want == have {
        return;
    }
    let same = want.iter().flatten().zip(have.iter().flatten()).take_while(|(a, b)| a == b).count();
    differences
        .put("map", || (format!("of normalization, from byte {same} on"), map_size(want), map_size(have)));
}

/// Compares what is done to a text before tokenization.
fn treatments(want: &Treatment, have: &Treatment, differences: &mut Differences) {
    let [want_space, have_space] =
        [want, have].map(|treatment| (treatment.space_first, treatment.space_once));
    differences.unless_same("treatment", "of the space before a text", &want_space, &have_space);
    differences.unless_same("treatment", "of runs of spaces", &want.squeezes, &have.squeezes);
    differences.unless_same("treatment", "of spaces", &want.marks_spaces, &have.marks_spaces);
    if !differences.has("map") {
        charsmaps(&want.charsmap, &have.charsmap, differences);
    }
    if want.others != have.others {
        let of = "of texts by other steps".to_owned();
        differences.put("treatment", || (of, want.names_of_others(), have.names_of_others()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AddedToken, Kind, Parts, Spelling};
    use super::*;
    use serde_json::json;

    fn template(first: &str) -> Json {
        json!({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": first}}, {"Sequence": {"id": "A"}}]})
    }

    /// A SentencePiece BPE tokenizer with scores, as GGUF stores it.
    fn scored() -> Parts {
        let tokens = ["<unk>", "<s>", "ab", "a", "b"].map(|t| Some(t.to_owned())).to_vec();
        let mut types = vec![TokenType::Normal; 5];
        (types[0], types[1]) = (TokenType::Unknown, TokenType::Control);
        let added = vec![AddedToken { id: 1, special: true, ..AddedToken::default() }];
        Parts {
            spelling: Spelling::SentencePiece,
            scores: Some(vec![-1000.0, -1000.0, 0.0, -1.0, -2.0]),
            special: vec![("bos".into(), 1), ("unk".into(), 0)],
            add: vec![("bos".into(), true)],
            unk: Some(0),
            post_processor: Some(template("<s>")),
            chat_templates: vec![("default".into(), "x".into())],
            tokens,
            types,
            added,
            ..Parts::default()
        }
    }

    fn between(planned: &Parts, written: &Parts) -> Option<String> {
        let [planned, written] = [planned, written].map(|parts| Tokenizer::new(parts.clone()).unwrap());
        planned.difference(&written).map(|difference| difference.to_string())
    }

    #[test]
    fn each_field_has_a_written_value_that_is_found() {
        type Break = (&'static str, fn(&mut Parts));
        let breaks: [Break; 13] = [
            ("its spelling is Plain, expected SentencePiece", |p| p.spelling = Spelling::Plain),
            ("its number of tokens is 6, expected 5", |p| p.vocab_size = 6),
            ("its text of token 2 is `ba`, expected `ab`", |p| p.tokens[2] = Some("ba".into())),
            ("its type of token 2 `ab` is Byte, expected Normal", |p| p.types[2] = TokenType::Byte),
            ("its type of token 1 `<s>` is UserDefined, expected Control", |p| {
                p.types[1] = TokenType::UserDefined
            }),
            ("its type of token 0 `<unk>` is Control, expected Unknown", |p| {
                (p.types[0], p.unk) = (TokenType::Control, None);
            }),
            ("its score of token 4 `b` is -3, expected -2", |p| p.scores.as_mut().unwrap()[4] = -3.0),
            ("its special id `bos` is 0, expected 1", |p| p.special[0].1 = 0),
            ("its special id `bos` is none, expected 1", |p| drop(p.special.remove(0))),
            ("its special id `mask` is 0, expected none", |p| p.special.push(("mask".into(), 0))),
            ("its add flag `bos` is false, expected true", |p| p.add[0].1 = false),
            ("its add flag `eos` is true, expected false", |p| p.add.push(("eos".into(), true))),
            ("its chat template `default` is `y`, expected `x`", |p| p.chat_templates[0].1 = "y".into()),
        ];
        assert_eq!(between(&scored(), &scored()), None);
        for (message, break_it) in breaks {
            let mut written = scored();
            break_it(&mut written);
            let found = between(&scored(), &written).unwrap_or_else(|| panic!("nothing for: {message}"));
            assert!(found.starts_with(message), "{found}, not {message}");
        }
        let mut unigram = Parts { kind: Kind::Unigram, charsmap: Some(vec![1, 2]), ..scored() };
        let planned = unigram.clone();
        unigram.charsmap = Some(vec![1, 3]);
        assert!(between(&planned, &unigram).unwrap().contains("from byte 1 on"));
        assert!(between(&planned, &scored()).unwrap().starts_with("its kind is Bpe, expected Unigram"));
    }

    #[test]
    fn what_one_side_means_is_what_the_other_says() {
        // A folder stores merges beside scores, or merges alone.
        let folder = Parts { merges: vec![(3, 4)], ..scored() };
        assert_eq!(between(&scored(), &folder), None);
        let twice = Parts { merges: vec![(3, 4), (3, 4)], ..scored() };
        let found = between(&scored(), &twice).unwrap();
        assert_eq!(found, "its merge 1 is `a` + `b` (3, 4), expected none");
        assert_eq!(between(&folder, &scored()), None);
        assert_eq!(between(&Parts { scores: None, ..folder.clone() }, &scored()), None);
        // Scores of tokens that are never merged do not matter, and a folder calls the unknown token special.
        let mut other = folder;
        other.scores = Some(vec![0.0, 0.0, 0.0, -1.0, -2.0]);
        other.types[0] = TokenType::Control;
        assert_eq!(between(&scored(), &other), None);
        // A word that looks like a special token but is not flagged as one.
        let word =
            Parts { types: [&[TokenType::UserDefined; 2][..], &scored().types[2..]].concat(), ..scored() };
        let mut looks = Parts { unk: Some(0), ..scored() };
        looks.types[0] = TokenType::UserDefined;
        assert!(
            between(&word, &looks)
                .unwrap()
                .contains("type of token 1 `<s>` is Control, expected UserDefined")
        );
        looks.added = vec![AddedToken { id: 1, ..AddedToken::default() }];
        assert_eq!(between(&word, &looks), None);
        // The post-processor adds the tokens and no flag says so; the output may then state flag and id.
        let silent = Parts { add: Vec::new(), special: vec![("unk".into(), 0)], ..scored() };
        assert_eq!(between(&silent, &scored()), None);
        let bare = Parts { post_processor: None, ..silent };
        assert_eq!(between(&bare, &scored()).unwrap(), "its add flag `bos` is true, expected false");
    }

    #[test]
    fn a_wrong_merge_of_bytes_is_found() {
        let tokens = ["a", "b", "ab", "ba"].map(|t| Some(t.to_owned())).to_vec();
        let types = vec![TokenType::Normal; 4];
        let parts = Parts {
            spelling: Spelling::Bytes,
            tokens,
            types,
            merges: vec![(0, 1), (1, 0)],
            ..Parts::default()
        };
        let other = Parts { merges: vec![(1, 0), (0, 1)], ..parts.clone() };
        let found = between(&parts, &other).unwrap();
        assert_eq!(found, "its merge 0 is `b` + `a` (1, 0), expected `a` + `b` (0, 1)");
        let fewer = Parts { merges: vec![(0, 1)], ..parts.clone() };
        assert!(between(&parts, &fewer).unwrap().starts_with("its merge 1 is none"));
        assert_eq!(between(&parts, &parts), None);
    }
}
