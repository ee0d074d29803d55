//! Checks that the parts of a tokenizer agree.

use super::results::Results;
use super::{Kind, MAX_HOLES, MAX_TOKENS, Parts, TokenType};
use crate::{Error, Result, escape};
use ahash::AHashMap;
use std::collections::HashSet;

/// Returns the parts if they agree, with defaults filled in.
///
/// # Errors
/// Malformed or LimitExceeded.
pub fn check(mut parts: Parts) -> Result<Parts> {
    sizes(&mut parts)?;
    let ids = texts(&parts)?;
    merges(&parts, &ids)?;
    named_ids(&parts)?;
    let variables = parts.chat_variables.as_deref().unwrap_or_default();
    for list in [names(&parts.special), names(&parts.add), names(variables), names(&parts.chat_templates)] {
        once(list?.as_slice())?;
    }
    Ok(parts)
}

fn sizes(parts: &mut Parts) -> Result<()> {
    let n = parts.tokens.len();
    let size = parts.vocab_size as usize;
    if n > MAX_TOKENS || size > MAX_TOKENS {
        return Err(Error::limit(format!("{} tokens, more than the limit of {MAX_TOKENS}", n.max(size))));
    }
    if parts.vocab_size == 0 {
        parts.vocab_size = u32::try_from(n).unwrap_or(u32::MAX);
    }
    let size = parts.vocab_size as usize;
    if size < n {
        return Err(Error::malformed(format!("{n} tokens, but a vocabulary of {size}")));
    }
    let holes = size - parts.tokens.iter().flatten().count();
    if holes > MAX_HOLES {
        return Err(Error::limit(format!("{holes} ids have no token, more than the limit of {MAX_HOLES}")));
    }
    if parts.types.len() != n {
        return Err(Error::malformed(format!("{n} tokens, but {} types", parts.types.len())));
    }
    match &parts.scores {
        Some(scores) if scores.len() != n => {
            Err(Error::malformed(format!("{n} tokens, but {} scores", scores.len())))
        }
        Some(scores) if scores.iter().any(|score| !score.is_finite()) => {
            Err(Error::malformed("a score is not finite"))
        }
        None if parts.kind == Kind::Unigram => Err(Error::malformed("a Unigram model without scores")),
        _ => Ok(()),
    }
}

/// Maps each token's text to its id.
fn texts(parts: &Parts) -> Result<AHashMap<&str, u32>> {
    let mut ids = AHashMap::with_capacity(parts.tokens.len());
    for (n, (text, kind)) in parts.tokens.iter().zip(&parts.types).enumerate() {
        match text {
            None if *kind == TokenType::None => {}
            Some(_) if *kind == TokenType::None => {
                return Err(Error::malformed(format!("token {n} has a text but no type")));
            }
            None => return Err(Error::malformed(format!("token {n} has a type but no text"))),
            Some(text) => {
                let id = u32::try_from(n).unwrap_or(u32::MAX);
                if let Some(other) = ids.insert(text.as_str(), id) {
                    let text = escape(text, 60);
                    return Err(Error::malformed(format!("tokens {other} and {id} are both `{text}`")));
                }
            }
        }
    }
    Ok(ids)
}

fn merges(parts: &Parts, ids: &AHashMap<&str, u32>) -> Result<()> {
    if parts.merges.is_empty() {
        return Ok(());
    }
    if parts.kind != Kind::Bpe {
        return Err(Error::malformed("merges in a tokenizer that does not use merges"));
    }
    if parts.merges.len() > 4 * MAX_TOKENS {
        let n = parts.merges.len();
        return Err(Error::limit(format!("{n} merges, more than the limit of {}", 4 * MAX_TOKENS)));
    }
    let mut results = Results::new(parts, ids);
    for (n, &(left, right)) in parts.merges.iter().enumerate() {
        let (Some(a), Some(b)) = (parts.token(left), parts.token(right)) else {
            return Err(Error::malformed(format!(
                "merge {n} refers to ids {left} and {right}, which do not exist"
            )));
        };
        if results.of(a, b).is_none() {
            let [a, b] = [a, b].map(|text| escape(text, 40));
            return Err(Error::malformed(format!("merge {n} of `{a}` and `{b}` does not produce a token")));
        }
    }
    Ok(())
}

