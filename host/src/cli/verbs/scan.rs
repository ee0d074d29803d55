//! `apr scan`: would loading this file elsewhere run code?

use crate::cli::context::Context;
use crate::cli::flags::open_args::OpenArgs;
use crate::cli::output::format_report::Made;
use crate::cli::output::verb_report::{Report, with_schema};
use apr_host::scan::{SCAN, Scanned, ScannedFiles, scan};
use apr_sdk::{Error, Result, escape};
use serde_json::Value as Json;
use std::fmt;
use std::path::PathBuf;

/// Check whether loading a checkpoint would run code
///
/// Some formats are programs: loading them with their own library can import and
/// call anything. apr runs nothing; this lists what a file would import and call,
/// with a verdict: exit 5 if it does more than rebuild tensors, 0 if it does not,
/// or if its format holds no code. Files that do not load can be scanned as well.
/// In a folder, every file is scanned that a format knows or that begins like a
/// pickle; the others are named. ZIP, tar, gzip and zlib files are looked into;
/// what cannot be looked into, such as xz, is no success. --json lists every step.
///
/// Examples:
///   apr scan pytorch_model.bin
///   apr scan Model/
///   apr scan download.pt --json | jq .verdict
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// File to scan, an index of shards, or a folder
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How the file is opened.
    #[command(flatten)]
    pub open: OpenArgs,
}

/// Scans the file or folder.
///
/// # Errors
/// What reading raised; the answer "no" is the report's verdict.
pub fn run(args: &Args, context: &Context) -> Result<Box<dyn Report>> {
    Ok(match scan(&context.host(), &args.file, &args.open.to_options())? {
        Scanned::File(report) => Box::new(Made::new(&args.file, SCAN, report)),
        Scanned::Files(files) => Box::new(Found(files)),
    })
}

/// The findings in files.
struct Found(ScannedFiles);

impl Report for Found {
    fn json(&self) -> Result<Json> {
        with_schema("apr.scan/1", &self.0)
    }

    fn warnings(&self) -> &[String] {
        &self.0.warnings
    }

    fn verdict(&self) -> Result<()> {
        let bad: Vec<_> = self.0.files.iter().filter(|file| !file.passed).collect();
        match bad.first() {
            None => match self.0.unseen.first() {
                None => Ok(()),
                Some(first) => {
                    let message = format!(
                        "`{}` is a link to a folder elsewhere, which was not scanned",
                        escape(first, 200)
                    );
                    let error = Error::failed(message).in_file(self.0.path.clone());
                    Err(error.hint("scan that folder as well"))
                }
            },
            Some(first) => {
                let shown = escape(&first.file, 200);
                let message =
                    format!("{} of {} files are not safe, first `{shown}`", bad.len(), self.0.files.len());
                Err(Error::failed(message).in_file(self.0.path.clone()))
            }
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for file in &self.0.files {
            let name = escape(&file.file, 400);
            let format = &file.format;
            match &file.text {
                None => writeln!(f, "{name} ({format}): contains no code, nothing to scan")?,
                Some(text) => {
                    writeln!(f, "{name} ({format}):")?;
                    // The plugin escaped what it quotes of the file; what it let through is escaped here.
                    text.lines().try_for_each(|line| writeln!(f, "  {}", escape(line, usize::MAX)))?;
                }
            }
        }
        self.0.unseen.iter().try_for_each(|name| {
            writeln!(f, "{}: a link to a folder elsewhere, not scanned", escape(name, 400))
        })?;
        if !self.0.others.is_empty() {
            let shown: Vec<_> = self.0.others.iter().take(8).map(|name| escape(name, 80)).collect();
            let more = if self.0.others.len() > shown.len() { ", ..." } else { "" };
            writeln!(f, "not models, not scanned: {}{more}", shown.join(", "))?;
        }
        Ok(())
    }
}
