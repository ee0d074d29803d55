//! `apr convert`: the same model in another format.

mod analysis;
mod conversions;
mod operands;
mod outcome;
mod to_stdout;

use crate::cli::context::Context;
use crate::cli::flags::key_args::KeyArgs;
use crate::cli::flags::open_args::{OpenArgs, only_a_path};
use crate::cli::flags::remote_args::{RemoteArgs, parse_sha256};
use crate::cli::flags::tensor_args::TensorArgs;
use crate::cli::flags::type_args::TypeArgs;
use crate::cli::output::verb_report::{Report, Streamed, with_schema, write_document};
use crate::cli::verbs::convert::analysis::{Analysis, Wishes};
use crate::cli::verbs::convert::conversions::{Conversions, several};
use crate::cli::verbs::convert::operands::operands;
use crate::cli::verbs::convert::outcome::Shown;
use crate::cli::verbs::convert::to_stdout::{is_stdout, to_stdout};
use apr_engine::contract::Quality;
use apr_engine::convert::Plan;
use apr_engine::planned::request::VerifyMode;
use apr_engine::tiles::losses::Quantized;
use apr_engine::types::quantize::recipe_name;
use apr_host::convert::{ConvertOptions, Converted, convert, plan};
use apr_host::destination::output_file::OutputFile;
use apr_host::destination::outputs::Operands;
use apr_host::host::Host;
use apr_host::sizes::parse_size;
use apr_host::storage::publish::{Finished, finish};
use apr_remote::address::Address;
use apr_sdk::{Error, ForeignPolicy, Result};
use clap::{ValueEnum, value_parser};
use serde_json::Value as Json;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Convert a model to another format
///
/// The input's format is detected from its content, the output's from its
/// extension or --to. Weights are copied unchanged unless you ask for other
/// types. The output is written next to its final name, verified, and only then
/// moved into place.
///
/// Examples:
///   apr convert model.gguf model.apr
///   apr convert model.apr back/ --to gguf --max-shard-size 5G
///   apr convert in.gguf out.gguf --set general.name="My model" --unset general.url
///   apr convert model.gguf model.apr --plan
///   apr convert hf://org/name model.gguf --quantize Q4_K_M
///   apr convert llama/ llama.gguf --quantize Q4_K_M --imatrix imatrix.gguf
///   apr convert llama/ llama-{type}.gguf --quantize Q4_K_M,Q5_K_M,Q8_0
///   apr convert a.gguf b.gguf folder/ --to apr
///   apr convert in.safetensors out.npz --include 'encoder.*' --rename 'encoder.*=*'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Input model: a file, any of its shards, its index, or its folder; or several models
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Output file, or a folder for a model of several files or for several models
    #[arg(value_name = "OUT")]
    pub out: Vec<PathBuf>,
    /// Output file or folder, the same as OUT
    #[arg(short, long, value_name = "OUT", alias = "outfile")]
    pub output: Option<PathBuf>,
    /// Write FORMAT, whatever the output's extension
    #[arg(long, value_name = "FORMAT", visible_alias = "format")]
    pub to: Option<String>,
    /// Print what would be done, exact to the byte, without writing anything
    #[arg(short = 'n', long, visible_alias = "dry-run")]
    plan: bool,
    /// Replace an existing output, once the new one is complete; without --strict, this implies --relaxed
    #[arg(short, long)]
    force: bool,
    /// Resume an interrupted conversion; input and arguments must be the same. With only a folder: finish moving its
    /// new files into place
    #[arg(long)]
    resume: bool,
    /// How much of the output to verify
    #[arg(long, value_name = "HOW", default_value = "quick")]
    verify: Verify,
    /// What to do with metadata that only the input's format can express
    #[arg(long, value_name = "POLICY", default_value = "default")]
    foreign: Foreign,
    /// Architecture of the model; `none` keeps all names and rows unchanged
    #[arg(long, value_name = "ID")]
    arch: Option<String>,
    /// Which tensors, and under which names.
    #[command(flatten)]
    tensors: TensorArgs,
    /// Split the output into shards of at most SIZE bytes of weights: 5G, 500M, 2GiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size, alias = "split-max-size")]
    max_shard_size: Option<u64>,
    /// Split the output into shards of at most N tensors
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..), alias = "split-max-tensors")]
    max_shard_tensors: Option<u64>,
    /// Check every value of the input and report problems, without writing anything
    #[arg(long, conflicts_with_all = ["plan", "resume"])]
    analyze_source: bool,
    /// Treat warnings about values and shapes as errors, even with --force
    #[arg(long, conflicts_with = "relaxed")]
    strict: bool,
    /// Continue despite values that are out of range, non-finite or lost; warn and record it
    #[arg(long)]
    relaxed: bool,
    /// Continue where a cast finds or produces non-finite values
    #[arg(long)]
    allow_nonfinite: bool,
    /// Which metadata is changed.
    #[command(flatten)]
    keys: KeyArgs,
    /// SHA-256 that the file behind an https address must have
    #[arg(long, value_name = "HEX", value_parser = parse_sha256)]
    sha256: Option<String>,
    /// Whether the model's architecture must be known; `import` sets it.
    #[arg(skip)]
    pub wants_architecture: bool,
    /// How the model is opened.
    #[command(flatten)]
    pub open: OpenArgs,
    /// Which types weights get.
    #[command(flatten)]
    pub types: TypeArgs,
}

