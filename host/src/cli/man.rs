//! `apr man`: where are the manual pages?

use crate::cli::parser;
use crate::cli::report::{Report, with_schema};
use apr_sdk::{Error, Result};
use clap_mangen::Man;
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::io::ErrorKind;
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

/// What was written. JSON: `files`.
#[derive(Debug, Serialize)]
pub struct Pages {
    files: Vec<String>,
}

/// Generates the pages from the parser's own definitions.
///
/// # Errors
/// Io if the folder cannot be written, or a page exists and `--force` was not given.
pub fn run(args: &Args) -> Result<Pages> {
    std::fs::create_dir_all(&args.folder).map_err(|error| cannot_write(&args.folder, &error))?;
    let mut command = parser::command().disable_help_subcommand(true);
    command.build();
    let mut files = Vec::new();
    write_page(&command, "apr", args, &mut files)?;
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = format!("apr-{}", verb.get_name());
        write_page(verb, &name, args, &mut files)?;
        for action in verb.get_subcommands().filter(|action| !action.is_hide_set()) {
            write_page(action, &format!("{name}-{}", action.get_name()), args, &mut files)?;
        }
    }
    Ok(Pages { files })
}

fn write_page(command: &clap::Command, name: &str, args: &Args, files: &mut Vec<String>) -> Result<()> {
    let mut page = Vec::new();
    let path = args.folder.join(format!("{name}.1"));
    // No date: the same program writes the same page on every day.
    let man = Man::new(command.clone().name(name.to_owned()))
        .date("")
        .source(format!("apr {}", env!("CARGO_PKG_VERSION")));
    man.render(&mut page).map_err(|error| cannot_write(&path, &error))?;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).create_new(!args.force);
    let mut file = options.open(&path).map_err(|error| cannot_write(&path, &error))?;
    std::io::Write::write_all(&mut file, &page).map_err(|error| cannot_write(&path, &error))?;
    files.push(path.display().to_string());
    Ok(())
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    let shown = path.display().to_string();
    match error.kind() {
        ErrorKind::AlreadyExists => {
            Error::io("the page already exists").in_file(shown).hint("pass --force to replace it")
        }
        _ => Error::io(format!("cannot write: {error}")).in_file(shown),
    }
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
