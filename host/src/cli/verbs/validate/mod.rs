//! `apr validate`: is this file what it claims to be?

mod table;

use crate::cli::context::Context;
use crate::cli::flags::open_args::{OpenArgs, host_and_model};
use crate::cli::output::verb_report::{Report, with_schema};
use apr_engine::contract::Severity;
use apr_engine::verify::checklist::{Verdict, falsified};
use apr_engine::verify::validate::{ValidateOptions, Validation, validate};
use apr_host::sizes::show_number_of;
use apr_sdk::{Error, Result, escape};
use serde_json::Value as Json;
use std::fmt;
use std::path::PathBuf;
use table::Table;

/// Check a model's structure, checksums and values
///
/// The header must be well-formed and every tensor must lie inside the file;
/// whether compressed tensors decode is known with --checksum or --values. With
/// --quality, each point of a checklist of the structure passes, fails or does
/// not apply, and -v says how it was measured and what to do.
/// Exit 4 if the file cannot be opened, 5 if it can but is found invalid.
///
/// Examples:
///   apr validate model.apr --checksum
///   apr validate model.apr --checksum --quality -v
///   apr validate model.gguf --values
///   apr validate model.safetensors --strict --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Read all data, verify stored checksums, and decode compressed tensors
    #[arg(long)]
    checksum: bool,
    /// Read all values and look for NaN and infinity
    #[arg(long)]
    values: bool,
    /// Judge each point of the checklist of a file's structure
    #[arg(long, alias = "points")]
    quality: bool,
    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,
    /// Show packed weights as they are stored: codes, scales and tables
    #[arg(long)]
    raw: bool,
    /// How the model is opened.
    #[command(flatten)]
    pub open: OpenArgs,
}

/// The verdict. JSON: `file`, `format`, `findings` (each `severity`, `message` and perhaps `code`), with `--quality`
/// `points`, those of the checklist (`number`, `title`, `verdict`, which is `pass`, `warn`, `fail`, `not-applicable` or
/// `not-measured`, its `reason`, how it is `measured`, and `help` for a file that fails it), `ok`, `warnings`.
#[derive(Debug)]
pub struct Judged {
    validation: Validation,
    warnings: Vec<String>,
    detail: bool,
}

/// Opens the model and judges it.
///
/// # Errors
/// What opening and reading raised; a judgement of "no" is the report's verdict.
pub fn run(args: &Args, context: &Context) -> Result<Judged> {
    let opened = host_and_model(&args.open.shown(args.raw), &args.file, context);
    let (host, opened) = opened.map_err(|error| if args.quality { falsified(error) } else { error })?;
    let strict = args.strict || context.settings.is_on("validate.strict");
    let (checksum, values, points) = (args.checksum, args.values, args.quality);
    let options = ValidateOptions { checksum, values, strict, points };
    let validation = validate(&host, &opened, options)?;
    Ok(Judged { validation, warnings: opened.warnings, detail: context.terminal.verbose > 0 })
}

impl Judged {
    /// The error for a point that is no finding, of a file that is invalid only since warnings count.
    fn warned(&self) -> Error {
        let mut points = self.validation.points.iter().flatten();
        match points.find(|point| point.verdict == Verdict::Warn) {
            Some(point) => Error::failed(format!("{}: {}", point.title, point.reason)).hint(&point.help),
            None => Error::failed("the file is invalid"),
        }
    }
}

impl Report for Judged {
    fn json(&self) -> Result<Json> {
        with_schema("apr.validate/1", &self.validation)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn quiet(&self) -> String {
        String::new()
    }

    fn verdict(&self) -> Result<()> {
        if self.validation.ok {
            return Ok(());
        }
        let findings = &self.validation.findings;
        let worst = findings.iter().find(|finding| finding.severity == Severity::Error);
        let worst = worst.or_else(|| findings.iter().find(|finding| finding.severity == Severity::Warning));
        let error = match worst {
            Some(finding) => {
                let error = Error::failed(finding.message.clone());
                finding.code.iter().fold(error, |error, code| error.code(code))
            }
            None => self.warned(),
        };
        Err(error.in_file(self.validation.file.clone()))
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.validation.findings {
            let word = match finding.severity {
                Severity::Ok => "ok",
                Severity::Warning | Severity::PassedOver => "warning",
                Severity::Error => "error",
            };
            let code = finding.code.as_ref().map(|code| format!(" [{code}]")).unwrap_or_default();
            writeln!(f, "{word:8} {}{code}", escape(&finding.message, 1000))?;
        }
        if let Some(points) = &self.validation.points {
            write!(f, "{}", Table { points, detail: self.detail })?;
        }
        let findings = &self.validation.findings;
        let warnings = findings.iter().filter(|finding| finding.severity == Severity::Warning).count();
        let verdict = match (self.validation.ok, warnings) {
            (false, _) => "not valid".to_owned(),
            (true, 0) => "valid".to_owned(),
            (true, n) => format!("valid, with {}", show_number_of(n, "warning")),
        };
        writeln!(f, "{} ({}): {verdict}", escape(&self.validation.file, 400), self.validation.format)
    }
}
