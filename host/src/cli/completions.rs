//! `apr completions`: how does a shell learn what to complete?

use crate::cli::context::Context;
use crate::cli::report::{Report, with_schema};
use crate::cli::{declared, parser};
use apr_sdk::{Error, Result};
use clap_complete::Shell;
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;

/// Print a completion script for a shell
///
/// Examples:
///   apr completions bash > ~/.local/share/bash-completion/completions/apr
///   apr completions zsh > ~/.zfunc/_apr
///   apr completions fish > ~/.config/fish/completions/apr.fish
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// A script. JSON: `shell` and `script`.
#[derive(Debug, Serialize)]
pub struct Script {
    shell: String,
    script: String,
}

/// Generates the script from the parser's own definitions and what the plugins that are there declare.
///
/// # Errors
/// Io if the generator's output is not text; that is a bug.
pub fn run(args: &Args, context: &Context) -> Result<Script> {
    let mut bytes = Vec::new();
    let all = declared::find(context.globals.clone());
    clap_complete::generate(args.shell, &mut parser::command_with(&all), "apr", &mut bytes);
    let script = String::from_utf8(bytes).map_err(|_| Error::io("the completion script is not UTF-8"))?;
    Ok(Script { shell: args.shell.to_string(), script })
}

impl Report for Script {
    fn json(&self) -> Result<Json> {
        with_schema("apr.completions/1", self)
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.script)
    }
}
