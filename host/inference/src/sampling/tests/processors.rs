//! Changes of logits against what transformers' definitions say; its own answers judge them in `tests/inference`.

use super::super::*;

const NONE: f32 = f32::NEG_INFINITY;

/// The logits after the changes, of 6 tokens whose logits are their ids.
fn changed(processors: &Processors, text: &[u32], prompt: usize) -> [f32; 6] {
    let mut logits = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
    let progress = Progress { text: text.to_vec(), prompt, ends: vec![5], most: Some(4) };
    processors.bias(&progress, &mut logits);
    processors.restrict(&progress, &mut logits);
    logits
}

#[test]
fn sequences_are_completed_by_what_the_text_ends_with() {
    let biased = Processors {
        sequence_bias: vec![(vec![1, 2], 0.5), (vec![2], -1.0), (vec![3, 1, 2], 0.25), (vec![4, 3], 9.0)],
        ..Processors::default()
    };
    assert_eq!(changed(&biased, &[3, 1], 1), [0.0, 1.0, 1.75, 3.0, 4.0, 5.0]);
    assert_eq!(changed(&biased, &[0, 1], 1), [0.0, 1.0, 1.5, 3.0, 4.0, 5.0]);
    let words =
        Processors { bad_words: vec![vec![1, 2], vec![3], vec![5], vec![0, 5]], ..Processors::default() };
    assert_eq!(changed(&words, &[0, 1], 1), [0.0, 1.0, NONE, NONE, 4.0, 5.0]);
    // An end may be forbidden behind something, not everywhere.
    assert_eq!(changed(&words, &[0], 1), [0.0, 1.0, 2.0, NONE, 4.0, NONE]);
}

#[test]
fn n_grams_occur_once() {
    let twice = Processors { no_repeat_ngram_size: 2, ..Processors::default() };
    assert_eq!(changed(&twice, &[1, 2, 3, 1], 2), [0.0, 1.0, NONE, 3.0, 4.0, 5.0]);
    assert_eq!(changed(&twice, &[1], 1), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let of_prompt = Processors { encoder_no_repeat_ngram_size: 2, ..Processors::default() };
    assert_eq!(changed(&of_prompt, &[1, 2, 4, 3, 4, 1], 3), [0.0, 1.0, NONE, 3.0, 4.0, 5.0]);
    assert_eq!(changed(&of_prompt, &[1, 2, 4, 3, 4], 3), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn ends_come_when_they_may() {
    let least = Processors { min_length: 4, ..Processors::default() };
    assert_eq!(changed(&least, &[0, 1, 2], 2)[5], NONE);
    assert_eq!(changed(&least, &[0, 1, 2, 3], 2)[5], 5.0);
    let new = Processors { min_new_tokens: Some(1), ..least };
    assert_eq!(changed(&new, &[0, 1, 2], 2)[5], 5.0);
    assert_eq!(changed(&new, &[0, 1], 2)[5], NONE);
    let decay = Processors { decay: Some((1, 1.5)), ..Processors::default() };
    assert_eq!(changed(&decay, &[0, 1, 2], 2)[5], 5.0);
    assert_eq!(changed(&decay, &[0, 1, 2, 3, 4], 2)[5], 5.0 + 5.0 * 1.25);
    let last = Processors { forced_last: vec![5, 4], ..Processors::default() };
    assert_eq!(changed(&last, &[0, 1, 2, 3], 1), [NONE, NONE, NONE, NONE, 0.0, 0.0]);
    assert_eq!(changed(&last, &[0, 1, 2], 1)[0], 0.0);
}

#[test]
fn the_first_token_is_another_behind_a_forced_one() {
    let first = Processors { suppressed_first: vec![2], ..Processors::default() };
    assert_eq!(changed(&first, &[0], 1)[2], NONE);
    assert_eq!(changed(&first, &[0, 1], 1)[2], 2.0);
    let forced = Processors { forced_first: Some(3), ..first };
    assert_eq!(changed(&forced, &[0], 1), [NONE, NONE, NONE, 0.0, NONE, NONE]);
    assert_eq!(changed(&forced, &[0, 3], 1)[2], NONE);
    assert_eq!(changed(&forced, &[0, 1], 2)[2], NONE);
}

#[test]
fn settings_that_leave_nothing_are_an_error() {
    let all = Processors { suppressed: vec![0, 1], ..Processors::default() };
    let mut sampler = Sampler::new(Settings::greedy()).unwrap().with_processors(all);
    assert!(sampler.choose(&[1.0, 2.0]).unwrap_err().message().contains("rule out every token"));
    assert_eq!(sampler.choose(&[1.0, 2.0, 0.5]).unwrap(), 2);
    let beyond = Processors { bad_words: vec![vec![1, 6]], ..Processors::default() };
    assert!(beyond.check(7).is_ok() && beyond.check(6).is_err());
}
