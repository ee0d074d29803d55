//! Chooses the next token from logits.
//!
//! The steps and their order are llama.cpp's defaults: the repeat penalty, top-k, top-p, min-p, the temperature,
//! and a draw; around the penalty come the changes that a model's own settings ask for ([`Processors`]). At temperature 0 the largest logit after the penalty is chosen, the lowest id of equal ones. Given
//! the same logits and the same seed, the choice is the same on every machine: the random numbers are PCG32's, the
//! exponentials are computed in plain F64 arithmetic.

mod exponential;
mod processors;
pub(crate) mod random;
mod truncation;

pub use processors::{Processors, Progress};
pub use truncation::Truncation;

use apr_engine::hints;
use apr_sdk::{Error, Result};
use exponential::exp;
use processors::penalize;
use random::Random;

/// Settings for choosing tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Divides the logits; 0 chooses the largest.
    pub temperature: f32,
    /// Keeps that many of the largest logits; 0 keeps all.
    pub top_k: u32,
    /// Keeps the fewest of the most probable tokens whose probabilities reach this sum; 1 keeps all.
    pub top_p: f32,
    /// Keeps the tokens that are at least this times as probable as the most probable one; 0 keeps all.
    pub min_p: f32,
    /// Divides the positive logits of recent tokens and multiplies their negative ones; 1 changes nothing.
    pub repeat_penalty: f32,
    /// Number of tokens that are recent, those of the prompt included.
    pub repeat_last: usize,
    /// The seed of the draws.
    pub seed: u64,
}

impl Default for Settings {
    /// llama.cpp's defaults, with seed 0.
    fn default() -> Settings {
        Settings {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repeat_penalty: 1.0,
            repeat_last: 64,
            seed: 0,
        }
    }
}

impl Settings {
    /// Always the largest logit.
    pub fn greedy() -> Settings {
        Settings { temperature: 0.0, ..Settings::default() }
    }

    /// Refuses what is no setting.
    ///
    /// # Errors
    /// InvalidArgument, naming the setting and what it takes.
    fn check(&self) -> Result<()> {
        let mut hint = None;
        let (name, value, takes) = if !(0.0..=1000.0).contains(&self.temperature) {
            hint = Some(hints::TEMPERATURE);
            ("the temperature", self.temperature, "a number from 0 to 1000")
        } else if !(0.0..=1.0).contains(&self.top_p) {
            hint = Some(hints::TOP_P);
            ("top-p", self.top_p, "a number from 0 to 1")
        } else if !(0.0..=1.0).contains(&self.min_p) {
            ("min-p", self.min_p, "a number from 0 to 1")
        } else if !(self.repeat_penalty > 0.0 && self.repeat_penalty <= 1000.0) {
            ("the repeat penalty", self.repeat_penalty, "a number greater than 0, at most 1000")
        } else {
            return Ok(());
        };
        let message = format!("{name} is {value}, expected {takes}");
        Err(Error::invalid_argument(hint.map_or(message.clone(), |hint| hint.told(&message))))
    }
}

/// A token that may be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    id: u32,
    logit: f32,
}

/// Larger logits first, lower ids first among equal ones.
fn best_first(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    b.logit.partial_cmp(&a.logit).unwrap_or(std::cmp::Ordering::Equal).then(a.id.cmp(&b.id))
}

/// Chooses tokens one after the other.
#[derive(Clone, Debug)]
pub struct Sampler {
    settings: Settings,
    processors: Processors,
    random: Random,
    progress: Progress,
    /// Kept between calls for its memory, and so are the candidates.
    logits: Vec<f32>,
    candidates: Vec<Candidate>,
}

impl Sampler {
    /// A sampler at the start of its seed's sequence.
    ///
    /// # Errors
    /// InvalidArgument for a setting that is none, naming it.
    pub fn new(settings: Settings) -> Result<Sampler> {
        settings.check()?;
        let random = Random::new(settings.seed);
        Ok(Sampler {
            settings,
            processors: Processors::default(),
            random,
            progress: Progress::default(),
            logits: Vec::new(),
            candidates: Vec::new(),
        })
    }

