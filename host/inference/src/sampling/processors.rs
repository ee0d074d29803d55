//! Changes of logits before a token is chosen: those that transformers makes by a model's own settings, in its order and
//! in its arithmetic.
//!
//! ```text
//! sequence bias, prompt bonus | repeat penalty | n-grams, bad words, least lengths, forced tokens, decay, suppressed tokens
//!            `bias`           |  the sampler's |                              `restrict`
//! ```

use super::truncation::Truncation;
use apr_sdk::{Error, Result};
use std::collections::BTreeMap;

/// The changes. The default ones change nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Processors {
    /// Sequences, and the numbers added to the logits of their last tokens behind the others.
    pub sequence_bias: Vec<(Vec<u32>, f32)>,
    /// The factor that makes tokens of the prompt likelier.
    pub encoder_repetition_penalty: Option<f32>,
    /// Length of sequences that occur once; 0 for no such rule.
    pub no_repeat_ngram_size: usize,
    /// Length of sequences of the prompt that the answer does not repeat; 0 for no such rule.
    pub encoder_no_repeat_ngram_size: usize,
    /// Sequences that do not occur.
    pub bad_words: Vec<Vec<u32>>,
    /// Tokens of the text before an end.
    pub min_length: usize,
    /// Tokens of the answer before an end, whatever `min_length` is.
    pub min_new_tokens: Option<usize>,
    /// The token behind a single one.
    pub forced_first: Option<u32>,
    /// The tokens of which one is the last of the longest answer.
    pub forced_last: Vec<u32>,
    /// Number of tokens, and the factor by which an end becomes likelier with each one more.
    pub decay: Option<(i64, f64)>,
    /// Tokens that are never chosen.
    pub suppressed: Vec<u32>,
    /// Tokens that are not the answer's first.
    pub suppressed_first: Vec<u32>,
    /// What is left out where tokens are drawn.
    pub truncation: Truncation,
}

/// A text as far as it is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Its tokens.
    pub text: Vec<u32>,
    /// Number of those that are the prompt's.
    pub prompt: usize,
    /// Tokens that end it.
    pub ends: Vec<u32>,
    /// Tokens of the longest answer, if there is such a bound.
    pub most: Option<usize>,
}

impl Processors {
    /// Refuses tokens that a vocabulary lacks, where they are more than left out.
    ///
    /// # Errors
    /// InvalidArgument, naming the first.
    pub fn check(&self, vocabulary: u32) -> Result<()> {
        let biased = self.sequence_bias.iter().map(|(ids, _)| ids);
        let all = biased.chain(&self.bad_words).flatten().chain(&self.forced_first).chain(&self.forced_last);
        match all.copied().find(|id| *id >= vocabulary) {
            None => Ok(()),
            Some(id) => Err(Error::invalid_argument(format!(
                "they contain token {id}, but the model's vocabulary is {vocabulary}"
            ))),
        }
    }

    /// Adds the biases, and favors the prompt.
    pub(super) fn bias(&self, at: &Progress, logits: &mut [f32]) {
        // The sum of all biases of a token comes first, single ones before sequences, and sequences by their length in the
        // order in which lengths occur.
        let mut lengths: Vec<usize> = vec![1];
        for (ids, _) in &self.sequence_bias {
            if !lengths.contains(&ids.len()) {
                lengths.push(ids.len());
            }
        }
        let mut sums: BTreeMap<u32, f32> = BTreeMap::new();
        for length in lengths {
            for (ids, bias) in self.sequence_bias.iter().filter(|(ids, _)| ids.len() == length) {
                if let Some(id) = completed(ids, &at.text) {
                    *sums.entry(id).or_default() += bias;
                }
            }
        }
        for (id, sum) in sums {
            change(logits, id, |logit| logit + sum);
        }
        if let Some(penalty) = self.encoder_repetition_penalty {
            // In double precision, as Python has it.
            #[allow(clippy::cast_possible_truncation, reason = "logits are in single precision")]
            let favor = (1.0 / f64::from(penalty)) as f32;
            penalize(logits, at.text.get(..at.prompt).unwrap_or_default(), favor);
        }
    }

