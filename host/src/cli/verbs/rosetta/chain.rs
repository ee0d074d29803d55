//! `apr rosetta chain`: what does a model lose on its way through several formats?

use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::verbs::rosetta::verify::{line, parse_tolerance, verdict};
use apr_host::rosetta::hops::{Chain, ChainOptions, chain};
use apr_host::rosetta::plot::growth;
use apr_host::sizes::show_size;
use apr_sdk::{Result, escape};
use serde_json::Value as Json;
use std::fmt;
use std::path::PathBuf;

/// Convert a model through several formats and compare it after every hop
///
/// Each result is compared with the original model, as `apr rosetta verify`
/// does. Names stay unchanged (--arch none).
///
/// Examples:
///   apr rosetta chain model.gguf --via apr,safetensors,gguf
///   apr rosetta chain model.safetensors --via gguf,apr --keep hops
#[derive(Debug, clap::Args)]
// The plot has the same arguments, and a group of this name of its own.
#[group(skip)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The model
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The formats, in order
    #[arg(long, value_name = "IDS", value_delimiter = ',', required = true)]
    via: Vec<String>,
    /// Allow values to be off by ABS
    #[arg(long, value_name = "ABS", value_parser = parse_tolerance, allow_negative_numbers = true)]
    tolerance: Option<f64>,
    /// Keep all files in DIR, which must be empty
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

impl Args {
    /// Carries the chain out.
    ///
    /// # Errors
    /// What a hop raised.
    pub fn carry_out(&self, context: &Context) -> Result<Chain> {
        let options = ChainOptions {
            input: self.file.clone(),
            via: self.via.clone(),
            tolerance: self.tolerance,
            keep: self.keep.clone(),
        };
        chain(&context.host(), &options)
    }
}

/// The hops. JSON: `input`, `from`, `hops` (each `to`, `bytes`, `identical`, `tensors`, `max_abs_diff`, `findings`,
/// `notes`), `growth` (`exponent`, `verdict`).
#[derive(Debug)]
pub struct Chained(pub Chain);

/// Carries the chain out.
///
/// # Errors
/// What a hop raised; a difference is the report's verdict.
pub fn run(args: &Args, context: &Context) -> Result<Chained> {
    args.carry_out(context).map(Chained)
}

impl Report for Chained {
    fn json(&self) -> Result<Json> {
        with_schema("apr.rosetta.chain/1", &self.0)
    }

    fn quiet(&self) -> String {
        String::new()
    }

    fn verdict(&self) -> Result<()> {
        let findings = self.0.hops.iter().find(|hop| !hop.findings.is_empty());
        findings.map_or(Ok(()), |hop| verdict(&hop.findings, &self.0.input))
    }
}

impl fmt::Display for Chained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({})", escape(&self.0.input, 400), self.0.from)?;
        let width = self.0.hops.iter().map(|hop| hop.to.len()).max().unwrap_or(0);
        for (number, hop) in self.0.hops.iter().enumerate() {
            let size = show_size(hop.bytes);
            write!(f, "{:3} {:width$}  {size}, {} of ", number + 1, hop.to, hop.identical)?;
            writeln!(f, "{} tensors identical, error {:e}", hop.tensors, hop.max_abs_diff)?;
            hop.notes.iter().try_for_each(|note| writeln!(f, "      note: {}", escape(note, 400)))?;
            hop.findings.iter().try_for_each(|finding| writeln!(f, "      {}", line(finding)))?;
        }
        writeln!(f, "{}", growth(self.0.growth))
    }
}
