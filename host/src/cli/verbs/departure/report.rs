//! The output of a comparison of two models.

use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::verbs::kernels::rows::{aligned, few};
use apr_engine::wording::n_of;
use apr_host::running::Facts;
use apr_inference::departure::{Departure, Errors, Found, Step};
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::path::Path;

/// The limits of what is the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdicts {
    /// Error of an operation.
    pub(super) bound: f64,
    /// Mean divergence of the logits, in nats.
    pub(super) divergence: f64,
}

/// The tokens that ran.
#[derive(Clone, Debug)]
pub(super) struct Prompt {
    /// The tokens.
    pub(super) ids: Vec<u32>,
    /// True if they are those of a text.
    pub(super) of_text: bool,
    /// The tokens that either model makes of the text, if it has a tokenizer.
    pub(super) prompts: [Option<Vec<u32>>; 2],
}

/// Mean divergence in nats below which logits are the same for every purpose.
const HARMLESS: f64 = 1e-6;
/// Departures that are listed.
const LISTED: usize = 12;

/// The findings. JSON: `suspect` and `reference` (each `path`, `architecture`, `type`), `bound`, `max_divergence`, `tokens` (the
/// number that ran), `text` (false if they follow no pattern), `prompt` (what differs in the tokens of the text; null if
/// nothing), `logits` (`same`: for how many tokens both find the same next one the most probable; `cosine`, the smallest;
/// `divergence` and `worst_divergence` in nats; `perplexity` and `reference_perplexity`, null without a text), `first` (`step`,
/// `result`, `operation`, `tensor`, `looks_like`, `explained`; null if nothing departs), `harmless` (true if the logits are the
/// same nevertheless), `unseen` (parameters that differ and that no value shows), and `steps`: each with `result`, `operation`,
/// `tensors`, `departs`, and `median`, `worst`, `worst_token`, `exact`, null if only one of the models has it. A figure that is
/// infinite or no number is null.
#[derive(Debug, Serialize)]
pub struct Compared {
    suspect: Model,
    reference: Model,
    bound: f64,
    max_divergence: f64,
    tokens: usize,
    text: bool,
    prompt: Option<String>,
    logits: Logits,
    first: Option<First>,
    harmless: bool,
    unseen: Vec<String>,
    steps: Vec<Row>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Model {
    path: String,
    architecture: String,
    #[serde(rename = "type")]
    dtype: String,
}

#[derive(Debug, Serialize)]
struct Logits {
    same: u32,
    cosine: f64,
    divergence: f64,
    worst_divergence: f64,
    perplexity: Option<f64>,
    reference_perplexity: Option<f64>,
}

#[derive(Debug, Serialize)]
struct First {
    step: usize,
    result: String,
    operation: String,
    tensor: Option<String>,
    looks_like: Option<String>,
    explained: f64,
}

#[derive(Debug, Serialize)]
struct Row {
    result: String,
    operation: String,
    tensors: Vec<String>,
    departs: bool,
    median: Option<f64>,
    worst: Option<f64>,
    worst_token: Option<usize>,
    exact: Option<usize>,
}

impl Compared {
    pub(super) fn new(
        paths: [&Path; 2],
        facts: &[Facts; 2],
        found: Found,
        prompt: Prompt,
        limits: Verdicts,
        warnings: Vec<String>,
    ) -> Compared {
        let [suspect, reference] = [0, 1].map(|side: usize| Model {
            path: paths[side].display().to_string(),
            architecture: facts[side].architecture.clone(),
            dtype: facts[side].dtype.to_string(),
        });
        let perplexities = found.logits.perplexities().filter(|_| prompt.of_text);
        let logits = Logits {
            same: found.logits.same(),
            cosine: found.logits.cosine(),
            divergence: found.logits.divergence(),
            worst_divergence: found.logits.worst_divergence(),
            perplexity: perplexities.map(|[suspect, _]| suspect),
            reference_perplexity: perplexities.map(|[_, reference]| reference),
        };
        let is_same = logits.divergence <= HARMLESS && found.logits.same() == found.logits.rows();
        let first = found.first.map(|departure| first(departure, &found.steps));
        Compared {
            suspect,
            reference,
            bound: limits.bound,
            max_divergence: limits.divergence,
            tokens: prompt.ids.len(),
            text: prompt.of_text,
            prompt: prompts_differ(&prompt.prompts),
            harmless: first.is_some() && is_same,
            logits,
            first,
            unseen: found.unseen,
            steps: found.steps.into_iter().map(row).collect(),
            warnings,
        }
    }
}

fn first(departure: Departure, steps: &[Step]) -> First {
    let step = &steps[departure.step];
    First {
        step: departure.step,
        result: step.result.clone(),
        operation: step.operation.clone(),
        tensor: departure.tensor,
        looks_like: departure.words,
        explained: departure.explained,
    }
}

fn row(step: Step) -> Row {
    let errors: Option<&Errors> = step.errors.as_ref();
    Row {
        median: errors.map(|errors| errors.median),
        worst: errors.map(|errors| errors.worst),
        worst_token: errors.map(|errors| errors.worst_row),
        exact: errors.map(|errors| errors.exact),
        result: step.result,
        operation: step.operation,
        tensors: step.tensors,
        departs: step.departs,
    }
}

/// The difference between the tokens that two tokenizers make of one text, in words.
fn prompts_differ(prompts: &[Option<Vec<u32>>; 2]) -> Option<String> {
    let [suspect, reference] = match prompts {
        [Some(suspect), Some(reference)] => [suspect, reference],
        _ => return None,
    };
    if suspect == reference {
        return None;
    }
    let begin = reference.first().copied();
    if let Some(begin) = begin.filter(|_| suspect[..] == reference[1..]) {
        return Some(format!("the token that begins a text, {begin}, is missing"));
    }
    if begin.is_some() && suspect.first() == begin.as_ref() && suspect.get(1..) == Some(&reference[..]) {
        return Some(format!("the token that begins a text, {}, is there twice", reference[0]));
    }
    if suspect.get(1..) == Some(&reference[..]) {
        return Some(format!("a token that the reference does not have, {}, begins the text", suspect[0]));
    }
    let at = suspect.iter().zip(reference).take_while(|(suspect, reference)| suspect == reference).count();
    let of = |ids: &[u32]| ids.get(at).map_or("none".to_owned(), u32::to_string);
    Some(format!(
        "the tokens of the text differ from number {} on: {} instead of {}",
        at + 1,
        of(suspect),
        of(reference)
    ))
}

impl Report for Compared {
    fn json(&self) -> Result<Json> {
        with_schema("apr.check.models/1", self)
    }

