//! The ten stages through which a token passes, each with a test that a broken model fails.
//!
//! The stages are those of `apr check` in the specification (inference-showcase-and-rosetta, section 3). A text runs through the
//! model once, with every intermediate result kept. A stage judges only what arises in it: an operation whose inputs are
//! already NaN, infinite or all alike says nothing about itself, and is left out.

mod attention;
mod embedding;
mod feed_forward;
mod head;
mod norms;
mod origins;
mod positions;
mod projections;
mod sampler;
mod sites;
#[cfg(test)]
mod tests;
mod tokenizer;

pub use tokenizer::RoundTrip;

use crate::tapped::Tapped;
use apr_sdk::{Error, Operation, Result};
use origins::Origins;
use sites::Sites;

/// Tokens below which attention is not judged: its entropy over few positions is small by nature.
pub const LEAST_TOKENS: usize = 16;

/// The verdict on a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does what it must.
    Passed,
    /// It does not.
    Failed,
    /// The model has no such stage.
    NotApplicable,
    /// Its inputs are broken already, so that it shows nothing.
    NotJudged,
}

/// A measured number of a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Description of the number, with its unit.
    pub name: &'static str,
    /// The number.
    pub value: f64,
    /// The value or layer where it was measured; empty for the whole model.
    pub place: String,
}

/// A stage that was judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Its number, from 1.
    pub number: usize,
    /// Its name.
    pub name: &'static str,
    /// Its purpose in words for everyone.
    pub explanation: &'static str,
    /// The verdict.
    pub verdict: Verdict,
    /// What was measured.
    pub figure: Option<Figure>,
    /// What is wrong, or why nothing was judged, a sentence each.
    pub remarks: Vec<String>,
}

/// Names and explanations of the stages, in order.
const STAGES: [(&str, &str); 10] = [
    ("Tokenizer", "words become numbers"),
    ("Embedding", "numbers become vectors"),
    ("Positional encoding", "each vector learns its place"),
    ("Q/K/V projection", "each vector asks, offers and tells"),
    ("Attention scores", "whom to look at"),
    ("Feed-forward (MLP)", "think about it"),
    ("Layer norm", "keep numbers stable"),
    ("LM head", "a vector becomes a score for each token"),
    ("Logits to probabilities", "scores become percentages"),
    ("Sampler and decoder", "pick a token, return its text"),
];

/// The findings of a stage.
#[derive(Debug, Default)]
struct Finding {
    figure: Option<Figure>,
    faults: Vec<String>,
    /// The reason why the model has no such stage.
    absent: Option<String>,
    /// Number of places that were judged.
    judged: usize,
    /// Number of places whose inputs are broken already.
    unjudged: usize,
}

impl Finding {
    /// Keeps the figure if it is the first or worse than the one that is kept: smaller, or not a number.
    fn smallest(&mut self, name: &'static str, value: f64, place: &str) {
        if self.figure.as_ref().is_none_or(|kept| value < kept.value || value.is_nan()) {
            self.figure = Some(Figure { name, value, place: place.to_owned() });
        }
    }

    /// The same where larger is worse.
    fn largest(&mut self, name: &'static str, value: f64, place: &str) {
        if self.figure.as_ref().is_none_or(|kept| value > kept.value || value.is_nan()) {
            self.figure = Some(Figure { name, value, place: place.to_owned() });
        }
    }

    fn into_stage(mut self, number: usize, mut arisen: Vec<String>) -> Stage {
        let (name, explanation) = STAGES[number - 1];
        arisen.append(&mut self.faults);
        let (verdict, remarks) = if !arisen.is_empty() {
            (Verdict::Failed, arisen)
        } else if let Some(reason) = self.absent {
            (Verdict::NotApplicable, vec![reason])
        } else if self.judged == 0 {
            (Verdict::NotJudged, vec!["what goes in is broken already".to_owned()])
        } else if self.unjudged > 0 {
            let all = self.judged + self.unjudged;
            let left = format!("{} of {all} not judged: what goes in is broken already", self.unjudged);
            (Verdict::Passed, vec![left])
        } else {
            (Verdict::Passed, Vec::new())
        };
        Stage { number, name, explanation, verdict, figure: self.figure, remarks }
    }
}

/// The model's own statements that stages are judged by.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// The tokenizer on a text; `None` if the model has no tokenizer.
    pub round_trip: Option<RoundTrip>,
    /// Number of tokens of the tokenizer, if there is one.
    pub tokens: Option<usize>,
    /// Number of tokens that the model has vectors for.
    pub vocabulary: usize,
}

/// Judges a model by the tokens of a text. `stop` is asked between stages.
///
/// # Errors
/// InvalidArgument for no tokens, or more than a step takes; any error from the backend, from reading weights and from `stop`.
pub fn check(
    model: &mut Tapped<'_>,
    ids: &[u32],
    subject: &Subject,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Vec<Stage>> {
    if ids.is_empty() {
        return Err(Error::invalid_argument("the text has no tokens").hint("specify a longer text"));
    }
    stop()?;
    let has_head = model.built.program.operations.iter().any(|one| matches!(one, Operation::Sample(_)));
    // The sampler's runs come first: the last step's values are those that the stages read.
    let sampler = if has_head { sampler::judge(model, ids, subject)? } else { headless() };
    stop()?;
    let logits = model.run(ids)?;
    let sites = Sites::of(model.built);
    let mut origins = Origins::of(model, &sites)?;
    let tokenizer = tokenizer::judge(subject);
    let mut findings = vec![tokenizer];
    for judge in [
        embedding::judge,
        positions::judge,
        projections::judge,
        attention::judge,
        feed_forward::judge,
        norms::judge,
    ] {
        stop()?;
        findings.push(judge(model, &sites, &origins)?);
    }
    if has_head {
        findings.push(head::judge_scores(model, &origins, &logits, subject)?);
        findings.push(head::judge_probabilities(model, &origins, &logits));
    } else {
        findings.extend([headless(), headless()]);
    }
    findings.push(sampler);
    let numbered = findings.into_iter().enumerate();
    Ok(numbered.map(|(at, finding)| finding.into_stage(at + 1, origins.take(at + 1))).collect())
}

/// The finding of stages behind the hidden state, of a model that ends there.
fn headless() -> Finding {
    let reason = "the model has no head: it makes vectors of texts".to_owned();
    Finding { absent: Some(reason), ..Finding::default() }
}

/// Number of stages that a model has, and how many of those passed.
pub fn counts(stages: &[Stage]) -> (usize, usize) {
    let has = stages.iter().filter(|stage| stage.verdict != Verdict::NotApplicable);
    let passed = stages.iter().filter(|stage| stage.verdict == Verdict::Passed);
    (passed.count(), has.count())
}

/// The root of the mean square.
fn root_mean_square(elements: &[f32]) -> f64 {
    let squares: f64 = elements.iter().map(|element| f64::from(*element).powi(2)).sum();
    (squares / elements.len().max(1) as f64).sqrt()
}
