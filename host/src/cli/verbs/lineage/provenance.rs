//! `apr provenance`: where a model came from, as its file records it.

use crate::cli::context::Context;
use crate::cli::flags::open_args::{OpenArgs, host_and_model};
use crate::cli::output::verb_report::{Report, with_schema};
use apr_engine::open::OpenedModel;
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::fmt;
use std::path::PathBuf;

/// Show where a model came from
///
/// APR files record the inputs of the conversion that made them (sizes and CRC-32
/// of their weights), its options, and the versions of apr and of the plugins; for
/// a model of the Hugging Face hub also commit and licence; and the records of the
/// APR files it was made from. Nothing else is recorded: no path, no date, no name
/// of a machine. Exit 5 if the file has no record.
///
/// Examples:
///   apr provenance model.apr
///   apr provenance model.apr --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How the model is opened.
    #[command(flatten)]
    pub open: OpenArgs,
}

/// The record. JSON: `file`, `format`, and `provenance` as the file has it, or `null`.
#[derive(Debug, Serialize)]
pub struct Recorded {
    file: String,
    format: String,
    provenance: Option<Json>,
    #[serde(skip)]
    warnings: Vec<String>,
}

/// Opens the model and reads its record.
///
/// # Errors
/// What opening raised; Malformed for a record that is not JSON. That there is none is the report's verdict.
pub fn run(args: &Args, context: &Context) -> Result<Recorded> {
    let (_, opened) = host_and_model(&args.open.shown(false), &args.file, context)?;
    let file = args.file.display().to_string();
    let provenance = record_of(&opened)?;
    Ok(Recorded { file, format: opened.format, provenance, warnings: opened.warnings })
}

/// The record of where a model came from, if it has one.
///
/// # Errors
/// Any error from reading; Malformed for a record that is not JSON.
pub fn record_of(opened: &OpenedModel) -> Result<Option<Json>> {
    let Some(bytes) = &opened.model.provenance else { return Ok(None) };
    let held = opened.fetch(bytes)?;
    let record = serde_json::from_slice(held.inline().unwrap_or_default());
    let file = opened.path.display().to_string();
    record.map(Some).map_err(|e| {
        let error =
            Error::malformed(format!("the record of where it came from cannot be read: {e}")).in_file(file);
        error.hint("it was not written by apr; `apr inspect --metadata` shows what else the file says")
    })
}

impl Report for Recorded {
    fn json(&self) -> Result<Json> {
        with_schema("apr.provenance/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn verdict(&self) -> Result<()> {
        if self.provenance.is_some() {
            return Ok(());
        }
        let error = Error::failed("the file does not record where the model came from").in_file(&self.file);
        Err(error.hint("APR files that `apr convert` writes do"))
    }
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(record) = &self.provenance else { return Ok(()) };
        match record {
            Json::Object(record) => show(f, record, 0),
            other => writeln!(f, "{}", escape(&other.to_string(), 1000)),
        }
    }
}

/// Writes an object a key a line, objects inside it indented.
fn show(f: &mut fmt::Formatter<'_>, record: &Map<String, Json>, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    for (key, value) in record {
        let key = escape(key, 80);
        match value {
            Json::Object(inner) if depth < 4 => {
                writeln!(f, "{indent}{key}")?;
                show(f, inner, depth + 1)?;
            }
            Json::Array(items) if depth < 4 && items.iter().all(Json::is_object) => {
                for (number, item) in items.iter().filter_map(Json::as_object).enumerate() {
                    writeln!(f, "{indent}{key} {}", number + 1)?;
                    show(f, item, depth + 1)?;
                }
            }
            Json::String(text) => writeln!(f, "{indent}{key:14} {}", escape(text, 400))?,
            other => writeln!(f, "{indent}{key:14} {}", escape(&other.to_string(), 400))?,
        }
    }
    Ok(())
}