    fn quiet(&self) -> String {
        self.finding()
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn verdict(&self) -> Result<()> {
        if let Some(words) = &self.prompt {
            let message = format!("the models read the text differently: {words}");
            return Err(Error::failed(message)
                .hint("compare the tokenizers with `apr tokenizer SUSPECT --check REFERENCE`"));
        }
        if let Some(first) = &self.first {
            let place = escape(&first.result, 80);
            let message = format!("the models depart: first in `{}` for {place}", first.operation);
            let hint = match &first.tensor {
                Some(tensor) => format!(
                    "run `apr diff SUSPECT REFERENCE` to compare `{}` and all other tensors",
                    escape(tensor, 120)
                ),
                None => "run `apr diff SUSPECT REFERENCE` to compare what both state".to_owned(),
            };
            return Err(Error::failed(message).hint(hint));
        }
        if let Some(first) = self.unseen.first() {
            let message =
                format!("parameters differ, although no result does by more than {}: {first}", self.bound);
            return Err(Error::failed(message)
                .hint("specify a longer text with -f FILE and --tokens N to see the effect"));
        }
        if self.logits.divergence.is_nan() {
            return Err(Error::failed(
                "no operation departs, but both models compute NaN or infinite values",
            )
            .hint("run `apr check REFERENCE` to find the operation that makes them"));
        }
        if self.logits.divergence > self.max_divergence {
            let message = format!(
                "the logits are more than {} nats apart, although no operation departs",
                self.max_divergence
            );
            return Err(
                Error::failed(message).hint("errors accumulated over the operations: pass a lower --bound")
            );
        }
        Ok(())
    }
}

impl Compared {
    /// The first departure, and what it looks like; empty if nothing departs.
    fn finding(&self) -> String {
        let Some(first) = &self.first else { return String::new() };
        let tensor = first.tensor.as_deref().filter(|tensor| !tensor.is_empty());
        let with = tensor.map_or_else(String::new, |tensor| format!(", with `{}`", escape(tensor, 120)));
        let result = escape(&first.result, 80);
        let looks_like = match &first.looks_like {
            Some(words) => {
                format!("{words} ({:.0} % of the difference explained)", 100.0 * first.explained)
            }
            None => "nothing that is known".to_owned(),
        };
        format!("first departure: `{}` for {result}{with}\nlooks like: {looks_like}\n", first.operation)
    }

