//! `apr profile`: where does this model spend its time, and how far is that from what memory allows?

mod shares;
mod table;

use crate::cli::context::Context;
use crate::cli::flags::open_args::OpenArgs;
use crate::cli::output::verb_report::{Report, boxed, with_schema};
use crate::cli::verbs::kernels::floor::{BYTES, Floor, rate};
use crate::cli::verbs::running::args::ModelArgs;
use crate::cli::verbs::running::loading::{Wishes, load_without_tokens};
use crate::cli::verbs::running::prompt::ids_without_pattern;
use crate::cli::verbs::trace::subject::{Config, ModelFacts};
use apr_engine::crew::Crew;
use apr_host::running::{Loaded, Wanted};
use apr_host::threads::Team;
use apr_inference::generation::Model;
use apr_inference::trace::{Recording, Recordings, Subject, Tracer};
use apr_sdk::{Error, Result};
use serde::Serialize;
use serde_json::Value as Json;
use shares::Shares;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Tokens of the prompt, unless the user says how many.
const PROMPT: u32 = 512;

/// Show where a model spends its time
///
/// Runs a prompt and an answer of tokens without a pattern, and shows for each
/// kind of operation and for each layer the time it took, its share, the bytes of
/// weights, keys and values that it read, and how many of them in a second. An
/// answer cannot be faster than memory is read: that floor is measured too, and
/// what each operation reaches of it is shown. A prompt reads as much for all its
/// tokens together, so there arithmetic is the limit, not memory.
///
/// Examples:
///   apr profile model.gguf
///   apr profile model.gguf -p 128 --gen 64 --threads 1
///   apr profile model.gguf --json | jq '.answer.operations'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "MODEL")]
    file: PathBuf,
    /// Number of tokens of the prompt [default: 512, or as many as the context has room for]
    #[arg(short = 'p', long = "prompt", alias = "n-prompt", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    prompt: Option<u32>,
    /// Number of tokens of the answer, 0 for none
    #[arg(long = "gen", alias = "n-gen", value_name = "N", default_value_t = 32)]
    answer: u32,
    /// Number of repetitions, of which each operation's least time counts
    #[arg(short = 'r', long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,
    /// How the model is opened.
    #[command(flatten)]
    pub open: OpenArgs,
    /// How the model is loaded.
    #[command(flatten)]
    model: ModelArgs,
}

/// The profile. JSON: `model`, `config`, `floor_bytes_per_second` (null for a device with memory of its own), `prompt` and
/// `answer`, each with `tokens`, `seconds` of the best repetition, `tokens_per_second`, and `operations` and `layers`: `name`,
/// `count` of operations in a step, `seconds`, `share` of the operations' time, `bytes`, `bytes_per_second` and
/// `share_of_floor`.
#[derive(Debug, Serialize)]
pub struct Profiled {
    model: ModelFacts,
    config: Config,
    floor_bytes_per_second: Option<f64>,
    prompt: Shares,
    answer: Option<Shares>,
    warnings: Vec<String>,
}

/// Loads the model and runs it.
///
/// # Errors
/// InvalidArgument if the context has no room; Unsupported for a device that takes no times; what loading and computing raised.
pub fn run(args: &Args, context: &Context) -> Result<Box<dyn Report>> {
    let host = context.host();
    let wishes =
        Wishes { open: &args.open, model: &args.model, wanted: Wanted::Logits, reads: None, writes: None };
    let wanted = args.prompt.unwrap_or(PROMPT).saturating_add(args.answer);
    let mut loaded = load_without_tokens(&args.file, &wishes, 1, wanted, &host, context)?;
    let left = loaded.runner.context().saturating_sub(args.answer).max(1);
    let prompt = args.prompt.unwrap_or(PROMPT.min(left));
    let tokens = prompt.saturating_add(args.answer);
    if tokens > loaded.runner.context() {
        let room = loaded.runner.context();
        let message =
            format!("prompt and answer have {tokens} tokens, but the context has room for only {room}");
        return Err(Error::invalid_argument(message)
            .hint(format!("pass --context {tokens}, or profile fewer tokens")));
    }
    let ids = ids_without_pattern(tokens, loaded.facts.vocabulary);
    let floor = if loaded.facts.own_memory { None } else { Some(Floor::new()?) };
    let team = Team::new(host.threads().width(), Arc::clone(&host.cancel));
    let mut best = Duration::MAX;
    let mut all = Vec::new();
    // The first run makes pages of caches, and counts as none.
    for repetition in 0..=args.repetitions {
        host.check_cancelled()?;
        if let Some(floor) = &floor {
            best = best.min(floor.pass(&team)?);
        }
        let recordings = once(&mut loaded, &ids, prompt)?;
        if repetition > 0 {
            all.push(recordings);
        }
    }
    refuse_without_times(&all, &loaded)?;
    let floor = floor.map(|_| rate(BYTES, best));
    let prompts: Vec<&Recording> = all.iter().map(|one| &one.prompt).collect();
    let answers: Vec<&Recording> = all.iter().filter_map(|one| one.answer.as_ref()).collect();
    let layers = prompts.first().map_or(0, |prompt| prompt.layers());
    Ok(boxed(Profiled {
        model: ModelFacts::of(&args.file.display().to_string(), &loaded.facts, layers),
        config: Config::of(&loaded.facts, &loaded.runner),
        floor_bytes_per_second: floor,
        // What a prompt reads is read once for many tokens: memory is not what bounds it.
        prompt: Shares::of(&prompts, floor),
        answer: (!answers.is_empty()).then(|| Shares::of(&answers, floor)),
        warnings: loaded.facts.warnings,
    }))
}

/// Runs a prompt and, token by token, an answer.
fn once(loaded: &mut Loaded, ids: &[u32], prompt: u32) -> Result<Recordings> {
    loaded.runner.clear()?;
    let began = Instant::now();
    let now = || began.elapsed();
    let subject = Subject {
        runner: &mut loaded.runner,
        built: &loaded.built,
        specs: &loaded.specs,
        probes: &loaded.probes,
    };
    let mut tracer = Tracer::new(subject, &now);
    let prompt = usize::try_from(prompt).unwrap_or(usize::MAX);
    let (first, rest) = ids.split_at_checked(prompt).unwrap_or((ids, &[]));
    tracer.feed(first)?;
    for id in rest {
        tracer.feed(&[*id])?;
    }
    Ok(tracer.finish())
}

/// Refuses a device that does not say how long its operations take.
fn refuse_without_times(all: &[Recordings], loaded: &Loaded) -> Result<()> {
    let mut times = all.iter().flat_map(|one| &one.prompt.operations).map(|operation| operation.nanoseconds);
    if times.any(|time| time > 0) {
        return Ok(());
    }
    let backend = &loaded.facts.backend;
    let error = Error::unsupported(format!("the device of the backend `{backend}` takes no times"));
    Err(error.hint("pass --backend-option timings=on if the backend has that option, or --no-gpu"))
}

impl Report for Profiled {
    fn json(&self) -> Result<Json> {
        with_schema("apr.profile/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl fmt::Display for Profiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        table::write(f, self)
    }
}
