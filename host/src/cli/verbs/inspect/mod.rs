//! `apr inspect`: what is this file, and what does it say of itself?

mod bom;

use crate::cli::context::Context;
use crate::cli::flags::open_args::{OpenArgs, host_and_model};
use crate::cli::output::format_report;
use crate::cli::output::metadata::{self, Entry};
use crate::cli::output::verb_report::{Report, Streamed, boxed, with_schema, write_with_schema};
use apr_engine::architecture::{Summary, WAY_OUT_OF_ADAPTER, adapter_mark, called, not_understood, summary};
use apr_engine::open::OpenedModel;
use apr_engine::verify::stats::CompressedRow;
use apr_host::report::inspect_summary::lines as summary_lines;
use apr_host::sizes::{show_count, show_number_of, show_share, show_size};
use apr_sdk::{Bytes, Result, Tensor, checked_elements, escape};
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

/// Show a model's architecture, tokenizer, metadata and size
///
/// Only the header is read, so this is fast for a model of any size.
/// `--metadata` lists the file's metadata keys, `--full` all tensors as well.
///
/// Examples:
///   apr inspect model.gguf
///   apr inspect model.gguf --context 32768
///   apr inspect model-00001-of-00004.safetensors --full
///   apr inspect model.apr --json | jq .summary.layers
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// List metadata keys, with long values truncated
    #[arg(long)]
    metadata: bool,
    /// List all metadata keys with their full values, and all tensors
    #[arg(long)]
    full: bool,
    /// Estimate memory for a KV cache of this many tokens [default: 4096, or the model's context length if smaller]
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    context: Option<u64>,
    /// Show a report of the format's plugin
    #[arg(long, value_name = "ID")]
    pub report: Option<String>,
    /// Print a bill of materials (CycloneDX 1.6 JSON): each file's SHA-256, license, base models, and what an earlier
    /// conversion recorded. Reads the files completely
    #[arg(long, conflicts_with_all = ["metadata", "full", "context", "report"])]
    bom: bool,
    /// Leave out the tensors (the default), as in gguf-dump
    #[arg(long, hide = true)]
    no_tensors: bool,
    /// Show packed weights as they are stored: codes, scales and tables
    #[arg(long)]
    raw: bool,
    /// How the model is opened.
    #[command(flatten)]
    pub open: OpenArgs,
}

fn tokens(text: &str) -> std::result::Result<u64, String> {
    let tokens = text.parse().ok().filter(|tokens| *tokens > 0);
    tokens.ok_or_else(|| "expected an integer number of tokens, at least 1".to_owned())
}

/// The contents of the header. JSON: the fields below, sizes in bytes, shapes outermost first.
#[derive(Debug, Serialize)]
pub struct Inspected {
    /// The path as typed.
    path: String,
    /// The format's id.
    format: String,
    /// The format's name for people.
    format_name: String,
    /// Bytes of all files.
    bytes: u64,
    /// Bytes that were read to open it.
    header_bytes: u64,
    /// Its files.
    files: Vec<NamedSize>,
    /// Number of tensors.
    tensor_count: usize,
    /// Elements of all tensors.
    parameters: u64,
    /// The element types, or how weights are packed; most bytes first.
    dtypes: Vec<DTypeCount>,
    /// The compression of tensors, by method; absent if none is compressed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    compressed: Vec<Compressed>,
    /// The dialect of its tensors' names and rows (`hf`, `gguf`, `canonical`, ..., or `none`).
    dialect: String,
    /// The model in a few lines; a key that its header does not answer is `null`.
    summary: Summary,
    /// The architecture's id: of the table that knows it, else what the file calls it.
    architecture: Option<String>,
    /// Bytes of the tokenizer, if one was understood.
    tokenizer_bytes: Option<u64>,
    /// The quantization recipe, if one is named.
    recipe: Option<String>,
    /// Companion files inside the model.
    assets: Vec<NamedSize>,
    /// What whoever gave the model says of it: `commit`, `licence`, `gated`; absent for files on this machine. Nothing but the
    /// header was read, so nothing is verified.
    #[serde(skip_serializing_if = "Map::is_empty")]
    source: Map<String, Json>,
    /// Number of checksums stored in the files.
    checksums: usize,
    /// Typed metadata, in the files' order.
    metadata: Vec<Entry>,
    /// The tensors; only with `--full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    tensors: Option<Vec<Row>>,
    /// Assumptions of the reader, and what it left out.
    notes: Vec<String>,
    /// Warnings about the file.
    warnings: Vec<String>,
    #[serde(skip)]
    shows_metadata: bool,
    #[serde(skip)]
    full: bool,
}

