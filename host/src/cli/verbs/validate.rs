//! `apr validate`: is this file what it claims to be?

use crate::cli::context::Context;
use crate::cli::flags::open_args::{OpenArgs, host_and_model};
use crate::cli::output::verb_report::{Report, with_schema};
use apr_engine::contract::Severity;
use apr_engine::verify::validate::{ValidateOptions, Validation, validate};
use apr_host::sizes::show_number_of;
use apr_sdk::{Error, Result, escape};
use serde_json::Value as Json;
use std::fmt;
use std::path::PathBuf;

/// Check a model's structure, checksums and values
///
/// The header must be well-formed and every tensor must lie inside the file.
/// Exit 4 if the file cannot be opened, 5 if it can but is found invalid.
///
/// Examples:
///   apr validate model.apr --checksum
///   apr validate model.gguf --values
///   apr validate model.safetensors --strict --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Read all data and verify the checksums that the file stores
    #[arg(long)]
    checksum: bool,
    /// Read all values and look for NaN and infinity
    #[arg(long)]
    values: bool,
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

/// The verdict. JSON: `file`, `format`, `findings` (each `severity`, `message` and perhaps `code`), `ok`, `warnings`.
#[derive(Debug)]
pub struct Judged {
    validation: Validation,
    warnings: Vec<String>,
}

/// Opens the model and judges it.
///
/// # Errors
/// What opening and reading raised; a judgement of "no" is the report's verdict.
pub fn run(args: &Args, context: &Context) -> Result<Judged> {
    let (host, opened) = host_and_model(&args.open.shown(args.raw), &args.file, context)?;
    let strict = args.strict || context.settings.is_on("validate.strict");
    let options = ValidateOptions { checksum: args.checksum, values: args.values, strict };
    Ok(Judged { validation: validate(&host, &opened, options)?, warnings: opened.warnings })
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
        let error = worst.map_or_else(
            || Error::failed("the file is invalid"),
            |finding| {
                let error = Error::failed(finding.message.clone());
                finding.code.map_or(error.clone(), |code| error.code(code))
            },
        );
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
            let code = finding.code.map(|code| format!(" [{code}]")).unwrap_or_default();
            writeln!(f, "{word:8} {}{code}", escape(&finding.message, 1000))?;
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
