//! The output of `apr check MODEL`.

use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::verbs::kernels::rows::aligned;
use apr_engine::wording::n_of;
use apr_host::running::Facts;
use apr_inference::stages::{Stage, Verdict, counts};
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;

/// The tokens that ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Their number.
    pub(super) tokens: usize,
    /// True if they are those of a text.
    pub(super) of_text: bool,
}

/// The verdicts. JSON: `architecture`, `type`, `backend`, `device`, `tokens` (the number that ran), `text` (false if they
/// follow no pattern), `passed`, `stages_present`, and `stages`: each with `number`, `name`, `explanation`, `verdict`
/// (`passed`, `failed`, `not_applicable`, `not_judged`), `figure` (`name`, `value`, `place`; null if nothing was measured) and
/// `remarks`. A figure that is infinite or no number is null.
#[derive(Debug, Serialize)]
pub struct Checked {
    architecture: String,
    #[serde(rename = "type")]
    dtype: String,
    backend: String,
    device: String,
    tokens: usize,
    text: bool,
    passed: usize,
    stages_present: usize,
    stages: Vec<Row>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    number: usize,
    name: &'static str,
    explanation: &'static str,
    verdict: &'static str,
    figure: Option<Figure>,
    remarks: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Figure {
    name: &'static str,
    value: f64,
    place: String,
}

impl Checked {
    pub(super) fn new(facts: &Facts, stages: Vec<Stage>, seen: Seen, warnings: Vec<String>) -> Checked {
        let (passed, stages_present) = counts(&stages);
        Checked {
            architecture: facts.architecture.clone(),
            dtype: facts.dtype.to_string(),
            backend: facts.backend.clone(),
            device: facts.device.clone(),
            tokens: seen.tokens,
            text: seen.of_text,
            passed,
            stages_present,
            stages: stages.into_iter().map(row).collect(),
            warnings,
        }
    }

    /// `8/8 STAGES PASSED (2 not applicable)`.
    fn summary(&self) -> String {
        let absent = self.stages.len() - self.stages_present;
        let tail = if absent > 0 { format!(" ({absent} not applicable)") } else { String::new() };
        format!("{}/{} STAGES PASSED{tail}", self.passed, self.stages_present)
    }
}

fn row(stage: Stage) -> Row {
    Row {
        number: stage.number,
        name: stage.name,
        explanation: stage.explanation,
        verdict: match stage.verdict {
            Verdict::Passed => "passed",
            Verdict::Failed => "failed",
            Verdict::NotApplicable => "not_applicable",
            Verdict::NotJudged => "not_judged",
        },
        figure: stage.figure.map(|figure| Figure {
            name: figure.name,
            value: figure.value,
            place: figure.place,
        }),
        remarks: stage.remarks,
    }
}

impl Report for Checked {
    fn json(&self) -> Result<Json> {
        with_schema("apr.check.stages/1", self)
    }

    fn quiet(&self) -> String {
        format!("{}\n", self.summary())
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn verdict(&self) -> Result<()> {
        let mut failed = self.stages.iter().filter(|row| row.verdict == "failed");
        let Some(first) = failed.next() else {
            let unjudged = self.stages.iter().find(|row| row.verdict == "not_judged");
            return unjudged.map_or(Ok(()), |row| {
                Err(Error::failed(format!("stage {} ({}) could not be judged", row.number, row.name)))
            });
        };
        let more = failed.count();
        let others = if more > 0 { format!(", and {more} more") } else { String::new() };
        let message = format!("stage {} ({}) failed{others}", first.number, first.name);
        Err(Error::failed(message).hint(
            "run `apr check MODEL ORIGINAL` to find the first operation that departs from the original, or \
             `apr tensors MODEL --stats` to look for damaged weights",
        ))
    }
}

/// A figure in few digits.
fn few(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        0.01..1e6 if value.fract() == 0.0 => format!("{value}"),
        0.01..1e4 => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.text { "a text" } else { "a pseudo-random sequence" };
        writeln!(
            f,
            "{} {} on {}, {} of {kind}\n",
            escape(&self.architecture, 40),
            self.dtype,
            escape(&self.backend, 40),
            n_of(self.tokens, "token")
        )?;
        let head = ["#", "stage", "what happens", "verdict", "figure", "value", "where"];
        let mut lines = vec![head.map(str::to_owned)];
        for row in &self.stages {
            let verdict = match row.verdict {
                "passed" => "passed",
                "failed" => "FAILED",
                "not_applicable" => "not applicable",
                _ => "not judged",
            };
            let (name, value, place) = match &row.figure {
                Some(figure) => (figure.name, few(figure.value), escape(&figure.place, 60)),
                None => ("-", "-".to_owned(), String::new()),
            };
            lines.push([
                row.number.to_string(),
                row.name.to_owned(),
                row.explanation.to_owned(),
                verdict.to_owned(),
                name.to_owned(),
                value,
                place,
            ]);
        }
        writeln!(f, "{}", aligned(&lines))?;
        for row in &self.stages {
            for remark in &row.remarks {
                writeln!(f, "{} {}: {remark}", row.number, row.name)?;
            }
        }
        if self.stages.iter().any(|row| !row.remarks.is_empty()) {
            writeln!(f)?;
        }
        writeln!(f, "{}", self.summary())
    }
}
