//! The result of an upgrade.

use crate::cli::output::verb_report::{Report, Streamed, with_schema};
use crate::cli::verbs::convert;
use apr_sdk::{Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::io::{self, Write};

/// The result of an upgrade.
#[derive(Debug)]
pub enum Outcome {
    /// There is nothing to do.
    Newest(Newest),
    /// The model was rewritten, or that was planned.
    Rewritten(convert::Outcome),
}

/// A model that needs no upgrade. JSON: `apr.upgrade/1`: what `apr upgrade` prints if there is nothing to do: `path`,
/// `format`; a model that is upgraded gives what `apr convert` does.
#[derive(Debug, Serialize)]
pub struct Newest {
    /// The path as it was typed.
    pub path: String,
    /// The format's id.
    pub format: String,
    /// The format's name, for people.
    #[serde(skip)]
    pub name: String,
}

impl Report for Outcome {
    fn json(&self) -> Result<Json> {
        match self {
            Outcome::Newest(newest) => with_schema("apr.upgrade/1", newest),
            Outcome::Rewritten(outcome) => outcome.json(),
        }
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<Streamed> {
        match self {
            Outcome::Newest(_) => Ok(Streamed::No),
            Outcome::Rewritten(outcome) => outcome.write_json(out),
        }
    }

    fn warnings(&self) -> &[String] {
        match self {
            Outcome::Newest(_) => &[],
            Outcome::Rewritten(outcome) => outcome.warnings(),
        }
    }

    fn warnings_mut(&mut self) -> Option<&mut Vec<String>> {
        match self {
            Outcome::Newest(_) => None,
            Outcome::Rewritten(outcome) => outcome.warnings_mut(),
        }
    }

    fn quiet(&self) -> String {
        match self {
            Outcome::Newest(_) => String::new(),
            Outcome::Rewritten(outcome) => outcome.quiet(),
        }
    }

    fn done(&self) -> Option<&'static str> {
        match self {
            Outcome::Newest(_) => None,
            Outcome::Rewritten(outcome) => outcome.done(),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Newest(Newest { path, name, .. }) => {
                let path = escape(path, 400);
                writeln!(f, "{path} is up to date ({name}); nothing was written")
            }
            Outcome::Rewritten(outcome) => write!(f, "{outcome}"),
        }
    }
}
