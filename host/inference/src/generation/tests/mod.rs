//! Answers of a model that says what it is told: how they stream, and what ends them.

pub(super) mod testing;

use super::*;
use crate::sampling::Settings;
use std::cell::Cell;
use testing::{Parrot, bytes};

fn ids(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

/// The answer of a model, and the pieces in which it came.
fn answer_to(
    generator: &mut Generator<'_>,
    prompt: &str,
    stops: &[&str],
    max_tokens: Option<u32>,
    cancel_after: Option<usize>,
) -> Result<(Answer, Vec<String>)> {
    let tokens = bytes();
    let mut sampler = Sampler::new(Settings::greedy()).unwrap();
    let stops: Vec<String> = stops.iter().map(ToString::to_string).collect();
    let (prompt, ends) = (ids(prompt), ends(tokens.tokenizer()));
    let request = Request { prompt: &prompt, stops: &stops, ends: &ends, max_tokens };
    let ticks = Cell::new(0u64);
    let now = || {
        ticks.set(ticks.get() + 1);
        Duration::from_secs(ticks.get())
    };
    let mut pieces = Vec::new();
    let given = Cell::new(0);
    let mut give = |text: &str| {
        pieces.push(text.to_owned());
        given.set(given.get() + 1);
        Ok(())
    };
    let is_cancelled = || cancel_after.is_some_and(|n| given.get() >= n);
    let mut around = Surroundings { now: &now, is_cancelled: &is_cancelled, give: &mut give };
    let answer = generator.generate(&tokens, &mut sampler, &request, &mut around)?;
    Ok((answer, pieces))
}

fn answer(
    model: &mut Parrot,
    prompt: &str,
    stops: &[&str],
    max_tokens: Option<u32>,
) -> (Answer, Vec<String>) {
    answer_to(&mut Generator::new(model), prompt, stops, max_tokens, None).unwrap()
}

#[test]
fn an_answer_streams_until_the_end_of_the_text() {
    let mut model = Parrot::saying("Grüß", &[256]);
    let (answer, pieces) = answer(&mut model, "Hi", &[], None);
    assert_eq!(pieces, ["G", "r", "ü", "ß"]);
    assert_eq!((answer.text.as_str(), answer.ids.len()), ("Grüß", 6));
    assert_eq!((answer.end, answer.signs), (End::EndOfText(256), vec![]));
    // The clock ticks at the beginning and at each token.
    let timings = answer.timings;
    assert_eq!((timings.prompt_tokens, timings.tokens), (2, 7));
    assert_eq!((timings.first_token, timings.rest), (Some(Duration::from_secs(1)), Duration::from_secs(6)));
    assert_eq!(model.fed[0], ids("Hi"));
    assert_eq!(model.fed[1..].concat(), ids("Grüß"));
}

#[test]
fn stop_strings_and_numbers_of_tokens_end_it() {
    let (stopped, pieces) = answer(&mut Parrot::saying("one\nUser: two", &[256]), "p", &["\nUser:"], None);
    assert_eq!((stopped.text.as_str(), stopped.end), ("one", End::Stop("\nUser:".to_owned())));
    assert_eq!(pieces.concat(), "one");
    let (ended, _) = answer(&mut Parrot::saying("one\nUse", &[256]), "p", &["\nUser:"], None);
    assert_eq!((ended.text.as_str(), ended.end), ("one\nUse", End::EndOfText(256)));
    let mut model = Parrot::saying("one", &[256]);
    let (short, _) = answer(&mut model, "p", &[], Some(2));
    assert_eq!((short.text.as_str(), short.end), ("on", End::MaxTokens));
    // The last token need not be computed, and without any nothing is.
    assert_eq!(model.fed.concat(), ids("po"));
    let mut model = Parrot::saying("one", &[256]);
    let (none, _) = answer(&mut model, "p", &[], Some(0));
    assert_eq!((none.text.as_str(), none.end, model.fed.len()), ("", End::MaxTokens, 0));
}

#[test]
fn the_context_bounds_prompt_and_answer() {
    let mut model = Parrot::saying("0123456789", &[]);
    model.context = 8;
    let (full, _) = answer(&mut model, "abcd", &[], None);
    // Four tokens fit behind the prompt, and the last one chosen need not.
    assert_eq!((full.text.as_str(), full.end), ("01234", End::Context));
    let error = answer_to(&mut Generator::new(&mut model), "123456789", &[], None, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("9 tokens") && error.message().contains("room for only 8"), "{error}");
    let error = answer_to(&mut Generator::new(&mut model), "", &[], None, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn it_ends_when_told_to() {
    let mut model = Parrot::saying("0123456789", &[]);
    let (answer, _) = answer_to(&mut Generator::new(&mut model), "p", &[], None, Some(3)).unwrap();
    assert_eq!((answer.text.as_str(), answer.end), ("012", End::Cancelled));
}

#[test]
fn signs_of_something_wrong_are_told() {
    let (answer_at_once, _) = answer(&mut Parrot::saying("", &[256]), "p", &[], None);
    assert_eq!(answer_at_once.signs, [Sign::EndedAtOnce { id: 256, prompt_ended: false }]);
    let (again, _) = answer(&mut Parrot::saying("a", &[]), "p", &[], Some(40));
    assert_eq!(again.signs, [Sign::Repeated { id: 97, times: 40 }]);
    let mut model = Parrot::saying("a", &[300]);
    model.vocabulary = 301;
    let (strange, _) = answer(&mut model, "p", &[], Some(4));
    assert_eq!((strange.text.as_str(), strange.signs), ("aa", vec![Sign::NoToken { id: 300 }]));
    let mut model = Parrot::saying("abc", &[]);
    model.breaks = Some(2);
    let error = answer_to(&mut Generator::new(&mut model), "pq", &[], None, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert!(
        error.message().contains("logit 3 of 257") && error.message().contains("after 4 tokens"),
        "{error}"
    );
}

#[test]
fn what_the_model_has_seen_is_not_computed_again() {
    let mut model = Parrot::saying("xy", &[256]);
    let mut generator = Generator::new(&mut model);
    let ask = |generator: &mut Generator<'_>, prompt: &str| {
        answer_to(generator, prompt, &[], None, None).unwrap().0.timings
    };
    assert_eq!(ask(&mut generator, "abc").known_tokens, 0);
    // The answer's tokens are known as well.
    let second = ask(&mut generator, "abcxyde");
    assert_eq!((second.known_tokens, second.prompt_tokens), (5, 2));
    let other = ask(&mut generator, "abQ");
    assert_eq!((other.known_tokens, other.prompt_tokens), (2, 1));
    // Of a prompt that is all known, the last token is computed again.
    assert_eq!(ask(&mut generator, "abQ").prompt_tokens, 1);
    model.trims = false;
    let mut generator = Generator::new(&mut model);
    assert_eq!(ask(&mut generator, "abc").known_tokens, 0);
    assert_eq!(ask(&mut generator, "abcd").known_tokens, 0);
    assert_eq!(model.fed.iter().rev().find(|fed| fed.len() > 1).unwrap(), &ids("abcd"));
}
