//! `apr rosetta list`: which pairs of formats are there, and what does each lose?

use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, with_schema};
use apr_host::rosetta::losses::{Pairs, pairs};
use apr_sdk::Result;
use serde_json::Value as Json;
use std::fmt;

/// List the pairs of formats that the available plugins can convert
///
/// For each pair: what the target refuses of what the source can hold, and
/// what it loses. `apr rosetta inspect FILE` shows it for one model.
///
/// Examples:
///   apr rosetta list
///   apr rosetta list --formats gguf,apr --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Only these formats, by id
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    formats: Vec<String>,
}

/// The pairs. JSON: `formats` (each `id`, `reads`, `writes`), `pairs` (each `from`, `to`, `refuses`, `loses`).
#[derive(Debug)]
pub struct Listed(Pairs);

/// Lists the pairs.
///
/// # Errors
/// InvalidArgument for a format that is not present.
pub fn run(args: &Args, context: &Context) -> Result<Listed> {
    let registry = context.registry();
    args.formats.iter().try_for_each(|id| registry.format(id).map(drop))?;
    let mut pairs = pairs(&registry);
    if !args.formats.is_empty() {
        pairs.formats.retain(|format| args.formats.contains(&format.id));
        pairs.pairs.retain(|pair| args.formats.contains(&pair.from) && args.formats.contains(&pair.to));
    }
    Ok(Listed(pairs))
}

impl Report for Listed {
    fn json(&self) -> Result<Json> {
        with_schema("apr.rosetta.list/1", &self.0)
    }

    fn quiet(&self) -> String {
        self.0.pairs.iter().map(|pair| format!("{} {}\n", pair.from, pair.to)).collect()
    }
}

fn or_nothing(words: &[String]) -> String {
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.formats.iter().map(|format| format.id.len()).max().unwrap_or(0);
        for pair in &self.0.pairs {
            let refuses = or_nothing(&pair.refuses.words());
            let loses = or_nothing(&pair.loses);
            writeln!(f, "{:width$} -> {:width$}  refuses {refuses}; loses {loses}", pair.from, pair.to)?;
        }
        for format in self.0.formats.iter().filter(|format| !format.reads || !format.writes) {
            let only = if format.reads { "read" } else { "written" };
            writeln!(f, "`{}` can only be {only}", format.id)?;
        }
        let both = self.0.pairs.len();
        writeln!(f, "{both} pairs of {} formats", self.0.formats.len())
    }
}
