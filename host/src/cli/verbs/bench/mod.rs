//! `apr bench`: how fast does this model run here?

mod measure;
mod roofline;
mod table;

use crate::cli::context::Context;
use crate::cli::flags::open_args::OpenArgs;
use crate::cli::output::verb_report::{Report, boxed, with_schema};
use crate::cli::verbs::kernels::floor::{BYTES, Floor, rate};
use crate::cli::verbs::running::args::ModelArgs;
use crate::cli::verbs::running::loading::{Wishes, load_without_tokens};
use apr_engine::crew::Crew;
use apr_host::destination::output_file::OutputFile;
use apr_host::running::Wanted;
use apr_host::threads::Team;
use apr_sdk::{Error, Result};
use measure::{Kind, Test};
use roofline::Roofline;
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use table::Model;

/// Measure how fast a model computes prompts and answers
///
/// Prints what llama-bench prints: pp512 is a prompt of 512 tokens, tg128 an
/// answer of 128 tokens, tg128x8 eight such answers side by side, a token of each
/// in every step, and the tokens per second of all. Each is the mean of several
/// repetitions after a warm-up. In between, memory bandwidth is measured, which
/// limits the speed of an answer; the last line compares both.
///
/// Examples:
///   apr bench model.gguf
///   apr bench model.gguf -p 128,512 --gen 32 -r 3 --threads 1
///   apr bench model.gguf --plot roofline.svg
///   apr bench model.gguf --json | jq '.tests[].tokens_per_second'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "MODEL")]
    file: PathBuf,
    /// Number of tokens of the prompt; several with commas, 0 for none
    #[arg(
        short = 'p',
        long = "prompt",
        alias = "n-prompt",
        value_name = "N",
        value_delimiter = ',',
        value_parser = parse_tokens,
        default_value = "512"
    )]
    prompts: Vec<u32>,
    /// Number of tokens of the answer; several with commas, 0 for none
    #[arg(long = "gen", alias = "n-gen", value_name = "N", value_delimiter = ',', value_parser = parse_tokens, default_value = "128")]
    answers: Vec<u32>,
    /// Number of answers computed side by side, 2 to 8; several with commas, 0 for none
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = parse_together, default_value = "8")]
    together: Vec<u32>,
    /// Number of repetitions
    #[arg(short = 'r', long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,
    /// Draw the tests under the roofline of this machine to FILE, `-` for stdout, as an SVG picture
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Replace the picture if it exists
    #[arg(long, requires = "plot")]
    force: bool,
    /// How the model is opened.
    #[command(flatten)]
    pub open: OpenArgs,
    /// How the model is loaded.
    #[command(flatten)]
    model: ModelArgs,
}

/// # Errors
/// A sentence saying what is wrong.
fn parse_tokens(text: &str) -> std::result::Result<u32, String> {
    text.parse().map_err(|_| format!("invalid number of tokens `{text}`"))
}

/// # Errors
/// A sentence saying what is wrong.
fn parse_together(text: &str) -> std::result::Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number == 0 || (2..=8).contains(number));
    number.ok_or_else(|| format!("expected 0 or a number of answers from 2 to 8, found `{text}`"))
}

/// The figures. JSON: `model` (`name`, `type`, `bytes`, `parameters`, `bytes_per_token`), `backend`, `device`, `threads`,
/// `floor_bytes_per_second` (null for a device with memory of its own), and `tests`, each with `test`, `tokens` of a
/// sequence, `sequences`, `tokens_per_second` of all (the mean), `deviation`, and
/// the `seconds` of each repetition; for answers also `bytes_per_second` and its `share` of the floor.
#[derive(Debug, Serialize)]
pub struct Benched {
    model: Model,
    backend: String,
    device: String,
    threads: usize,
    floor_bytes_per_second: Option<f64>,
    tests: Vec<Test>,
    warnings: Vec<String>,
    /// The picture, if it is to be printed.
    #[serde(skip)]
    printed: Option<String>,
}