fn named_ids(parts: &Parts) -> Result<()> {
    let mut seen = HashSet::with_capacity(parts.added.len());
    for added in &parts.added {
        if parts.token(added.id).is_none() {
            return Err(Error::malformed(format!("added token {} has no text", added.id)));
        }
        if !seen.insert(added.id) {
            return Err(Error::malformed(format!("duplicate added token {}", added.id)));
        }
    }
    if let Some(unk) = parts.unk
        && parts.token(unk).is_none()
    {
        return Err(Error::malformed(format!("the unknown token {unk} does not exist")));
    }
    if parts.ends.len() > MAX_NAMES {
        return Err(Error::limit(format!(
            "{} end tokens, more than the limit of {MAX_NAMES}",
            parts.ends.len()
        )));
    }
    let ends = parts.ends.iter().map(|id| ("end", id));
    for (name, id) in parts.special.iter().map(|(name, id)| (name.as_str(), id)).chain(ends) {
        if *id >= parts.vocab_size {
            let name = escape(name, 40);
            let size = parts.vocab_size;
            return Err(Error::malformed(format!(
                "the token `{name}` is {id}, but the vocabulary has only {size} tokens"
            )));
        }
    }
    Ok(())
}

/// Names of one kind. 4096: real tokenizers have fewer than 20.
const MAX_NAMES: usize = 4096;

fn names<T>(list: &[(String, T)]) -> Result<Vec<&str>> {
    if list.len() > MAX_NAMES {
        return Err(Error::limit(format!("{} names, more than the limit of {MAX_NAMES}", list.len())));
    }
    Ok(list.iter().map(|(name, _)| name.as_str()).collect())
}

fn once(names: &[&str]) -> Result<()> {
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(**name)) {
        Some(name) => Err(Error::malformed(format!("duplicate `{}`", escape(name, 60)))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AddedToken, Tokenizer};
    use super::*;

    fn good() -> Parts {
        let tokens = ["a", "b", "ab", "<s>"].map(|t| Some(t.to_owned())).to_vec();
        let mut types = vec![TokenType::Normal; 4];
        types[3] = TokenType::Control;
        let added = vec![AddedToken { id: 3, special: true, ..AddedToken::default() }];
        Parts { tokens, types, merges: vec![(0, 1)], added, ..Parts::default() }
    }

    #[test]
    fn each_rule_has_parts_that_break_it() {
        assert_eq!(Tokenizer::new(good()).unwrap().vocab_size, 4);
        type Break = (&'static str, fn(&mut Parts));
        let breaks: [Break; 14] = [
            ("types", |p| p.types.truncate(3)),
            ("scores", |p| p.scores = Some(vec![0.0])),
            ("not finite", |p| p.scores = Some(vec![f64::NAN; 4])),
            ("without scores", |p| p.kind = Kind::Unigram),
            ("both `a`", |p| p.tokens[1] = Some("a".into())),
            ("a type but no text", |p| p.tokens[1] = None),
            ("do not exist", |p| p.merges = vec![(0, 9)]),
            ("does not produce a token", |p| p.merges = vec![(1, 0)]),
            ("does not use merges", |p| p.kind = Kind::WordPiece),
            ("added token 7", |p| p.added[0].id = 7),
            ("duplicate added token", |p| p.added.push(p.added[0])),
            ("unknown token 4", |p| p.unk = Some(4)),
            ("vocabulary has only 4", |p| p.special = vec![("bos".into(), 4)]),
            ("duplicate `bos`", |p| p.add = vec![("bos".into(), true), ("bos".into(), false)]),
        ];
        for (message, break_it) in breaks {
            let mut parts = good();
            break_it(&mut parts);
            let error = Tokenizer::new(parts).unwrap_err();
            assert!(error.message().contains(message), "{message}: {error:?}");
        }
    }

    #[test]
    fn ids_without_tokens_are_bounded() {
        let mut parts = good();
        parts.vocab_size = 5 + u32::try_from(MAX_HOLES).unwrap();
        assert!(Tokenizer::new(parts.clone()).unwrap_err().message().contains("have no token"));
        parts.vocab_size = u32::MAX;
        assert!(Tokenizer::new(parts.clone()).is_err());
        parts.vocab_size = 3;
        assert!(Tokenizer::new(parts).unwrap_err().message().contains("vocabulary of 3"));
    }
}
