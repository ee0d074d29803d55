//! `apr plugins remove`: how does an installed plugin go?

use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::verbs::plugins::install::no_data_folder;
use crate::cli::verbs::plugins::tier_word;
use apr_engine::registry::TABLE_PREFIX;
use apr_host::plugins::{Lock, file_name, table_name};
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::io::ErrorKind;

/// Remove an installed plugin
///
/// Only removes what `apr plugins install` put into your data folder.
///
/// Examples:
///   apr plugins remove toy
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Plugin id
    #[arg(value_name = "ID")]
    id: String,
}

/// The plugin that was removed. JSON: `id`, `path`, `pinned` (whether the lock file had it).
#[derive(Debug, Serialize)]
pub struct Removed {
    id: String,
    path: String,
    pinned: bool,
}

/// Removes the library.
///
/// # Errors
/// InvalidArgument for an id that is not installed; Io if the file cannot be removed.
pub fn run(args: &Args, context: &Context) -> Result<Removed> {
    let given = &args.id;
    // A table's id has more letters than a library's; neither leads out of the folder.
    let fits = given.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    if given.is_empty() || given.starts_with('.') || !fits {
        return Err(Error::invalid_argument(format!("`{}` is not a plugin id", escape(given, 80)))
            .hint("run `apr plugins list -q` to list the ids"));
    }
    let folder = context.discover_options().user.ok_or_else(no_data_folder)?;
    let id_of_table = format!("{TABLE_PREFIX}{given}");
    let candidates = [
        (given, folder.join(table_name(given))),
        (given, folder.join(file_name(given))),
        (&id_of_table, folder.join(table_name(&id_of_table))),
    ];
    let Some((id, path)) = candidates.into_iter().find(|(_, path)| path.exists()) else {
        return Err(not_installed(given, context));
    };
    match std::fs::remove_file(&path) {
        Ok(()) => {
            let pinned = forget(context, id)?;
            Ok(Removed { id: given.clone(), path: path.display().to_string(), pinned })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Err(not_installed(given, context)),
        Err(error) => {
            Err(Error::io(format!("cannot remove the plugin: {error}")).in_file(path.display().to_string()))
        }
    }
}

/// Takes the plugin out of the lock file: what is gone need not keep another build out.
fn forget(context: &Context, id: &str) -> Result<bool> {
    let Some(path) = context.discover_options().lock else { return Ok(false) };
    let mut lock = Lock::read(&path)?;
    let pinned = lock.forget(id);
    if pinned {
        lock.write(&path)?;
    }
    Ok(pinned)
}

fn not_installed(id: &str, context: &Context) -> Error {
    let registry = context.registry();
    let error = Error::invalid_argument(format!("plugin `{id}` is not installed in your data folder"));
    let elsewhere = registry.plugins().iter().find(|p| p.shown_id() == Some(id));
    match elsewhere {
        Some(plugin) => {
            let place =
                plugin.path.as_ref().map_or("built into apr".to_owned(), |path| path.display().to_string());
            error.hint(format!(
                "it is in another location ({}, {place}), where apr does not remove files",
                tier_word(plugin.origin.tier())
            ))
        }
        None => error.hint("run `apr plugins list` to see what is available"),
    }
}

impl Report for Removed {
    fn json(&self) -> Result<Json> {
        with_schema("apr.plugins.remove/1", self)
    }

    fn quiet(&self) -> String {
        String::new()
    }
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "removed {}: {}", self.id, self.path)?;
        if self.pinned { writeln!(f, "it is no longer pinned") } else { Ok(()) }
    }
}
