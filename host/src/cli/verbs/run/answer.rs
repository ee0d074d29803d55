//! The report of `apr run`: the text has been printed by then.

use super::Asked;
use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::verbs::kernels::floor::read_floor;
use crate::cli::verbs::running::args::Bound;
use crate::cli::verbs::running::signs::in_words;
use crate::cli::verbs::running::summary::{Summary, said_of, word_of};
use apr_inference::generation::Answer;
use apr_inference::sampling::Sampler;
use apr_sdk::Result;
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;

/// An answer. JSON: `text`, null with `--ids`; `end`: `end_of_text`, `stop`, `max_tokens` or `context`; `ids` of the text; the `seed`, with
/// which the answer can be had again; `prompt_tokens`, and how many of them were `known_tokens` from before; `tokens` of the
/// answer; `seconds_to_load`, `seconds_to_first_token`; `prompt_tokens_per_second` and `tokens_per_second`, the first token
/// not counted; `bytes_per_second`, the weights read while decoding. A figure that was not measured is null.
#[derive(Debug, Serialize)]
pub struct Answered {
    text: Option<String>,
    end: &'static str,
    ids: Vec<u32>,
    seed: u64,
    #[serde(flatten)]
    summary: Summary,
    warnings: Vec<String>,
    /// A trace that is printed instead of the answer.
    #[serde(skip)]
    printed: Option<String>,
}

impl Answered {
    /// Prints a text in the place of the answer.
    pub(super) fn print(&mut self, text: String) {
        self.printed = Some(text);
    }
}

/// The report of an answer; with `-v` its figures are told.
///
/// # Errors
/// As [`read_floor`].
pub(super) fn report(
    asked: &Asked<'_>,
    n_context: u32,
    bound: Bound,
    answer: Answer,
    sampler: &Sampler,
) -> Result<Answered> {
    let Asked { args, context, host, facts, time, tokens, .. } = asked;
    let summary = Summary::of(&answer.timings, *time, facts.bytes_per_token);
    if context.terminal.verbose > 0 {
        // That of the host's memory says nothing about a device with memory of its own.
        let is_measured = summary.reads_memory() && !facts.own_memory;
        let floor = is_measured.then(|| read_floor(host)).transpose()?;
        summary.lines(floor).iter().for_each(|line| context.terminal.note(line));
        context.terminal.note(&format!("seed {}", sampler.settings().seed));
    }
    let greedy = sampler.settings().temperature == 0.0;
    let signs = answer.signs.iter().map(|sign| in_words(*sign, *tokens, &args.file, greedy));
    let mut warnings: Vec<String> = said_of(&answer, n_context, bound).into_iter().chain(signs).collect();
    if context.terminal.json {
        warnings.splice(0..0, facts.warnings.iter().cloned());
    }
    Ok(Answered {
        end: word_of(&answer.end),
        text: tokens.map(|_| answer.text),
        ids: answer.ids,
        seed: sampler.settings().seed,
        summary,
        warnings,
        printed: None,
    })
}

impl Report for Answered {
    fn json(&self) -> Result<Json> {
        with_schema("apr.run/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn exact(&self) -> Option<&str> {
        self.printed.as_deref()
    }
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.printed.as_deref().unwrap_or_default())
    }
}