/// Loads the model and runs the tests.
///
/// # Errors
/// InvalidArgument if there is nothing to measure, or the context has no room for it; what loading and computing raised.
pub fn run(args: &Args, context: &Context) -> Result<Box<dyn Report>> {
    let kinds = kinds(args);
    let Some(longest) = kinds.iter().map(|kind| kind.tokens()).max() else {
        return Err(
            Error::invalid_argument("nothing to measure").hint("specify a number of tokens greater than 0")
        );
    };
    let is_printed = args.plot.as_ref().is_some_and(|path| path.as_os_str() == "-");
    if is_printed && context.terminal.json {
        return Err(Error::invalid_argument("--json and `--plot -` both write to stdout")
            .hint("remove one of them, or specify a file for the plot"));
    }
    let file = args.plot.as_deref().filter(|_| !is_printed);
    let file = file.map(|path| OutputFile::new(path, "picture", args.force));
    let host = context.host();
    let wishes = Wishes {
        open: &args.open,
        model: &args.model,
        wanted: Wanted::Logits,
        reads: None,
        writes: file.as_ref(),
    };
    let sequences = kinds.iter().map(|kind| kind.sequences()).max().unwrap_or(1);
    let mut loaded = load_without_tokens(&args.file, &wishes, sequences, longest, &host, context)?;
    if longest > loaded.runner.context() {
        let room = loaded.runner.context();
        return Err(Error::invalid_argument(format!(
            "a test has {longest} tokens, but the context has room for only {room}"
        ))
        .hint(format!("pass --context {longest}, or measure fewer tokens")));
    }
    let is_own = loaded.facts.own_memory;
    if is_own && args.plot.is_some() {
        return Err(Error::unsupported(
            "this device has its own memory, whose bandwidth is not measured here",
        )
        .hint("remove --plot; run `apr kernels bench` to measure the device"));
    }
    let floor = if is_own { None } else { Some(Floor::new()?) };
    let team = Team::new(host.threads().width(), Arc::clone(&host.cancel));
    let mut best = Duration::MAX;
    let mut tests = Vec::new();
    for kind in kinds {
        tests.push(measure::run(kind, args.repetitions, &mut loaded, &mut || {
            if let Some(floor) = &floor {
                best = best.min(floor.pass(&team)?);
            }
            host.check_cancelled()
        })?);
    }
    let floor = floor.map(|_| rate(BYTES, best));
    tests.iter_mut().for_each(|test| test.compare(loaded.facts.bytes_per_token, floor));
    let model = Model::of(&loaded.facts);
    let picture = args.plot.as_ref().zip(floor).map(|(_, floor)| Roofline::of(&model, &tests, floor).svg());
    if let Some((file, picture)) = file.zip(picture.as_ref()) {
        file.write(picture.as_bytes())?;
    }
    let facts = loaded.facts;
    Ok(boxed(Benched {
        model,
        backend: facts.backend,
        device: facts.device,
        threads: facts.threads,
        floor_bytes_per_second: floor,
        tests,
        warnings: facts.warnings,
        printed: picture.filter(|_| is_printed),
    }))
}

/// The tests to run: prompts, and answers alone and together.
fn kinds(args: &Args) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = args.prompts.iter().map(|tokens| Kind::Prompt(*tokens)).collect();
    for tokens in &args.answers {
        kinds.push(Kind::Answer(*tokens));
        kinds.extend(args.together.iter().map(|sequences| Kind::Together(*sequences, *tokens)));
    }
    kinds.retain(|kind| kind.tokens() > 0 && kind.sequences() > 0);
    kinds
}

impl Report for Benched {
    fn json(&self) -> Result<Json> {
        with_schema("apr.bench/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl fmt::Display for Benched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.printed {
            Some(picture) => f.write_str(picture),
            None => table::write(f, self),
        }
    }
}
