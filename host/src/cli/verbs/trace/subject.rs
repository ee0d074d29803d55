//! A model that is traced, the tokens that it is given, and the trace that comes of it.

use super::timestamp::Timestamp;
use crate::cli::context::Context;
use crate::cli::verbs::run::ids;
use crate::cli::verbs::run::question::QuestionArgs;
use crate::cli::verbs::running::loading::{Computation, Ready, Seen, Wishes, load_for_ids, load_model_seen};
use apr_host::host::Host;
use apr_host::running::Facts;
use apr_inference::runner::Runner;
use apr_inference::sampling::Settings;
use apr_inference::trace::{Recording, Recordings};
use apr_sandbox::Tokens;
use apr_sdk::Result;
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// Most probable tokens that are shown.
const SHOWN: usize = 5;

/// A trace with what is said about it.
pub struct Trace {
    /// The model.
    pub model: ModelFacts,
    /// The settings of the run.
    pub config: Config,
    /// The moment when computing began.
    pub began: Timestamp,
    /// Duration of making tokens of the text before.
    pub tokenizing: Duration,
    /// The text that the model was asked; `None` if it was given ids.
    pub text: Option<String>,
    /// The text of the prompt's and the answer's tokens, in order.
    pub tokens: Vec<TokenOf>,
    /// The prompt.
    pub prompt: Recording,
    /// What was generated.
    pub answer: Option<Recording>,
    /// The most probable tokens after the last.
    pub next: Vec<Candidate>,
    /// The answer that was given, if there is one.
    pub said: Option<Said>,
    /// The error that ended the answer, if one did.
    pub failed: Option<String>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Said {
    /// Its text; `None` if the model was given ids.
    pub text: Option<String>,
    /// Its tokens.
    pub ids: Vec<u32>,
    /// The reason why it ended.
    pub end: &'static str,
}

/// Facts about the model.
#[derive(Clone, Debug, Serialize)]
pub struct ModelFacts {
    /// Its path.
    pub path: String,
    /// Its architecture.
    pub architecture: String,
    /// Number of layers.
    pub layers: usize,
    /// Number of parameters.
    pub parameters: u64,
    /// Bytes of all weights.
    pub bytes: u64,
    /// The type of most of them.
    #[serde(rename = "type")]
    pub dtype: String,
    /// Number of tokens it knows.
    pub vocabulary: u32,
}

/// Settings of the run.
#[derive(Clone, Debug, Serialize)]
pub struct Config {
    /// The backend.
    pub backend: String,
    /// Its device.
    pub device: String,
    /// Number of threads.
    pub threads: usize,
    /// Positions that there is room for.
    pub context: u32,
    /// Tokens of a step at most.
    pub rows_per_step: usize,
    /// The choice of tokens, where it is not always the most probable one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<SamplingOf>,
}

/// Settings for choosing tokens.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SamplingOf {
    temperature: f32,
    top_k: u32,
    top_p: f32,
    min_p: f32,
    repeat_penalty: f32,
    seed: u64,
    /// Tokens of the answer at most; `None` for as many as the context has room for.
    max_tokens: Option<u32>,
}

impl SamplingOf {
    /// Those of a sampler, for an answer of so many tokens at most.
    pub fn of(settings: &Settings, max_tokens: Option<u32>) -> SamplingOf {
        let Settings { temperature, top_k, top_p, min_p, repeat_penalty, seed, .. } = *settings;
        SamplingOf { temperature, top_k, top_p, min_p, repeat_penalty, seed, max_tokens }
    }
}

/// A token.
#[derive(Clone, Debug, Serialize)]
pub struct TokenOf {
    /// Its id.
    pub id: u32,
    /// Its text, if there is a tokenizer.
    pub text: Option<String>,
}

/// A token that may come next.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// Its id.
    pub id: u32,
    /// Its text, if there is a tokenizer.
    pub text: Option<String>,
    /// Its probability.
    pub probability: f64,
}

/// A loaded model and its prompt.
pub struct Asked {
    path: String,
    /// The runner.
    pub runner: Runner,
    /// Its program.
    pub computation: Computation,
    /// The prompt's tokens.
    pub prompt: Vec<u32>,
    tokens: Option<Tokens>,
    tokenizing: Duration,
    text: Option<String>,
    facts: Facts,
}

