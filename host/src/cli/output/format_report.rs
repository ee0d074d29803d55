//! Reports that formats declare, on the terminal.

use crate::cli::context::Context;
use crate::cli::flags::open_args::OpenArgs;
use crate::cli::output::verb_report::Report;
use apr_engine::open::reports::{FormatReport, report};
use apr_sdk::{Error, Result, escape};
use serde_json::Value as Json;
use std::fmt;
use std::path::{Path, PathBuf};

/// A format's report of a file. JSON: the format's own document.
#[derive(Debug)]
pub struct Made {
    path: PathBuf,
    id: String,
    report: FormatReport,
}

/// Has the report `id` of `file` made.
///
/// # Errors
/// As [`report`].
pub fn run(id: &str, file: &Path, open: &OpenArgs, context: &Context) -> Result<Made> {
    let report = report(&context.host(), file, id, &open.to_options())?;
    Ok(Made::new(file, id, report))
}

impl Made {
    /// The report `id` of `file`.
    pub fn new(file: &Path, id: &str, report: FormatReport) -> Made {
        Made { path: file.to_owned(), id: id.to_owned(), report }
    }
}

impl Report for Made {
    fn json(&self) -> Result<Json> {
        Ok(Json::Object(self.report.json.clone()))
    }

    fn warnings(&self) -> &[String] {
        &self.report.warnings
    }

    fn verdict(&self) -> Result<()> {
        if self.report.passed {
            return Ok(());
        }
        let message = format!("the {} found problems", escape(&self.id, 80));
        Err(Error::failed(message).in_file(self.path.display().to_string()))
    }
}

impl fmt::Display for Made {
    /// The plugin escaped what it quotes of the file; control characters that it let through are escaped here.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report.text.lines().try_for_each(|line| writeln!(f, "{}", escape(line, usize::MAX)))
    }
}
