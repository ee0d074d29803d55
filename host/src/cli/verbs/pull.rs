//! `apr pull`: a model from elsewhere, on this machine.

use crate::cli::context::Context;
use crate::cli::flags::remote_args::{RemoteArgs, parse_sha256};
use crate::cli::output::verb_report::{Report, with_schema};
use apr_host::sizes::{show_number_of, show_size};
use apr_remote::pull::{PullOptions, Pulled, pull};
use apr_sdk::{Error, Result, escape};
use serde_json::Value as Json;
use std::fmt;
use std::path::PathBuf;

/// Download a model from the hub, or a file behind https
///
/// Models of the Hugging Face hub go into the cache of the hub's own client, so that
/// each finds what the other fetched. What was begun is continued, and every file
/// is compared with the digest that the hub names before it counts. The path is
/// printed at the end. Most commands read models of the hub without this.
///
/// Examples:
///   apr pull hf://org/name
///   apr pull hf://org/name:Q4_K_M
///   apr pull hf://org/name@v1.0 --include '*.safetensors' --include '*.json'
///   apr pull hf://org/name -o folder/
///   apr pull https://example.org/model.gguf --sha256 HEX
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
#[allow(rustdoc::bare_urls, reason = "the comment is the text of the help")]
pub struct Args {
    /// Model: hf://org/name, hf://org/name@REVISION, hf://org/name/FILE, hf://org/name:TYPE, or an https address
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Write the files to this folder instead of the cache; of an https address, to this file or folder
    #[arg(short, long, value_name = "FOLDER", alias = "local-dir")]
    output: Option<PathBuf>,
    /// Download only files that fit PATTERN; may be repeated
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Download no files that fit PATTERN; may be repeated
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// SHA-256 that the file behind an https address must have
    #[arg(long, value_name = "HEX", value_parser = parse_sha256)]
    sha256: Option<String>,
    /// Replace files in the folder that have other content
    #[arg(short, long, alias = "force-download")]
    force: bool,
    /// List the files and their sizes, without downloading anything
    #[arg(short = 'n', long, visible_alias = "dry-run")]
    plan: bool,
    /// Where the model comes from.
    #[command(flatten)]
    pub remote: RemoteArgs,
}

/// Downloads, or lists what would be.
///
/// # Errors
/// As [`pull`].
pub fn run(args: &Args, context: &Context) -> Result<Downloaded> {
    let host = context.host();
    if let Some(output) = args.output.as_ref().filter(|output| context.inputs(&host.registry).has(output)) {
        let error = Error::invalid_argument("the output is one of the inputs");
        let hint = "choose another name for the output; the input was not changed";
        return Err(error.in_file(output.display().to_string()).hint(hint));
    }
    let options = PullOptions {
        include: args.include.clone(),
        exclude: args.exclude.clone(),
        output: args.output.clone(),
        sha256: args.sha256.clone(),
        force: args.force,
        plan: args.plan,
    };
    let anywhere = context.anywhere(&host);
    pull(&anywhere, &args.model, &options, host.progress.as_ref()).map(Downloaded)
}

/// The download. JSON: `model`, `commit`, `path`, `files` (each `name`, `bytes`, `fetched`, `verified`), `licence`,
/// `planned`, `seconds`, `warnings`.
#[derive(Debug)]
pub struct Downloaded(Pulled);

impl Report for Downloaded {
    fn json(&self) -> Result<Json> {
        with_schema("apr.pull/1", &self.0)
    }

    fn warnings(&self) -> &[String] {
        &self.0.warnings
    }

    fn quiet(&self) -> String {
        format!("{}\n", self.0.path)
    }

    fn done(&self) -> Option<&'static str> {
        (!self.0.planned).then_some("the model was downloaded")
    }
}

impl fmt::Display for Downloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pulled { model, commit, path, files, licence, planned, seconds, .. } = &self.0;
        let fetched: u64 = files.iter().map(|file| file.fetched).sum();
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        if *planned {
            for file in files {
                let state = if file.fetched == 0 { "here" } else { "" };
                writeln!(f, "{:>9}  {:4}  {}", show_size(file.bytes), state, escape(&file.name, 400))?;
            }
            writeln!(
                f,
                "{}, {}; {} to download",
                show_number_of(files.len(), "file"),
                show_size(bytes),
                show_size(fetched)
            )?;
        } else {
            writeln!(
                f,
                "{model}: {}, {}, {} downloaded, {seconds:.2} s",
                show_number_of(files.len(), "file"),
                show_size(bytes),
                show_size(fetched)
            )?;
            let verified = files.iter().filter(|file| file.verified.is_some()).count();
            writeln!(f, "verified: {verified} of {} by the digest that was announced", files.len())?;
        }
        if let Some(commit) = commit {
            writeln!(f, "commit: {commit}")?;
        }
        if let Some(licence) = licence {
            writeln!(f, "licence: {}", escape(licence, 80))?;
        }
        if *planned { Ok(()) } else { writeln!(f, "{}", escape(path, 4000)) }
    }
}