    /// Makes what must not be chosen impossible.
    pub(super) fn restrict(&self, at: &Progress, logits: &mut [f32]) {
        let answered = at.text.len().saturating_sub(at.prompt);
        ban_repeated(self.no_repeat_ngram_size, &at.text, &at.text, logits);
        let prompt = at.text.get(..at.prompt).unwrap_or_default();
        ban_repeated(self.encoder_no_repeat_ngram_size, prompt, &at.text, logits);
        for word in &self.bad_words {
            let is_end = matches!(&word[..], [id] if at.ends.contains(id));
            if let Some(id) = completed(word, &at.text).filter(|_| !is_end) {
                ban(logits, id);
            }
        }
        let is_short = match self.min_new_tokens {
            Some(least) => answered < least,
            None => at.text.len() < self.min_length,
        };
        if is_short {
            at.ends.iter().for_each(|id| ban(logits, *id));
        }
        if let Some(id) = self.forced_first.filter(|_| at.text.len() == 1) {
            force(logits, &[id]);
        }
        if !self.forced_last.is_empty() && at.most == Some(answered + 1) {
            force(logits, &self.forced_last);
        }
        if let Some((start, factor)) = self.decay {
            let over = i64::try_from(answered).unwrap_or(i64::MAX).saturating_sub(start);
            if over > 0 {
                hasten(logits, &at.ends, over, factor);
            }
        }
        self.suppressed.iter().for_each(|id| ban(logits, *id));
        // Behind a single token, a forced one is the first.
        let shift = usize::from(at.prompt <= 1 && self.forced_first.is_some());
        if answered == shift {
            self.suppressed_first.iter().for_each(|id| ban(logits, *id));
        }
    }
}

/// Makes tokens less likely by a factor, each once however often it occurs.
pub(super) fn penalize(logits: &mut [f32], ids: &[u32], penalty: f32) {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    for id in ids {
        change(logits, id, |logit| if logit > 0.0 { logit / penalty } else { logit * penalty });
    }
}

/// The last token of a sequence, if the text ends with the others.
fn completed(sequence: &[u32], text: &[u32]) -> Option<u32> {
    let (last, others) = sequence.split_last()?;
    text.ends_with(others).then_some(*last)
}

/// Bans what would complete a sequence of so many tokens that `seen` has.
fn ban_repeated(size: usize, seen: &[u32], text: &[u32], logits: &mut [f32]) {
    if size == 0 || text.len() < size {
        return;
    }
    for sequence in seen.windows(size) {
        if let Some(id) = completed(sequence, text) {
            ban(logits, id);
        }
    }
}

/// Makes the ends likelier.
fn hasten(logits: &mut [f32], ends: &[u32], over: i64, factor: f64) {
    #[allow(clippy::cast_precision_loss, reason = "a context is far shorter")]
    #[allow(clippy::cast_possible_truncation, reason = "logits are in single precision")]
    let growth = (factor.powf(over as f64) - 1.0) as f32;
    for id in ends {
        change(logits, *id, |logit| if logit.is_finite() { logit + logit.abs() * growth } else { logit });
    }
}

/// Leaves these tokens alone, all alike.
fn force(logits: &mut [f32], ids: &[u32]) {
    logits.fill(f32::NEG_INFINITY);
    ids.iter().for_each(|id| change(logits, *id, |_| 0.0));
}

fn ban(logits: &mut [f32], id: u32) {
    change(logits, id, |_| f32::NEG_INFINITY);
}

/// Changes a token's logit; one that the model does not know has none.
fn change(logits: &mut [f32], id: u32, new: impl Fn(f32) -> f32) {
    if let Some(logit) = usize::try_from(id).ok().and_then(|at| logits.get_mut(at)) {
        *logit = new(*logit);
    }
}