#[derive(Debug, Serialize)]
struct NamedSize {
    name: String,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct DTypeCount {
    dtype: String,
    tensors: usize,
    parameters: u64,
    bytes: u64,
}

/// The tensors that are compressed with one method.
#[derive(Debug, Serialize)]
struct Compressed {
    #[serde(rename = "as")]
    method: String,
    tensors: usize,
    /// Bytes that they take up in the files.
    bytes: u64,
    /// Bytes once decoded.
    raw_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    dtype: String,
    shape: Vec<u64>,
    bytes: u64,
}

/// Opens the model and gathers what its header says, or makes the report that is asked for.
///
/// # Errors
/// What opening raised; Unsupported for a report that the format does not declare.
pub fn run(args: &Args, context: &Context) -> Result<Box<dyn Report>> {
    match &args.report {
        None if args.bom => bom::run(&args.file, &args.open, context).map(boxed),
        Some(id) => format_report::run(id, &args.file, &args.open, context).map(boxed),
        None => inspect(args, context).map(boxed),
    }
}

fn inspect(args: &Args, context: &Context) -> Result<Inspected> {
    let (host, mut opened) = host_and_model(&args.open.shown(args.raw), &args.file, context)?;
    let summary = summary(&host, &opened, args.context)?;
    opened.forget_readers();
    let architecture = called(&host, &opened.model);
    let n_items = context.settings.number("inspect.max_tokens_display");
    // The entries are taken out of the model.
    let adapter = adapter_mark(&opened.model, &host.registry);
    let metadata = metadata::entries(&mut opened, args.full, n_items)?;
    let mut warnings = opened.warnings.clone();
    warnings.extend(summary.not_understood.iter().map(not_understood));
    warnings.extend(adapter.map(|mark| {
        format!("`{mark}` marks this as an adapter, and apr does not apply adapters: {WAY_OUT_OF_ADAPTER}")
    }));
    let model = &opened.model;
    let name = host.registry.format(&opened.format).map(|format| format.manifest.name.clone());
    let mut files: Vec<NamedSize> = Vec::new();
    for (name, bytes) in opened.files() {
        // A split model that was opened by one of its parts has that part once as itself and once as a part.
        if !files.iter().any(|file| file.name == name) {
            files.push(NamedSize { name, bytes });
        }
    }
    let tensors = args.full.then(|| model.tensors.iter().map(row).collect::<Result<Vec<_>>>()).transpose()?;
    let dtypes = histogram(&model.tensors)?;
    Ok(Inspected {
        path: args.file.display().to_string(),
        format_name: name.unwrap_or_else(|_| opened.format.clone()),
        bytes: files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes)),
        files,
        tensor_count: model.tensors.len(),
        parameters: dtypes.iter().fold(0, |sum, dtype| sum.saturating_add(dtype.parameters)),
        dtypes,
        compressed: compressed(&model.tensors)?,
        dialect: model.dialect.clone(),
        summary,
        architecture,
        tokenizer_bytes: model.tokenizer.as_ref().map(Bytes::len),
        recipe: model.recipe.clone(),
        assets: assets(&opened),
        source: opened
            .files
            .facts(false)
            .into_iter()
            .filter(|(name, _)| name != "verified")
            .map(|(name, fact)| (name, Json::from(fact)))
            .collect(),
        checksums: model.checksums.len(),
        metadata,
        tensors,
        notes: model.notes.clone(),
        warnings,
        header_bytes: opened.header_bytes(),
        format: opened.format,
        shows_metadata: args.full || args.metadata,
        full: args.full,
    })
}

fn assets(opened: &OpenedModel) -> Vec<NamedSize> {
    let assets = opened.model.assets.iter();
    assets.map(|asset| NamedSize { name: asset.name.clone(), bytes: asset.bytes.len() }).collect()
}

fn row(tensor: &Tensor) -> Result<Row> {
    Ok(Row {
        name: tensor.name.clone(),
        dtype: tensor.dtype.name().to_owned(),
        shape: tensor.shape.clone(),
        bytes: tensor.payload_len()?,
    })
}

fn histogram(tensors: &[Tensor]) -> Result<Vec<DTypeCount>> {
    let mut counts: Vec<DTypeCount> = Vec::new();
    for tensor in tensors {
        let name = tensor.packed_as().unwrap_or(tensor.dtype.name());
        let at = counts.iter().position(|count| count.dtype == name).unwrap_or_else(|| {
            counts.push(DTypeCount { dtype: name.to_owned(), tensors: 0, parameters: 0, bytes: 0 });
            counts.len() - 1
        });
        let count = &mut counts[at];
        count.tensors += 1;
        count.parameters = count.parameters.saturating_add(checked_elements(&tensor.shape)?);
        count.bytes = count.bytes.saturating_add(tensor.stored_len()?);
    }
    counts.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.dtype.cmp(&b.dtype)));
    Ok(counts)
}

fn compressed(tensors: &[Tensor]) -> Result<Vec<Compressed>> {
    let mut methods: Vec<Compressed> = Vec::new();
    for tensor in tensors {
        let Some(CompressedRow { method, bytes }) = CompressedRow::of(tensor) else { continue };
        let at = methods.iter().position(|known| known.method == method).unwrap_or_else(|| {
            methods.push(Compressed { method, tensors: 0, bytes: 0, raw_bytes: 0 });
            methods.len() - 1
        });
        methods[at].tensors += 1;
        methods[at].bytes = methods[at].bytes.saturating_add(bytes);
        methods[at].raw_bytes = methods[at].raw_bytes.saturating_add(tensor.payload_len()?);
    }
    methods.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.method.cmp(&b.method)));
    Ok(methods)
}

