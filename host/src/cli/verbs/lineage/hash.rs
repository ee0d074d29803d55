//! `apr hash`: digests of a model, whatever file holds it.

use crate::cli::context::Context;
use crate::cli::flags::open_args::{OpenArgs, host_and_model};
use crate::cli::output::verb_report::{Report, with_schema};
use apr_engine::verify::content_digests::{ContentDigests, content_digests};
use apr_engine::verify::input_checksums::refuse_damaged;
use apr_sdk::{Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::path::PathBuf;

/// Print digests of a model's tensors and content
///
/// `tensors` is the SHA-256 over names, types, shapes and values: it is equal in
/// every file that keeps these, whatever its format or compression. `content` also
/// covers configuration, tokenizer, metadata and companion files. A file's own
/// SHA-256 is what `sha256sum` prints. Where a file stores checksums of its own,
/// they are compared as well, and a file that is damaged has no digest: exit 5.
///
/// Examples:
///   apr hash model.apr
///   apr hash model.safetensors -q
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How the model is opened.
    #[command(flatten)]
    pub open: OpenArgs,
}

/// The digests. JSON: `file`, `format`, `tensors`, `content`, each digest in 64 hexadecimal digits.
#[derive(Debug, Serialize)]
pub struct Hashed {
    file: String,
    format: String,
    #[serde(flatten)]
    digests: ContentDigests,
    #[serde(skip)]
    warnings: Vec<String>,
}

/// Opens the model and computes its digests.
///
/// # Errors
/// What opening and reading raised; Failed, E004, for a file that is not what its stored checksum says.
pub fn run(args: &Args, context: &Context) -> Result<Hashed> {
    // Packed weights as they are stored.
    let (host, opened) = host_and_model(&args.open.shown(true).recorded(true), &args.file, context)?;
    let digests = content_digests(&host, &opened)?;
    refuse_damaged(&host, &opened, None)?;
    let file = args.file.display().to_string();
    Ok(Hashed { file, format: opened.format, digests, warnings: opened.warnings })
}

impl Report for Hashed {
    fn json(&self) -> Result<Json> {
        with_schema("apr.hash/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn quiet(&self) -> String {
        format!("{}\n", self.digests.tensors)
    }
}

impl fmt::Display for Hashed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = escape(&self.file, 400);
        writeln!(f, "tensors  {}  {file}", self.digests.tensors)?;
        writeln!(f, "content  {}  {file}", self.digests.content)
    }
}
