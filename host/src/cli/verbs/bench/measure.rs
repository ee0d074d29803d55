//! Runs a test several times.

use crate::cli::verbs::running::prompt::ids_without_pattern;
use apr_host::running::Loaded;
use apr_inference::runner::Runner;
use apr_sdk::Result;
use serde::Serialize;
use std::time::Instant;

/// The computation of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A prompt of so many tokens.
    Prompt(u32),
    /// An answer of so many tokens.
    Answer(u32),
    /// So many answers, and so many tokens of each: one token of each in a step.
    Together(u32, u32),
}

impl Kind {
    /// Number of tokens in a sequence.
    pub fn tokens(self) -> u32 {
        match self {
            Kind::Prompt(tokens) | Kind::Answer(tokens) | Kind::Together(_, tokens) => tokens,
        }
    }

    /// Number of sequences.
    pub fn sequences(self) -> u32 {
        match self {
            Kind::Prompt(_) | Kind::Answer(_) => 1,
            Kind::Together(sequences, _) => sequences,
        }
    }

    /// Its name, as llama-bench has it, which knows one sequence alone.
    fn name(self) -> String {
        match self {
            Kind::Prompt(tokens) => format!("pp{tokens}"),
            Kind::Answer(tokens) => format!("tg{tokens}"),
            Kind::Together(sequences, tokens) => format!("tg{tokens}x{sequences}"),
        }
    }
}

/// A test with its times.
#[derive(Clone, Debug, Serialize)]
pub struct Test {
    #[serde(skip)]
    kind: Kind,
    /// Its name.
    pub test: String,
    /// Those of a sequence.
    tokens: u32,
    sequences: u32,
    /// The mean over all repetitions, of all sequences together.
    pub tokens_per_second: f64,
    /// The standard deviation of the sample.
    pub deviation: f64,
    seconds: Vec<f64>,
    /// Bytes of weights that it reads per second.
    pub bytes_per_second: Option<f64>,
    /// Their share of what memory delivers.
    pub share: Option<f64>,
}

impl Test {
    fn of(kind: Kind, seconds: Vec<f64>) -> Test {
        let tokens = f64::from(kind.tokens()) * f64::from(kind.sequences());
        let rates: Vec<f64> = seconds.iter().map(|seconds| tokens / seconds).collect();
        let (tokens_per_second, deviation) = mean_and_deviation(&rates);
        Test {
            kind,
            test: kind.name(),
            tokens: kind.tokens(),
            sequences: kind.sequences(),
            tokens_per_second,
            deviation,
            seconds,
            bytes_per_second: None,
            share: None,
        }
    }

    /// Number of tokens that are computed together: the weights are read once for all of them.
    pub fn together(&self) -> u32 {
        match self.kind {
            // The loader's steps have 512 rows.
            Kind::Prompt(tokens) => tokens.min(512),
            Kind::Answer(_) => 1,
            Kind::Together(sequences, _) => sequences,
        }
    }

    /// Says how much an answer reads, and compares it with what memory delivers.
    pub fn compare(&mut self, bytes_per_token: u64, floor: Option<f64>) {
        if matches!(self.kind, Kind::Answer(_)) && bytes_per_token > 0 {
            #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
            let bytes = bytes_per_token as f64 * self.tokens_per_second;
            self.bytes_per_second = Some(bytes);
            self.share = floor.map(|floor| bytes / floor);
        }
    }
}

/// Runs a test once without counting it, then as often as wanted; `between` is done before each repetition.
///
/// # Errors
/// What computing and `between` raised.
pub fn run(
    kind: Kind,
    repetitions: u32,
    loaded: &mut Loaded,
    between: &mut dyn FnMut() -> Result<()>,
) -> Result<Test> {
    let count = kind.tokens().saturating_mul(kind.sequences());
    let ids = ids_without_pattern(count, loaded.facts.vocabulary);
    once(kind, &ids, &mut loaded.runner)?;
    let mut seconds = Vec::new();
    for _ in 0..repetitions {
        between()?;
        let began = Instant::now();
        once(kind, &ids, &mut loaded.runner)?;
        seconds.push(began.elapsed().as_secs_f64());
    }
    Ok(Test::of(kind, seconds))
}

fn once(kind: Kind, ids: &[u32], runner: &mut Runner) -> Result<()> {
    runner.clear()?;
    match kind {
        Kind::Prompt(_) => runner.feed(ids).map(|_| ()),
        Kind::Answer(_) => ids.iter().try_for_each(|id| runner.feed(&[*id]).map(|_| ())),
        // Each sequence has tokens of its own, for the ids have no pattern.
        Kind::Together(sequences, _) => ids
            .chunks(usize::try_from(sequences).unwrap_or(1))
            .try_for_each(|step| runner.feed_together(step).map(|_| ())),
    }
}

/// The mean, and the standard deviation of the sample; that of one is 0.
fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = f64::from(u32::try_from(values.len()).unwrap_or(u32::MAX));
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, if count > 1.0 { (squares / (count - 1.0)).sqrt() } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_sample() {
        let test = Test::of(Kind::Answer(10), vec![1.0, 2.0]);
        assert_eq!((test.test.as_str(), test.tokens_per_second), ("tg10", 7.5));
        assert!((test.deviation - 12.5f64.sqrt()).abs() < 1e-12);
        assert_eq!(mean_and_deviation(&[3.0]), (3.0, 0.0));
        let together = Test::of(Kind::Together(8, 10), vec![2.0]);
        assert_eq!((together.test.as_str(), together.tokens_per_second), ("tg10x8", 40.0));
        assert_eq!((together.tokens, together.together()), (10, 8));
    }

    #[test]
    fn only_answers_are_compared_with_memory() {
        let mut answer = Test::of(Kind::Answer(10), vec![1.0]);
        answer.compare(100, Some(2000.0));
        assert_eq!((answer.bytes_per_second, answer.share), (Some(1000.0), Some(0.5)));
        let mut prompt = Test::of(Kind::Prompt(10), vec![1.0]);
        prompt.compare(100, Some(2000.0));
        assert_eq!(prompt.share, None);
        let mut together = Test::of(Kind::Together(2, 10), vec![1.0]);
        together.compare(100, Some(2000.0));
        assert_eq!(together.share, None);
    }
}
