//! `apr arch`: which architectures are known, and what does a table say?

mod check;
mod list;
mod logits;

use crate::cli::context::Context;
use crate::cli::flags::open_args::{OpenArgs, host_and_model};
use crate::cli::output::verb_report::{Report, boxed, with_schema};
use apr_engine::architecture::draft;
use apr_sdk::Result;
use list::list;
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::path::PathBuf;

/// List, show, draft and check architecture tables
///
/// A table describes how the tensors and keys of an architecture are named in each
/// dialect (hf, gguf, canonical), and how rows are ordered there. A table is a
/// TOML file: to add your own, put it into a plugin folder.
///
/// Examples:
///   apr arch list
///   apr arch show llama
///   apr arch draft model/ > mine.toml
///   apr arch check mine.toml model/ --logits logits.npz
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the architectures that have a table: the classes that mark their models, and whether they run
    List,
    /// Print an architecture's table
    Show {
        /// Architecture id
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Draft a table for a model whose architecture has none
    Draft {
        /// Model to draft from, preferably a folder with its config.json
        #[arg(value_name = "MODEL")]
        model: PathBuf,
        /// How the model is opened.
        #[command(flatten)]
        open: OpenArgs,
    },
    Check(check::Args),
}

/// Runs the action.
///
/// # Errors
/// InvalidArgument for an id without a table; what parsing tables raises; what opening and computing models raises.
pub fn run(args: &Args, context: &Context) -> Result<Box<dyn Report>> {
    let registry = context.registry();
    match &args.action {
        Action::List => Ok(boxed(list(&registry))),
        Action::Show { id } => Ok(boxed(Text { id: id.clone(), table: registry.architecture(id)? })),
        Action::Draft { model, open } => {
            let (host, opened) = host_and_model(open, model, context)?;
            let registry = &host.registry;
            let table = draft(host.tables(), &|id| registry.architecture(id), &opened.model, &|key| {
                opened.stated(key)
            })?;
            Ok(boxed(Text { id: opened.path.display().to_string(), table }))
        }
        Action::Check(args) => check::run(args, context).map(boxed),
    }
}

/// A table's text. JSON: of `arch show` and `arch draft`: `id` (for a draft, the model's path) and `table`.
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
