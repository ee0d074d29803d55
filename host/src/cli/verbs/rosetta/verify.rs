//! `apr rosetta verify`: is this result what its source says it should be?

use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, with_schema};
use apr_engine::open::{OpenOptions, OpenedModel, open};
use apr_engine::packed::Packed;
use apr_engine::rosetta::compare::{Comparison, FactPair, Finding, compare};
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::path::PathBuf;

/// Check that a converted model agrees with its source
///
/// Reports each of these: NaN or infinity where the source has none, a different
/// shape, an extra or missing tensor, different bytes, a different vocabulary,
/// tokenizer, architecture, hidden size or layer count, another graph where the
/// format has one, and values off by more than the tolerance. Each has a code
/// for `apr explain`; exit 5. Facts that only one of the two models states are
/// listed and not compared. `apr diff` compares everything else. A folder and
/// the GGUF converted from it are compared with the names and rows of one of
/// them, if a table translates them; values rounded to the nearest of a narrower
/// float are then no finding. Packed weights are compared as they are stored, or
/// by their values if the other model is not packed.
///
/// Examples:
///   apr rosetta verify model.gguf model.apr
///   apr rosetta verify f32.safetensors f16.safetensors --tolerance 0.001
///   apr explain ROSETTA-NAN-001
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The model that was converted
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// The model converted from it
    #[arg(value_name = "RESULT")]
    result: PathBuf,
    /// Allow values to be off by ABS; without it, bytes must be equal, and values where the type changed
    #[arg(long, value_name = "ABS", value_parser = parse_tolerance, allow_negative_numbers = true)]
    tolerance: Option<f64>,
}

/// A tolerance, from its text.
///
/// # Errors
/// A sentence saying what one is.
pub fn parse_tolerance(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("expected a tolerance: a number that is not negative".to_owned()),
    }
}

/// The verdict. JSON: `source`, `result`, `tolerance`, `findings` (each `code`, `tensor`, `message`), `tensors`,
/// `identical`, `rounded`, `notes`, `max_abs_diff` (null if a value is not finite on one side only), `worst`, `facts`.
#[derive(Debug, Serialize)]
pub struct Verified {
    source: String,
    result: String,
    tolerance: Option<f64>,
    #[serde(flatten)]
    comparison: Comparison,
    #[serde(skip)]
    warnings: Vec<String>,
}

/// Opens both and compares them.
///
/// # Errors
/// What opening, reading and comparing raised; a difference is the report's verdict.
pub fn run(args: &Args, context: &Context) -> Result<Verified> {
    let host = context.host();
    let mut source = open(&host, &args.source, &OpenOptions::default())?;
    let mut result = open(&host, &args.result, &OpenOptions::default())?;
    // Codes have nothing in common with values: where one model alone is packed, it is compared by its own values.
    let is_packed = |model: &OpenedModel| Packed::of(model).is_some();
    match (is_packed(&source), is_packed(&result)) {
        (true, false) => source.unpack(&host)?,
        (false, true) => result.unpack(&host)?,
        _ => false,
    };
    Ok(Verified {
        source: args.source.display().to_string(),
        result: args.result.display().to_string(),
        tolerance: args.tolerance,
        comparison: compare(&host, &source, &result, args.tolerance)?,
        warnings: source.warnings.iter().chain(&result.warnings).cloned().collect(),
    })
}

/// The verdict on findings: the first one, with its code.
///
/// # Errors
/// Failed.
pub fn verdict(findings: &[Finding], file: &str) -> Result<()> {
    let Some(first) = findings.first() else { return Ok(()) };
    let more = if findings.len() > 1 { format!(" (and {} more)", findings.len() - 1) } else { String::new() };
    let mut error = Error::failed(format!("{}{more}", first.message)).code(first.code).in_file(file);
    if let Some(tensor) = &first.tensor {
        error = error.tensor(tensor);
    }
    Err(error.hint(format!("run `apr explain {}`", first.code)))
}

/// One finding on one line.
pub fn line(finding: &Finding) -> String {
    let tensor = finding.tensor.as_ref().map(|name| format!("{}: ", escape(name, 120))).unwrap_or_default();
    format!("{}  {tensor}{}", finding.code, escape(&finding.message, 600))
}

impl Report for Verified {
    fn json(&self) -> Result<Json> {
        with_schema("apr.rosetta.verify/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn quiet(&self) -> String {
        String::new()
    }

    fn verdict(&self) -> Result<()> {
        verdict(&self.comparison.findings, &self.result)
    }
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comparison = &self.comparison;
        comparison.findings.iter().try_for_each(|finding| writeln!(f, "{}", line(finding)))?;
        comparison.facts.iter().try_for_each(|fact| fact_line(f, fact))?;
        let same = comparison.identical;
        let all = comparison.tensors;
        let worst =
            comparison.worst.as_ref().map(|name| format!(" in {}", escape(name, 120))).unwrap_or_default();
        let off = comparison.max_abs_diff;
        comparison.notes.iter().try_for_each(|note| writeln!(f, "note: {}", escape(note, 400)))?;
        let rounded = match comparison.rounded {
            0 => String::new(),
            n => format!(", {n} rounded to the nearest value of a narrower type"),
        };
        writeln!(f, "{same} of {all} tensors identical{rounded}, max difference {off:e}{worst}")
    }
}

fn fact_line(f: &mut fmt::Formatter<'_>, fact: &FactPair) -> fmt::Result {
    let [source, result] = [&fact.source, &fact.result]
        .map(|stated| stated.as_ref().map(|s| format!("{} ({})", escape(&s.value, 80), escape(&s.key, 120))));
    match (source, result) {
        (Some(a), Some(b)) if fact.agrees() => writeln!(f, "{}: {a}, as in {b}", fact.name),
        (Some(_), Some(_)) => Ok(()),
        (a, b) => {
            let side = if a.is_some() { "source" } else { "result" };
            let what = a.or(b).unwrap_or_default();
            writeln!(f, "{}: not compared, only the {side} states it: {what}", fact.name)
        }
    }
}
