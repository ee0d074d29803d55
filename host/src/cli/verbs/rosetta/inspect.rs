//! `apr rosetta inspect`: what could this model become, and what would it lose?

use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, with_schema};
use apr_host::rosetta::prospects::{Prospects, prospects};
use apr_host::sizes::show_size;
use apr_sdk::{Result, escape};
use serde_json::Value as Json;
use std::fmt;
use std::path::PathBuf;

/// Show which formats a model can be converted to, and what each would lose
///
/// Plans the conversion to every writable format, without writing anything.
///
/// Examples:
///   apr rosetta inspect model.gguf
///   apr rosetta inspect model.safetensors --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// The targets. JSON: `input`, `format`, `tensors`, `targets` (each `to`, `possible`, `needs_arch_none`, `bytes`, `notes`,
/// `refused`).
#[derive(Debug)]
pub struct Inspected(Prospects);

/// Opens the model and plans.
///
/// # Errors
/// What opening raised.
pub fn run(args: &Args, context: &Context) -> Result<Inspected> {
    prospects(&context.host(), &args.file).map(Inspected)
}

impl Report for Inspected {
    fn json(&self) -> Result<Json> {
        with_schema("apr.rosetta.inspect/1", &self.0)
    }

    fn quiet(&self) -> String {
        self.0
            .targets
            .iter()
            .filter(|target| target.possible)
            .map(|target| format!("{}\n", target.to))
            .collect()
    }
}

impl fmt::Display for Inspected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Prospects { input, format, tensors, targets } = &self.0;
        writeln!(f, "{} ({format}), {tensors} tensors", escape(input, 400))?;
        let width = targets.iter().map(|target| target.to.len()).max().unwrap_or(0);
        for target in targets {
            let name = &target.to;
            if let Some(why) = &target.refused {
                writeln!(f, "  {name:width$}  no: {}", escape(why, 400))?;
                continue;
            }
            let size = target.bytes.map(show_size).unwrap_or_default();
            let with = if target.needs_arch_none { ", with --arch none" } else { "" };
            writeln!(f, "  {name:width$}  {size}{with}")?;
            for note in &target.notes {
                writeln!(f, "  {:width$}    {}", "", escape(note, 400))?;
            }
        }
        Ok(())
    }
}
