//! `apr man`: where are the manual pages?

use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::parser;
use apr_host::destination::output_file::OutputFile;
use apr_sdk::{Error, Result};
use clap_mangen::Man;
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::path::{Path, PathBuf};

/// Write man pages into a folder, one per command
///
/// Examples:
///   apr man ~/.local/share/man/man1
///   apr man . && man ./apr-convert.1
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Output folder; created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Replace existing pages
    #[arg(short, long)]
    force: bool,
}

/// The files written. JSON: `files`.
#[derive(Debug, Serialize)]
pub struct Pages {
    files: Vec<String>,
}

/// Generates the pages from the parser's own definitions.
///
/// # Errors
/// Io if the folder cannot be written, or a page exists and `--force` was not given.
pub fn run(args: &Args, context: &Context) -> Result<Pages> {
    std::fs::create_dir_all(&args.folder).map_err(|error| cannot_write(&args.folder, &error))?;
    let mut command = parser::command().disable_help_subcommand(true);
    command.build();
    let mut pages = vec![page(&args.folder, &command, "apr")?];
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = format!("apr-{}", verb.get_name());
        pages.push(page(&args.folder, verb, &name)?);
        for action in verb.get_subcommands().filter(|action| !action.is_hide_set()) {
            pages.push(page(&args.folder, action, &format!("{name}-{}", action.get_name()))?);
        }
    }
    let inputs = context.inputs(&context.registry());
    let files: Vec<_> = pages.iter().map(|(path, _)| OutputFile::new(path, "page", args.force)).collect();
    // None is written if another one must not be.
    files.iter().try_for_each(|file| file.check(&inputs))?;
    files.into_iter().zip(&pages).try_for_each(|(file, (_, text))| file.write(text))?;
    Ok(Pages { files: pages.iter().map(|(path, _)| path.display().to_string()).collect() })
}

/// The page of a command, and its path.
fn page(folder: &Path, command: &clap::Command, name: &str) -> Result<(PathBuf, Vec<u8>)> {
    let mut page = Vec::new();
    let path = folder.join(format!("{name}.1"));
    // No date: the same program writes the same page on every day.
    let man = Man::new(command.clone().name(name.to_owned()))
        .date("")
        .source(format!("apr {}", env!("CARGO_PKG_VERSION")));
    man.render(&mut page).map_err(|error| cannot_write(&path, &error))?;
    Ok((path, page))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    Error::io(format!("cannot write: {error}")).in_file(path.display().to_string())
}

impl Report for Pages {
    fn json(&self) -> Result<Json> {
        with_schema("apr.man/1", self)
    }

    fn quiet(&self) -> String {
        String::new()
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.iter().try_for_each(|file| writeln!(f, "wrote {file}"))
    }
}
