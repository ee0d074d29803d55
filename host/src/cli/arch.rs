//! `apr arch`: which architectures are known, and what does a table say?

use crate::cli::context::Context;
use crate::cli::report::{Report, boxed, with_schema};
use apr_host::architecture::{Table, Tables};
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;

/// List architectures, and show what the table of one says
///
/// A table says what tensors and keys of an architecture are called in each
/// dialect (hf, gguf, canonical), and how rows lie there. A table is a TOML file:
/// put your own into a plugin folder, and it counts.
///
/// Examples:
///   apr arch list
///   apr arch show llama
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the architectures that have a table
    List,
    /// Print a table as it is written
    Show {
        /// The architecture's id
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Draft a table from a model (planned)
    #[command(hide = true)]
    Draft,
    /// Check a table (planned)
    #[command(hide = true)]
    Check,
}

/// Runs the action.
///
/// # Errors
/// InvalidArgument for an id without a table; what parsing tables raises; Unsupported for what is planned.
pub fn run(args: &Args, context: &Context) -> Result<Box<dyn Report>> {
    let registry = context.registry();
    match &args.action {
        Action::List => {
            let tables = Tables::load(&registry)?;
            Ok(boxed(Architectures { architectures: tables.all().map(Row::new).collect() }))
        }
        Action::Show { id } => Ok(boxed(Text { id: id.clone(), table: registry.architecture(id)? })),
        Action::Draft => Err(Error::unsupported("`apr arch draft` is planned")),
        Action::Check => Err(Error::unsupported("`apr arch check` is planned")),
    }
}

/// The architectures. JSON: `architectures`, each with the fields of [`Row`].
#[derive(Debug, Serialize)]
struct Architectures {
    architectures: Vec<Row>,
}

/// One architecture.
#[derive(Debug, Serialize)]
struct Row {
    /// Its id.
    id: String,
    /// Its name for people.
    name: String,
    /// How its rotary embedding turns pairs in GGUF: `norm`, `neox` or `none`.
    rope: String,
    /// The dialects that its table knows besides its own.
    dialects: Vec<String>,
    /// Where the table's facts come from.
    sources: Vec<String>,
}

impl Row {
    fn new(table: &Table) -> Row {
        Row {
            id: table.id.clone(),
            name: table.name.clone(),
            rope: table.rope.clone(),
            dialects: table.dialects.iter().map(|dialect| dialect.id.clone()).collect(),
            sources: table.sources.clone(),
        }
    }
}

impl Report for Architectures {
    fn json(&self) -> Result<Json> {
        with_schema("apr.arch.list/1", self)
    }

    fn quiet(&self) -> String {
        self.architectures.iter().map(|row| format!("{}\n", row.id)).collect()
    }
}

impl fmt::Display for Architectures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.architectures.is_empty() {
            return writeln!(f, "no plugin has a table: `apr plugins list` shows what was found");
        }
        let width = self.architectures.iter().map(|row| row.id.len()).max().unwrap_or(0);
        for row in &self.architectures {
            let (name, dialects) = (escape(&row.name, 60), row.dialects.join(", "));
            writeln!(f, "{:width$}  {:5}  {dialects:10}  {name}", row.id, row.rope)?;
        }
        Ok(())
    }
}

/// A table's text. JSON: `id` and `table`.
#[derive(Debug, Serialize)]
struct Text {
    id: String,
    table: String,
}

impl Report for Text {
    fn json(&self) -> Result<Json> {
        with_schema("apr.arch.show/1", self)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table)
    }
}