impl Args {
    /// Where models that are elsewhere come from.
    pub fn remote(&self) -> RemoteArgs {
        RemoteArgs { sha256: self.sha256.clone(), ..self.open.remote.clone() }
    }

    /// The output, if one was given.
    pub fn output(&self) -> Option<&PathBuf> {
        self.output.as_ref().or(self.out.last())
    }
}

/// How much is proved after writing.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Verify {
    /// Read back the header and samples of the weights
    Quick,
    /// Read back everything
    Full,
    /// Verify nothing
    Off,
}

/// What becomes of metadata that only the input's format can say.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Foreign {
    /// Keep what the output's format carries by default
    Default,
    /// Like default, without the input's own spelling of it
    Typed,
    /// Keep it wherever the output can hold it
    Keep,
    /// Leave it out
    Drop,
}

/// The amount of detail shown (`-v`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The figures.
    Short,
    /// Every tensor and key, and every finding.
    All,
}

/// The result of the work, or its plan.
#[derive(Debug)]
pub enum Outcome {
    /// With `--plan`.
    Planned(Box<Plan>),
    /// With `--analyze-source`.
    Analyzed(Box<Analysis>),
    /// Without.
    Done(Box<Converted>, Detail),
    /// With `--resume` and a folder alone.
    Finished(Finished),
    /// Without, and on standard output.
    Streamed(Box<Converted>),
    /// Several outputs.
    Several(Conversions),
}

/// The hint when the work is done and only its report could not be written.
const IN_PLACE: &str = "write the report elsewhere: the output itself is complete";

/// Converts, or plans to.
///
/// # Errors
/// Whatever planning, writing and verifying raised.
pub fn run(args: &Args, context: &Context) -> Result<Outcome> {
    let operands = operands(args, &|word| recipe_name(&context.host().registry, word).is_ok())?;
    if args.analyze_source {
        let [input] = &operands.inputs[..] else {
            return Err(Error::invalid_argument("--analyze-source takes only one model"));
        };
        let wishes = Wishes { arch: args.arch.as_deref(), quality: quality(args) };
        return Analysis::of(&args.open, input, wishes, context).map(|a| Outcome::Analyzed(Box::new(a)));
    }
    if args.sha256.is_some() && !operands.inputs.iter().all(|input| is_behind_https(input)) {
        let message =
            "--sha256 is for a file behind https: other inputs are verified by what is beside them, or not";
        return Err(Error::invalid_argument(message).hint("leave out --sha256"));
    }
    let names_nothing = args.output().is_none() && args.to.is_none() && operands.recipes.is_empty();
    if args.resume && !args.plan && names_nothing {
        return finish_in(&args.input, context);
    }
    let base = options(args, &operands, context)?;
    if operands.output.as_deref().is_some_and(is_stdout) {
        if !operands.is_plain() || args.plan || args.resume {
            let message = "standard output takes one model, all at once";
            return Err(Error::invalid_argument(message).hint("name an output file"));
        }
        return to_stdout(&context.host(), &base, context);
    }
    if operands.is_plain() {
        return one(args, &context.host(), &base, context);
    }
    let host = context.host();
    let all = operands.conversions(&host, &base)?;
    match &all[..] {
        [of_one] if of_one.len() == 1 => one(args, &host, &of_one[0], context),
        _ => several(&host, &operands, &all, args.plan, context).map(Outcome::Several),
    }
}