    /// The sampler with these changes of logits.
    #[must_use]
    pub fn with_processors(self, processors: Processors) -> Sampler {
        Sampler { processors, ..self }
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Starts a text: forgets another, and notes the tokens of the prompt. The random numbers go on.
    pub fn begin(&mut self, progress: Progress) {
        self.progress = progress;
    }

    /// Notes a token of the answer.
    pub fn accept(&mut self, id: u32) {
        self.progress.text.push(id);
    }

    /// Chooses a token by its logits, one for each id. The choice is not noted: see [`Sampler::accept`].
    ///
    /// # Errors
    /// Failed if a logit is NaN or infinite, naming the first; minus infinity stands for a token that must not be
    /// chosen, and is an error only if it stands everywhere.
    pub fn choose(&mut self, logits: &[f32]) -> Result<u32> {
        check(logits)?;
        self.logits.clear();
        self.logits.extend_from_slice(logits);
        self.processors.bias(&self.progress, &mut self.logits);
        self.penalize();
        self.processors.restrict(&self.progress, &mut self.logits);
        if self.logits.iter().all(|logit| *logit == f32::NEG_INFINITY) {
            return Err(none_allowed());
        }
        self.candidates.clear();
        self.candidates.extend((0u32..).zip(&self.logits).map(|(id, logit)| Candidate { id, logit: *logit }));
        if self.settings.temperature == 0.0 {
            let best = self.candidates.iter().min_by(|a, b| best_first(a, b));
            return best.map(|best| best.id).ok_or_else(none_left);
        }
        self.keep_top_h();
        self.keep_top_k();
        self.keep_top_p();
        self.keep_min_p();
        self.keep_probable();
        self.draw()
    }

    /// Makes recent tokens less likely.
    fn penalize(&mut self) {
        let penalty = self.settings.repeat_penalty;
        if penalty != 1.0 {
            let text = &self.progress.text;
            let recent = text.get(text.len().saturating_sub(self.settings.repeat_last)..);
            penalize(&mut self.logits, recent.unwrap_or_default(), penalty);
        }
    }

    /// Leaves the `top_k` largest, largest first.
    fn keep_top_k(&mut self) {
        let most = usize::try_from(self.settings.top_k).unwrap_or(usize::MAX);
        if most > 0 && most < self.candidates.len() {
            self.candidates.select_nth_unstable_by(most - 1, best_first);
            self.candidates.truncate(most);
        }
        self.candidates.sort_unstable_by(best_first);
    }

    /// Leaves the fewest, from the largest on, whose probabilities reach `top_p`: the one that reaches it included.
    fn keep_top_p(&mut self) {
        let wanted = f64::from(self.settings.top_p);
        if wanted >= 1.0 {
            return;
        }
        let weights = self.weights(1.0);
        let total: f64 = weights.iter().sum();
        let mut sum = 0.0;
        let reached = weights.iter().position(|weight| {
            sum += weight;
            sum >= wanted * total
        });
        self.candidates.truncate(reached.map_or(usize::MAX, |at| at + 1));
    }

    /// Leaves those that are at least `min_p` times as probable as the first.
    fn keep_min_p(&mut self) {
        let least = f64::from(self.settings.min_p);
        if least > 0.0 {
            let kept = self.weights(1.0).partition_point(|weight| *weight >= least);
            self.candidates.truncate(kept.max(1));
        }
    }

    /// Leaves what a model's own part of the entropy keeps.
    fn keep_top_h(&mut self) {
        if self.processors.truncation.top_h.is_some() {
            self.candidates.sort_unstable_by(best_first);
            let mut weights = self.weights(f64::from(self.settings.temperature));
            weights.truncate(truncation::WIDEST);
            let kept = self.processors.truncation.first(&weights);
            self.candidates.truncate(kept.unwrap_or(usize::MAX));
        }
    }

    /// Leaves what a model's own rules for probabilities keep.
    fn keep_probable(&mut self) {
        // The weights of a whole vocabulary are not for nothing.
        if self.processors.truncation == Truncation::default() {
            return;
        }
        let weights = self.weights(f64::from(self.settings.temperature));
        if let Some(kept) = self.processors.truncation.rest(&weights) {
            let mut kept = kept.into_iter();
            self.candidates.retain(|_| kept.next() == Some(true));
        }
    }

    /// Draws one of what is left, each with its probability at the temperature.
    fn draw(&mut self) -> Result<u32> {
        let weights = self.weights(f64::from(self.settings.temperature));
        let total: f64 = weights.iter().sum();
        let mut left = self.random.unit() * total;
        for (candidate, weight) in self.candidates.iter().zip(&weights) {
            if left < *weight {
                return Ok(candidate.id);
            }
            left -= weight;
        }
        // Rounding may leave a little: the last that can be chosen.
        let last = self.candidates.iter().zip(&weights).rev().find(|(_, weight)| **weight > 0.0);
        last.map(|(candidate, _)| candidate.id).ok_or_else(none_left)
    }

    /// Each candidate's probability, but for a common factor: 1 for the first, which is the largest.
    fn weights(&self, temperature: f64) -> Vec<f64> {
        let largest = self.candidates.first().map_or(0.0, |first| f64::from(first.logit));
        let scaled = self.candidates.iter().map(|c| (f64::from(c.logit) - largest) / temperature);
        scaled.map(exp).collect()
    }
}

/// Refuses logits from which nothing can be chosen.
fn check(logits: &[f32]) -> Result<()> {
    if let Some((at, logit)) = logits.iter().enumerate().find(|(_, l)| l.is_nan() || **l == f32::INFINITY) {
        let what = if logit.is_nan() { "not a number (NaN)" } else { "infinite" };
        let n = logits.len();
        return Err(Error::failed(format!("the model's output is {what}: first at logit {at} of {n}")));
    }
    if logits.iter().all(|logit| *logit == f32::NEG_INFINITY) {
        return Err(none_left());
    }
    Ok(())
}

fn none_allowed() -> Error {
    Error::failed("the model's settings, such as its `bad_words_ids`, rule out every token")
}

fn none_left() -> Error {
    Error::failed("the model's output rules out every token: all logits are minus infinity")
}

#[cfg(test)]
mod tests;