impl Report for Inspected {
    fn json(&self) -> Result<Json> {
        with_schema("apr.inspect/1", self)
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<Streamed> {
        write_with_schema(out, "apr.inspect/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn warnings_mut(&mut self) -> Option<&mut Vec<String>> {
        Some(&mut self.warnings)
    }
}

impl fmt::Display for Inspected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = show_number_of(self.files.len(), "file");
        writeln!(
            f,
            "{}: {}, {} in {files}",
            escape(&self.path, 400),
            self.format_name,
            show_size(self.bytes)
        )?;
        let mut lines = summary_lines(&self.summary, self.architecture.as_deref());
        let types =
            lines.iter().position(|(label, _)| *label == "bits/weight").map_or(lines.len(), |at| at + 1);
        let of_types = self.dtypes.iter().enumerate().map(|(n, dtype)| {
            let tensors = show_number_of(dtype.tensors, "tensor");
            let bytes = show_size(dtype.bytes);
            let text = match dtype.dtype.len() {
                0..=8 => format!("{:<8} {tensors}, {bytes}", dtype.dtype),
                _ => format!("{}: {tensors}, {bytes}", escape(&dtype.dtype, 160)),
            };
            (if n == 0 { "types" } else { "" }, text)
        });
        let of_methods = self.compressed.iter().enumerate().map(|(n, method)| {
            let Compressed { method, tensors, bytes, raw_bytes } = method;
            let share = show_share(*bytes, *raw_bytes);
            let tensors = show_number_of(*tensors, "tensor");
            let sizes = format!("{} in {} ({share})", show_size(*raw_bytes), show_size(*bytes));
            let method = escape(method, 80);
            (if n == 0 { "compressed" } else { "" }, format!("{method}: {tensors}, {sizes}"))
        });
        lines.splice(types..types, of_types.chain(of_methods));
        writeln!(f, "  tensors        {}", show_count(self.tensor_count as u128))?;
        for (label, text) in lines {
            writeln!(f, "  {label:13}  {text}")?;
        }
        if self.dialect != "none" {
            writeln!(f, "  dialect        {}", escape(&self.dialect, 80))?;
        }
        if !self.source.is_empty() {
            let known =
                self.source.iter().filter_map(|(name, fact)| Some(format!("{name} {}", fact.as_str()?)));
            let known: Vec<String> =
                known.chain(["not verified: only the header was read".to_owned()]).collect();
            writeln!(f, "  source         {}", escape(&known.join(", "), 400))?;
        }
        if self.checksums > 0 {
            writeln!(f, "  checksums      {} stored", self.checksums)?;
        }
        writeln!(f, "  header         {} read", show_size(self.header_bytes))?;
        if self.files.len() > 1 {
            named_sizes(f, "files", &self.files, self.full)?;
        }
        named_sizes(f, "assets", &self.assets, self.full)?;
        if self.shows_metadata {
            self.show_metadata(f)?;
        } else if !self.metadata.is_empty() {
            writeln!(
                f,
                "metadata: {} (pass --metadata to list them)",
                show_number_of(self.metadata.len(), "key")
            )?;
        }
        if let Some(rows) = &self.tensors {
            writeln!(f, "tensors")?;
            for row in rows {
                writeln!(
                    f,
                    "  {}  {} {:?}, {}",
                    escape(&row.name, 400),
                    row.dtype,
                    row.shape,
                    show_size(row.bytes)
                )?;
            }
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {}", escape(note, 400)))
    }
}

impl Inspected {
    fn show_metadata(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut group = None;
        let width = self.metadata.iter().map(|entry| entry.key.chars().count()).max().unwrap_or(0).min(40);
        for entry in &self.metadata {
            if group != Some((&entry.format, &entry.file)) {
                group = Some((&entry.format, &entry.file));
                let of = if entry.file.is_empty() {
                    String::new()
                } else {
                    format!(" of {}", escape(&entry.file, 200))
                };
                writeln!(f, "metadata{of} ({})", entry.format)?;
            }
            writeln!(f, "  {:width$}  {:<5}  {}", escape(&entry.key, 200), entry.kind, entry.text())?;
        }
        Ok(())
    }
}

/// A list of names and sizes; its middle is left out if it is long.
fn named_sizes(f: &mut fmt::Formatter<'_>, title: &str, all: &[NamedSize], full: bool) -> fmt::Result {
    const SHOWN: usize = 20;
    if all.is_empty() {
        return Ok(());
    }
    writeln!(f, "{title}")?;
    let shown = if full { all.len() } else { all.len().min(SHOWN) };
    for one in &all[..shown] {
        writeln!(f, "  {}  {}", escape(&one.name, 400), show_size(one.bytes))?;
    }
    if shown < all.len() {
        writeln!(f, "  … {} more (pass --full to show them)", all.len() - shown)?;
    }
    Ok(())
}
