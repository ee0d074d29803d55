//! Choices against distributions that are computed by hand.

mod processors;

use super::*;
use apr_sdk::ErrorKind;

const ALL: Settings = Settings {
    temperature: 1.0,
    top_k: 0,
    top_p: 1.0,
    min_p: 0.0,
    repeat_penalty: 1.0,
    repeat_last: 64,
    seed: 1,
};

/// What is left of `logits` before the draw, in order.
fn left(settings: Settings, logits: &[f32]) -> Vec<u32> {
    let mut sampler = Sampler::new(settings).unwrap();
    sampler.choose(logits).unwrap();
    sampler.candidates.iter().map(|candidate| candidate.id).collect()
}

/// Logits of the probabilities 0.1, 0.4, 0.3 and 0.2.
fn logits() -> [f32; 4] {
    [0.1f32, 0.4, 0.3, 0.2].map(f32::ln)
}

/// How often each of 4 tokens is drawn in 20000 draws.
fn counts(settings: Settings, logits: &[f32; 4]) -> [u32; 4] {
    let mut sampler = Sampler::new(settings).unwrap();
    let mut counts = [0; 4];
    for _ in 0..20_000 {
        counts[usize::try_from(sampler.choose(logits).unwrap()).unwrap()] += 1;
    }
    counts
}

/// The sum of squared deviations over expectations.
fn chi_square(counts: [u32; 4], probabilities: [f64; 4]) -> f64 {
    let n: u32 = counts.iter().sum();
    counts
        .iter()
        .zip(probabilities)
        .map(|(count, p)| (f64::from(*count), p * f64::from(n)))
        .map(|(count, expected)| if expected == 0.0 { count } else { (count - expected).powi(2) / expected })
        .sum()
}

/// The 99.9 % quantile for three degrees of freedom.
const LIKELY: f64 = 16.27;

#[test]
fn greedy_takes_the_largest_and_the_lowest_of_equal_ones() {
    let mut sampler = Sampler::new(Settings::greedy()).unwrap();
    assert_eq!(sampler.choose(&[1.0, 3.0, 3.0, 2.0]).unwrap(), 1);
    assert_eq!(sampler.choose(&[f32::NEG_INFINITY, -2.0]).unwrap(), 1);
}

#[test]
fn filters_leave_what_their_definitions_say() {
    assert_eq!(left(ALL, &logits()), [1, 2, 3, 0]);
    assert_eq!(left(Settings { top_k: 2, ..ALL }, &logits()), [1, 2]);
    assert_eq!(left(Settings { top_k: 9, ..ALL }, &logits()), [1, 2, 3, 0]);
    // 0.4 + 0.3 falls short of 0.75, 0.2 more reaches it.
    assert_eq!(left(Settings { top_p: 0.75, ..ALL }, &logits()), [1, 2, 3]);
    assert_eq!(left(Settings { top_p: 0.0, ..ALL }, &logits()), [1]);
    // Half of 0.4: 0.3 stays, 0.2 does by a hair.
    assert_eq!(left(Settings { min_p: 0.499, ..ALL }, &logits()), [1, 2, 3]);
    assert_eq!(left(Settings { min_p: 0.501, ..ALL }, &logits()), [1, 2]);
    assert_eq!(left(Settings { min_p: 1.0, ..ALL }, &logits()), [1]);
    // Top-p counts what top-k left: 0.4 of 0.7 is 0.571.
    assert_eq!(left(Settings { top_k: 2, top_p: 0.57, ..ALL }, &logits()), [1]);
    assert_eq!(left(Settings { top_k: 2, top_p: 0.58, ..ALL }, &logits()), [1, 2]);
    // The temperature comes last: it does not change what is left.
    let hot = Settings { temperature: 100.0, min_p: 0.501, ..ALL };
    assert_eq!(left(hot, &logits()), [1, 2]);
}

#[test]
fn draws_follow_the_distribution() {
    let plain = counts(ALL, &logits());
    assert!(chi_square(plain, [0.1, 0.4, 0.3, 0.2]) < LIKELY, "{plain:?}");
    // At temperature 0.5 probabilities are squared: 1, 16, 9, 4 of 30.
    let cold = counts(Settings { temperature: 0.5, ..ALL }, &logits());
    assert!(chi_square(cold, [1.0, 16.0, 9.0, 4.0].map(|n| n / 30.0)) < LIKELY, "{cold:?}");
    let two = counts(Settings { top_k: 2, ..ALL }, &logits());
    assert!(chi_square(two, [0.0, 4.0 / 7.0, 3.0 / 7.0, 0.0]) < LIKELY, "{two:?}");
    // The test can fail.
    assert!(chi_square(plain, [0.13, 0.37, 0.3, 0.2]) > LIKELY);
}

#[test]
fn recent_tokens_are_penalized_once_each() {
    let mut sampler =
        Sampler::new(Settings { repeat_penalty: 2.0, repeat_last: 3, ..Settings::greedy() }).unwrap();
    let logits = [-1.0, 4.0, 3.0];
    [1, 1, 1].iter().for_each(|id| sampler.accept(*id));
    assert_eq!(sampler.choose(&logits).unwrap(), 2);
    assert_eq!(sampler.candidates[1].logit, 2.0);
    // Three later tokens push it out of the window; a negative logit is multiplied.
    [0, 0, 0].iter().for_each(|id| sampler.accept(*id));
    assert_eq!(sampler.choose(&logits).unwrap(), 1);
    assert_eq!(sampler.candidates[0].logit, -2.0);
    sampler.accept(1);
    sampler.begin(Progress::default());
    assert_eq!(sampler.choose(&logits).unwrap(), 1);
}

#[test]
fn a_seed_decides_everything() {
    let run = |seed| {
        let mut sampler = Sampler::new(Settings { seed, ..ALL }).unwrap();
        (0..20).map(|_| sampler.choose(&logits()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
    // The same on every machine.
    assert_eq!(run(5), SEED_5);
}

/// Computed apart, with exact probabilities.
const SEED_5: [u32; 20] = [2, 3, 3, 3, 2, 2, 2, 0, 3, 3, 0, 1, 3, 2, 1, 3, 0, 2, 1, 2];

#[test]
fn what_is_no_distribution_is_named() {
    let mut sampler = Sampler::new(ALL).unwrap();
    let error = sampler.choose(&[0.0, f32::NAN, f32::NAN]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert!(error.message().contains("NaN") && error.message().contains("logit 1 of 3"), "{error}");
    assert!(sampler.choose(&[0.0, f32::INFINITY]).unwrap_err().message().contains("infinite"));
    assert!(sampler.choose(&[f32::NEG_INFINITY; 3]).is_err());
    assert!(sampler.choose(&[]).is_err());
    assert_eq!(sampler.choose(&[f32::NEG_INFINITY, 0.0]).unwrap(), 1);
}

#[test]
fn settings_are_checked() {
    let refused = [
        Settings { temperature: -1.0, ..ALL },
        Settings { temperature: f32::NAN, ..ALL },
        Settings { top_p: 1.5, ..ALL },
        Settings { min_p: -0.1, ..ALL },
        Settings { repeat_penalty: 0.0, ..ALL },
    ];
    for settings in refused {
        assert_eq!(Sampler::new(settings).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
