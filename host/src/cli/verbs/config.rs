//! `apr config`: which settings hold, and where did each come from?

use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::settings::Setting;
use apr_sdk::Result;
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;

/// Show the settings in effect
///
/// Flags override the environment, which overrides the file given by --config
/// or `APR_CONFIG` (or else the user's file), which overrides the system's file,
/// which overrides the built-in defaults. No file in a model's folder is read.
///
/// Examples:
///   apr config show             every setting with its value
///   apr config show --origin    and where each came from
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show every setting with its value
    Show {
        /// Show where each value came from
        #[arg(long)]
        origin: bool,
    },
}

/// The settings. JSON: `settings` (each `key`, `value`, `origin`, `help`) and `files` (those that were read).
#[derive(Debug, Serialize)]
pub struct Shown {
    settings: Vec<Setting>,
    files: Vec<String>,
    #[serde(skip)]
    origin: bool,
}

/// Gathers the settings.
///
/// # Errors
/// None beyond what reading the configuration already raised.
pub fn run(args: &Args, context: &Context) -> Result<Shown> {
    let Action::Show { origin } = args.action;
    let files = context.settings.files.iter().map(|path| path.display().to_string()).collect();
    Ok(Shown { settings: context.settings.all.clone(), files, origin })
}

impl Report for Shown {
    fn json(&self) -> Result<Json> {
        with_schema("apr.config/1", self)
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<_> = self.settings.iter().map(|s| format!("{} = {}", s.key, s.value)).collect();
        let width = pairs.iter().map(|pair| pair.chars().count()).max().unwrap_or(0);
        for (pair, setting) in pairs.iter().zip(&self.settings) {
            if self.origin {
                writeln!(f, "{pair:width$}  # {}", setting.origin)?;
            } else {
                writeln!(f, "{pair:width$}  # {}", setting.help)?;
            }
        }
        Ok(())
    }
}