impl Asked {
    /// Loads the model, and reads the prompt.
    ///
    /// # Errors
    /// As [`load_model_seen`]; InvalidArgument for a prompt that is none, or ids that the model does not have.
    pub fn load(
        path: &Path,
        question: &QuestionArgs,
        wishes: &Wishes<'_>,
        seen: Seen,
        host: &Host,
        context: &Context,
    ) -> Result<Asked> {
        let shown = path.display().to_string();
        if let Some(prompt) = question.ids() {
            let Ready { runner, tokens, facts, computation, .. } =
                load_for_ids(path, wishes, seen, host, context)?;
            ids::check(prompt, facts.vocabulary)?;
            return Ok(Asked {
                path: shown,
                runner,
                computation,
                prompt: prompt.to_vec(),
                tokens,
                tokenizing: Duration::ZERO,
                text: None,
                facts,
            });
        }
        let question = question.read()?;
        let Ready { runner, tokens, facts, computation, .. } =
            load_model_seen(path, wishes, seen, host, context)?;
        let since = Instant::now();
        let prompt = question.tokens(&tokens)?;
        Ok(Asked {
            path: shown,
            runner,
            computation,
            prompt,
            tokens: Some(tokens),
            tokenizing: since.elapsed(),
            text: Some(question.text().to_owned()),
            facts,
        })
    }

    /// The moment when the trace begins.
    pub fn start(&self) -> Timestamp {
        Timestamp::now()
    }

    /// Warnings of loading that have not been told.
    pub fn warnings(&self, json: bool) -> Vec<String> {
        if json { self.facts.warnings.clone() } else { Vec::new() }
    }

    /// The trace of what was recorded; `logits` are those after the last token.
    pub fn finish(&self, began: Timestamp, recordings: Recordings, logits: &[f32]) -> Trace {
        let Recordings { prompt, answer } = recordings;
        let ids = prompt.ids.iter().chain(answer.iter().flat_map(|answer| &answer.ids));
        let facts = &self.facts;
        Trace {
            model: ModelFacts::of(&self.path, facts, prompt.layers()),
            config: Config::of(facts, &self.runner),
            began,
            tokenizing: self.tokenizing,
            text: self.text.clone(),
            said: None,
            failed: None,
            tokens: ids.map(|id| TokenOf { id: *id, text: text_of(self.tokens.as_ref(), *id) }).collect(),
            next: self.candidates(logits),
            prompt,
            answer,
        }
    }

    fn candidates(&self, logits: &[f32]) -> Vec<Candidate> {
        let mut all = most_probable(logits, SHOWN);
        for one in &mut all {
            one.text = text_of(self.tokens.as_ref(), one.id);
        }
        all
    }
}

impl ModelFacts {
    /// Those of a loaded model of so many layers.
    pub fn of(path: &str, facts: &Facts, layers: usize) -> ModelFacts {
        ModelFacts {
            path: path.to_owned(),
            architecture: facts.architecture.clone(),
            layers,
            parameters: facts.parameters,
            bytes: facts.bytes,
            dtype: facts.dtype.to_string(),
            vocabulary: facts.vocabulary,
        }
    }
}

impl Config {
    /// Those of a loaded model.
    pub fn of(facts: &Facts, runner: &Runner) -> Config {
        Config {
            backend: facts.backend.clone(),
            device: facts.device.clone(),
            threads: facts.threads,
            context: runner.context(),
            rows_per_step: runner.rows(),
            sampling: None,
        }
    }
}

/// The text of a token.
pub fn text_of(tokens: Option<&Tokens>, id: u32) -> Option<String> {
    tokens?.pieces(&[id]).ok()?.into_iter().next().flatten()
}

/// The most probable tokens, without their texts.
pub fn most_probable(logits: &[f32], count: usize) -> Vec<Candidate> {
    let top = logits.iter().copied().filter(|logit| logit.is_finite()).fold(f32::NEG_INFINITY, f32::max);
    let weight = |logit: f32| if logit.is_finite() { f64::from(logit - top).exp() } else { 0.0 };
    let sum: f64 = logits.iter().map(|logit| weight(*logit)).sum();
    let mut all: Vec<usize> = (0..logits.len()).filter(|id| logits[*id].is_finite()).collect();
    // The lowest id of equal ones comes first, as where backends choose.
    let order = |a: &usize, b: &usize| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b));
    if count < all.len() && count > 0 {
        all.select_nth_unstable_by(count - 1, order);
        all.truncate(count);
    }
    all.sort_by(order);
    all.truncate(count);
    let candidate = |id: usize| Candidate {
        id: u32::try_from(id).unwrap_or(u32::MAX),
        text: None,
        probability: weight(logits[id]) / sum,
    };
    all.into_iter().map(candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_probable_come_first_and_what_is_no_number_never() {
        let found = most_probable(&[1.0, f32::NAN, 3.0, 3.0, f32::INFINITY, -1.0], 3);
        assert_eq!(found.iter().map(|one| one.id).collect::<Vec<_>>(), [2, 3, 0]);
        assert!((found[0].probability - 1.0 / (2.0 + (-2f64).exp() + (-4f64).exp())).abs() < 1e-9);
        assert!(most_probable(&[f32::NAN], 3).is_empty() && most_probable(&[1.0], 0).is_empty());
    }
}