fn is_behind_https(input: &Path) -> bool {
    matches!(Address::of(input), Some(Ok(Address::Url(_))))
}

/// One model to one output.
fn one(args: &Args, host: &Host, options: &ConvertOptions, context: &Context) -> Result<Outcome> {
    let outcome = with(host, options, args.plan, context)?;
    if let (Some(path), Outcome::Done(done, _)) = (&options.report, &outcome) {
        write_report(path, done, options.force)?;
    }
    Ok(outcome)
}

/// Finishes what was stopped while it put files into a folder.
fn finish_in(folder: &Path, context: &Context) -> Result<Outcome> {
    only_a_path(folder)?;
    let host = context.host();
    let shown = folder.display().to_string();
    finish(folder, &shown, &host.steps)?.map(Outcome::Finished).ok_or_else(|| {
        let error = Error::invalid_argument("nothing to finish in this folder").in_file(shown);
        error.hint("run `apr convert IN OUT --resume` to resume a conversion")
    })
}

/// Writes the effect of quantization. JSON: `apr.quantization/1`: the file that `apr convert --report` writes: `tensors`
/// (each `name`, `from`, `to`, `shape`, `bytes`, and what was measured: `values`, `rmse`, `max_abs_error`, `snr_db` (null if
/// nothing was lost), `cosine` (null if all values are zero), `bits_per_weight`, and `not_finite` if some values are);
/// `total`, the same measurements over all of them; after `--resume` `unmeasured_tiles`, written by the earlier run.
///
/// # Errors
/// Io, which says that the output is in place.
pub fn write_report(path: &Path, done: &Converted, force: bool) -> Result<()> {
    let empty = Quantized::default();
    let quantized = done.quantized.as_ref().unwrap_or(&empty);
    let json = with_schema("apr.quantization/1", quantized)?;
    let file = OutputFile::new(path, "report", force);
    file.write(format!("{json:#}\n").as_bytes()).map_err(|error| {
        let message =
            format!("the output is complete, but its report could not be written: {}", error.message());
        Error::io(message).in_file(path.display().to_string()).hint("write the report elsewhere")
    })
}

/// Does what the options say, or plans to.
///
/// # Errors
/// As [`run`].
pub fn with(host: &Host, options: &ConvertOptions, only_plan: bool, context: &Context) -> Result<Outcome> {
    if only_plan {
        return plan(host, options).map(|plan| Outcome::Planned(Box::new(plan)));
    }
    let detail = if context.terminal.verbose > 0 { Detail::All } else { Detail::Short };
    convert(host, options).map(|done| Outcome::Done(Box::new(done), detail))
}

/// The treatment of findings.
fn quality(args: &Args) -> Quality {
    let Args { strict, relaxed, allow_nonfinite, .. } = *args;
    Quality { strict, relaxed, allow_nonfinite }.forced(args.force)
}