    fn figures(&self) -> Vec<[String; 2]> {
        let logits = &self.logits;
        let same = format!("{} of {}", logits.same, self.tokens);
        let mut lines = vec![
            ["logits".to_owned(), String::new()],
            ["same most probable token".to_owned(), same],
            ["smallest cosine".to_owned(), format!("{:.8}", logits.cosine)],
            ["mean divergence".to_owned(), few(logits.divergence)],
            ["largest divergence".to_owned(), few(logits.worst_divergence)],
        ];
        if let (Some(suspect), Some(reference)) = (logits.perplexity, logits.reference_perplexity) {
            lines.push(["perplexity".to_owned(), format!("{suspect:.4}")]);
            lines.push(["perplexity of the reference".to_owned(), format!("{reference:.4}")]);
        }
        lines
    }

    /// The first departures, one line each.
    fn departures(&self) -> Vec<[String; 6]> {
        let head = ["step", "operation", "result", "median error", "worst", "at token"].map(str::to_owned);
        let mut lines = vec![head];
        let departing = self.steps.iter().enumerate().filter(|(_, row)| row.departs);
        for (number, row) in departing.take(LISTED) {
            let figure = |value: Option<f64>| value.map_or("-".to_owned(), few);
            lines.push([
                number.to_string(),
                row.operation.clone(),
                escape(&row.result, 60),
                figure(row.median),
                figure(row.worst),
                row.worst_token.map_or("-".to_owned(), |token| token.to_string()),
            ]);
        }
        lines
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.text { "a text" } else { "a pseudo-random sequence" };
        writeln!(
            f,
            "{} ({} {}) against {} ({} {}), {} of {kind}\n",
            escape(&self.suspect.path, 200),
            escape(&self.suspect.architecture, 40),
            self.suspect.dtype,
            escape(&self.reference.path, 200),
            escape(&self.reference.architecture, 40),
            self.reference.dtype,
            n_of(self.tokens, "token")
        )?;
        if let Some(words) = &self.prompt {
            writeln!(f, "prompt: {words}; both were given the reference's tokens\n")?;
        }
        writeln!(f, "{}", aligned(&self.figures()))?;
        let count = self.steps.iter().filter(|row| row.departs).count();
        match &self.first {
            None => writeln!(
                f,
                "no operation departs: each of {} gives what the reference's gives on the same input, within {}",
                self.steps.len(),
                self.bound
            )?,
            Some(_) => {
                writeln!(f, "{}", aligned(&self.departures()))?;
                if count > LISTED {
                    writeln!(f, "and {} (all with --json)\n", n_of(count - LISTED, "more departure"))?;
                }
                f.write_str(&self.finding())?;
                if self.harmless {
                    writeln!(f, "harmless: the logits are the same")?;
                }
            }
        }
        for words in &self.unseen {
            writeln!(f, "differs without an effect above {}: {words}", self.bound)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_compared_in_words() {
        let differ = |a: &[u32], b: &[u32]| prompts_differ(&[Some(a.to_vec()), Some(b.to_vec())]);
        assert_eq!(differ(&[2, 7, 8], &[2, 7, 8]), None);
        assert!(differ(&[7, 8], &[2, 7, 8]).unwrap().contains("begins a text, 2, is missing"));
        assert!(differ(&[2, 2, 7], &[2, 7]).unwrap().contains("is there twice"));
        assert!(differ(&[1, 7], &[7]).unwrap().contains("does not have, 1"));
        assert!(differ(&[2, 7, 9], &[2, 7, 8]).unwrap().contains("from number 3 on: 9 instead of 8"));
        assert_eq!(prompts_differ(&[None, Some(vec![1])]), None);
    }
}