fn options(args: &Args, operands: &Operands, context: &Context) -> Result<ConvertOptions> {
    let output = &operands.output;
    if output.is_none() && args.to.is_none() && operands.recipes.is_empty() {
        return Err(Error::invalid_argument("missing output: neither a path nor a format was given")
            .hint("run `apr convert IN OUT` or `apr convert IN --to FORMAT`"));
    }
    Ok(ConvertOptions {
        input: operands.inputs[0].clone(),
        output: output.clone(),
        from: args.open.from.clone(),
        to: args.to.clone(),
        options: args.open.options.clone(),
        arch: args.arch.clone(),
        wants_architecture: args.wants_architecture,
        renaming: args.tensors.renaming()?,
        choice: args.tensors.choice(),
        prune_layers: args.tensors.prune_layers(),
        renames: args.tensors.rename.clone(),
        foreign: match args.foreign {
            Foreign::Default => ForeignPolicy::Default,
            Foreign::Typed => ForeignPolicy::Typed,
            Foreign::Keep => ForeignPolicy::Keep,
            Foreign::Drop => ForeignPolicy::Drop,
        },
        max_shard_size: args.max_shard_size,
        max_shard_tensors: args.max_shard_tensors,
        quantization: args.types.wishes()?,
        verify: match args.verify {
            Verify::Quick => VerifyMode::Quick,
            Verify::Full => VerifyMode::Full,
            Verify::Off => VerifyMode::Off,
        },
        set: args.keys.all_set(),
        unset: args.keys.unset.clone(),
        report: args.types.report.clone().filter(|_| !args.plan),
        reads: context
            .reads()
            .chain(args.types.reads())
            .chain(&args.tensors.tensor_mapping)
            .cloned()
            .collect(),
        force: args.force,
        in_place: false,
        allow_nonfinite: args.allow_nonfinite,
        strict: args.strict,
        relaxed: args.relaxed,
        resume: args.resume,
        bare: args.open.bare,
    })
}

impl Report for Outcome {
    fn json(&self) -> Result<Json> {
        match self {
            Outcome::Planned(plan) => with_schema("apr.plan/1", plan),
            Outcome::Analyzed(analysis) => analysis.json(),
            Outcome::Done(done, _) | Outcome::Streamed(done) => with_schema("apr.convert/1", done),
            Outcome::Finished(finished) => with_schema("apr.finished/1", finished),
            Outcome::Several(all) => all.json(),
        }
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<Streamed> {
        match self {
            Outcome::Planned(plan) => write_document(out, plan),
            Outcome::Done(done, _) => write_document(out, done),
            Outcome::Analyzed(_) | Outcome::Finished(_) | Outcome::Streamed(_) | Outcome::Several(_) => {
                Ok(Streamed::No)
            }
        }
    }

    fn warnings(&self) -> &[String] {
        match self {
            Outcome::Planned(plan) => &plan.warnings,
            Outcome::Finished(_) => &[],
            Outcome::Analyzed(analysis) => analysis.warnings(),
            Outcome::Done(done, _) | Outcome::Streamed(done) => &done.warnings,
            Outcome::Several(all) => &all.warnings,
        }
    }

    fn warnings_mut(&mut self) -> Option<&mut Vec<String>> {
        match self {
            Outcome::Planned(plan) => Some(&mut plan.warnings),
            Outcome::Done(done, _) | Outcome::Streamed(done) => Some(&mut done.warnings),
            Outcome::Analyzed(_) | Outcome::Finished(_) | Outcome::Several(_) => None,
        }
    }

    fn quiet(&self) -> String {
        match self {
            Outcome::Planned(_) => self.to_string(),
            Outcome::Several(all) => all.quiet(),
            Outcome::Analyzed(_) | Outcome::Done(..) | Outcome::Streamed(_) | Outcome::Finished(_) => {
                String::new()
            }
        }
    }

    fn done(&self) -> Option<&'static str> {
        let written = match self {
            Outcome::Several(all) => all.has_written(),
            _ => matches!(self, Outcome::Done(..) | Outcome::Finished(_)),
        };
        written.then_some(IN_PLACE)
    }

    fn verdict(&self) -> Result<()> {
        match self {
            Outcome::Analyzed(analysis) => analysis.verdict(),
            Outcome::Several(all) => all.verdict(),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Planned(plan) => writeln!(f, "{plan}"),
            Outcome::Analyzed(analysis) => write!(f, "{analysis}"),
            Outcome::Finished(finished) => writeln!(f, "{finished}"),
            Outcome::Done(done, detail) => write!(f, "{}", Shown(done, *detail)),
            // The model is there.
            Outcome::Streamed(_) => Ok(()),
            Outcome::Several(all) => write!(f, "{all}"),
        }
    }
}
