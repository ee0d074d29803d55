//! `apr trace`: what does each operation of a model give for this prompt?

mod anomalies;
mod chrome;
pub mod document;
mod figures;
pub mod step_functions;
mod stepper;
pub mod subject;
mod table;
pub mod timestamp;

use crate::cli::context::Context;
use crate::cli::flags::open_args::OpenArgs;
use crate::cli::output::verb_report::{Report, Streamed, boxed, write_document};
use crate::cli::verbs::departure::{self, Compared};
use crate::cli::verbs::run::logits::header;
use crate::cli::verbs::run::question::QuestionArgs;
use crate::cli::verbs::running::args::ModelArgs;
use crate::cli::verbs::running::loading::{Seen, Wishes};
use crate::cli::verbs::running::signs::explained;
use apr_host::destination::output_file::OutputFile;
use apr_host::destination::rows_folder::RowsFolder;
use apr_host::running::Wanted;
use apr_host::sizes::show_number_of;
use apr_inference::generation::Model;
use apr_inference::trace::{Anomaly, Tracer, Values, anomalies};
use apr_sdk::{Error, Result, escape};
use document::{Document, Filter};
use serde_json::Value as Json;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;
use subject::{Asked, Trace, most_probable};

/// Trace a model's computation, operation by operation
///
/// Runs the prompt and prints, for each result of each operation, its shape, the
/// least and the greatest value, the mean, the root mean square (RMS), the share
/// of zeros, the number of values that are NaN or infinite, and for the operation
/// the time it took and the bytes of weights, keys and values that it read. The
/// trace changes no result. With --detect-anomalies, it looks for values that are
/// not finite, spikes, outliers and dead neurons, and says where they are.
///
/// Examples:
///   apr trace model.gguf 'Why is the sky blue?'
///   apr trace model.gguf -f prompt.txt --tensor-filter 'layer\.3\.' -n 8
///   apr trace model.gguf --ids 1,15043 --detect-anomalies
///   apr trace model/ 'Hello' --format chrome -o trace.json
///   apr trace model/ 'Hello' --dump activations/
///   apr trace model.gguf 'Hello' --interactive
///   apr trace converted.gguf original/ --diff
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "MODEL")]
    file: PathBuf,
    /// Form of the trace; JSON too with --json [default: text]
    #[arg(long, value_name = "FORM")]
    format: Option<Form>,
    /// Write the trace to FILE instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the trace to FILE, in the form of its extension: .txt, .json, .perfetto or .chrome
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "format"])]
    export: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Write every result to the new folder FOLDER, as a NumPy array of tokens x elements in 32-bit floats
    #[arg(long, alias = "dump-activations", value_name = "FOLDER")]
    dump: Option<PathBuf>,
    /// Show only results whose name matches PATTERN, a regular expression that begins at the name's start
    #[arg(long, value_name = "PATTERN", value_parser = Filter::parse)]
    tensor_filter: Option<Filter>,
    /// Look for values that are not finite, spikes, outliers and dead neurons
    #[arg(long)]
    detect_anomalies: bool,
    /// Add the figures of each token to JSON
    #[arg(long)]
    per_token: bool,
    /// Generate N tokens after the prompt, the most probable each time, and trace them too
    #[arg(short = 'n', long, aliases = ["n-predict", "predict"], value_name = "N", default_value_t = 0)]
    max_tokens: u32,
    /// Compare with the model in the place of PROMPT: find the first operation that departs from it, and what that looks like; the
    /// text is that of --prompt or --file
    #[arg(long, conflicts_with_all = ["output", "export", "format", "dump", "tensor_filter", "detect_anomalies", "per_token", "interactive", "ids", "raw", "chat", "system", "template"])]
    diff: bool,
    /// Step through the operations on the terminal
    #[arg(long, conflicts_with_all = ["output", "export", "format"])]
    interactive: bool,
    /// How the model is opened.
    #[command(flatten)]
    pub open: OpenArgs,
    /// What the model is asked.
    #[command(flatten)]
    question: QuestionArgs,
    /// How the model is loaded.
    #[command(flatten)]
    model: ModelArgs,
}

/// The form of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// A table
    Text,
    /// A JSON document
    Json,
    /// The JSON of Chrome's trace viewer, which Perfetto opens too
    Chrome,
    /// The history of events that AWS Step Functions keeps
    StepFunctions,
}

impl Form {
    /// The form of a file's extension.
    fn of(path: &Path) -> Result<Form> {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        match extension.as_str() {
            "txt" | "text" => Ok(Form::Text),
            "json" => Ok(Form::Json),
            "perfetto" | "chrome" => Ok(Form::Chrome),
            _ => {
                let message = format!("no form of a trace has the extension `{}`", escape(&extension, 40));
                Err(Error::invalid_argument(message)
                    .in_file(path.display().to_string())
                    .hint("use .txt, .json, .perfetto or .chrome, or pass --format and --output"))
            }
        }
    }
}

/// A trace, and the way it is shown.
pub struct Traced {
    trace: Trace,
    anomalies: Option<Vec<Anomaly>>,
    form: Form,
    filter: Option<Filter>,
    per_token: bool,
    /// What was written, in words.
    written: Option<String>,
    warnings: Vec<String>,
}

/// Loads the model, runs the prompt and describes what was computed.
///
/// # Errors
/// InvalidArgument for a prompt, a form or a file that is none; what loading and computing raised.
pub fn run(args: &Args, context: &Context) -> Result<Box<dyn Report>> {
    if args.diff {
        return compare(args, context).map(boxed);
    }
    let form = match (&args.export, args.format) {
        (Some(path), _) => Form::of(path),
        (None, Some(form)) => Ok(form),
        (None, None) if context.terminal.json => Ok(Form::Json),
        (None, None) => Ok(Form::Text),
    };
    if args.interactive {
        stepper::check_terminal(context)?;
    }
    let path = args.output.as_ref().or(args.export.as_ref()).filter(|path| path.as_os_str() != "-");
    let file = path.map(|path| OutputFile::new(path, "trace", args.force));
    if let Some(folder) = &args.dump {
        RowsFolder::check(folder)?;
    }
    let host = context.host();
    let wishes = Wishes {
        open: &args.open,
        model: &args.model,
        wanted: Wanted::Logits,
        reads: args.question.file(),
        writes: file.as_ref(),
    };
    // Where something is, and what is dead, only the values themselves show.
    let needs_values = args.dump.is_some() || args.detect_anomalies || args.interactive;
    let seen = if needs_values { Seen::Values } else { Seen::Figures };
    let mut asked = Asked::load(&args.file, &args.question, &wishes, seen, &host, context)?;
    // That a file is one of the inputs is worse than that its name says no form.
    let form = form?;
    let mut folder = args.dump.as_deref().map(|path| RowsFolder::create(path, header)).transpose()?;
    let began = Instant::now();
    let now = || began.elapsed();
    let mut take = |values: &Values<'_>| -> Result<()> {
        host.check_cancelled()?;
        let is_wanted = args.tensor_filter.as_ref().is_none_or(|filter| filter.matches(values.name));
        match &mut folder {
            Some(folder) if is_wanted => {
                folder.append(&format!("{}.npy", values.name), values.width, values.rows)
            }
            _ => Ok(()),
        }
    };
    let trace = asked.start();
    let subject = asked.computation.subject(&mut asked.runner);
    let mut tracer = Tracer::new(subject, &now).with_values(&mut take);
    let ran = generate(&mut tracer, &asked.prompt, args.max_tokens, &|| host.check_cancelled());
    let logits = ran.map_err(|error| explained(error, &args.file))?;
    let recordings = tracer.finish();
    let arrays = folder.map(RowsFolder::finish).transpose()?;
    let mut warnings = asked.warnings(context.terminal.json);
    if recordings.prompt.is_cut {
        warnings.push("there are too many tokens to keep the figures of each one".to_owned());
    }
    let trace = asked.finish(trace, recordings, &logits);
    let mut traced = Traced {
        anomalies: args.detect_anomalies.then(|| anomalies(&trace.prompt)),
        trace,
        form,
        filter: args.tensor_filter.clone(),
        per_token: args.per_token,
        written: arrays.map(|count| show_number_of(count, "array")).zip(args.dump.as_ref()).map(
            |(count, folder)| format!("wrote {count} to {}", escape(&folder.display().to_string(), 400)),
        ),
        warnings,
    };
    if args.interactive {
        stepper::step_through(&traced.trace, &anomalies(&traced.trace.prompt), context)?;
        return Ok(boxed(Stepped));
    }
    if let Some((file, path)) = file.zip(path) {
        file.write(traced.rendered()?.as_bytes())?;
        let shown = escape(&path.display().to_string(), 400);
        let more = traced.written.map_or_else(String::new, |more| format!("{more}\n"));
        traced.written = Some(format!("{more}wrote {shown}"));
        return Ok(boxed(Written(traced)));
    }
    Ok(boxed(traced))
}

/// Compares the model with the one in the prompt's place.
fn compare(args: &Args, context: &Context) -> Result<Compared> {
    let (reference, text) = args.question.beside()?;
    let reference = reference.ok_or_else(|| {
        Error::invalid_argument("missing the model to compare with").hint("run `apr trace A B --diff`")
    })?;
    let question = departure::Question {
        suspect: &args.file,
        reference: Path::new(reference),
        text,
        tokens: None,
        bound: departure::BOUND,
        max_divergence: f64::INFINITY,
        open: &args.open,
        model: &args.model,
    };
    departure::run(&question, context)
}

/// Runs a prompt and generates tokens, the most probable each time; returns the last logits.
fn generate(
    model: &mut dyn Model,
    prompt: &[u32],
    count: u32,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Vec<f32>> {
    let mut logits = model.feed(prompt)?.to_vec();
    for _ in 0..count {
        stop()?;
        if model.position() >= model.context() {
            break;
        }
        let Some(id) = most_probable(&logits, 1).first().map(|next| next.id) else { break };
        logits = model.feed(&[id])?.to_vec();
    }
    Ok(logits)
}

impl Traced {
    fn document(&self) -> Document<'_> {
        Document::new(
            &self.trace,
            self.anomalies.as_deref(),
            self.filter.as_ref(),
            self.per_token,
            &self.warnings,
        )
    }

    /// The trace as it is written to a file.
    fn rendered(&self) -> Result<String> {
        let text = match self.form {
            Form::Text => return Ok(self.to_string()),
            Form::Json => serde_json::to_string_pretty(&self.document()),
            Form::Chrome => serde_json::to_string(&chrome::Chrome::of(&self.trace)),
            Form::StepFunctions => serde_json::to_string_pretty(&step_functions::History::of(&self.trace)),
        };
        let text = text.map_err(|error| Error::io(format!("cannot write the trace as JSON: {error}")))?;
        Ok(text + "\n")
    }
}

impl Report for Traced {
    fn json(&self) -> Result<Json> {
        serde_json::to_value(self.document())
            .map_err(|error| Error::io(format!("cannot write the trace as JSON: {error}")))
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<Streamed> {
        match self.form {
            Form::Text | Form::Json => write_document(out, &self.document()),
            Form::Chrome => write_document(out, &chrome::Chrome::of(&self.trace)),
            Form::StepFunctions => write_document(out, &step_functions::History::of(&self.trace)),
        }
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl fmt::Display for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.form {
            Form::Text => {
                table::write(f, &self.trace, self.filter.as_ref())?;
                if let Some(found) = &self.anomalies {
                    anomalies::write(f, &self.trace, found)?;
                }
                match &self.written {
                    Some(written) => writeln!(f, "\n{written}"),
                    None => Ok(()),
                }
            }
            _ => f.write_str(&self.rendered().map_err(|_| fmt::Error)?),
        }
    }
}

/// A trace that went to a file. JSON: `written`, what was written where; the number of `operations`; `not_finite`, the number of
/// values that are NaN or infinite; with `--detect-anomalies`, the number of `anomalies`, else null; `warnings`.
struct Written(Traced);

impl Report for Written {
    fn json(&self) -> Result<Json> {
        let Traced { trace, anomalies, written, warnings, .. } = &self.0;
        Ok(serde_json::json!({
            "schema": "apr.trace.written/1",
            "written": written,
            "operations": trace.prompt.operations.len(),
            "not_finite": trace.prompt.not_finite(),
            "anomalies": anomalies.as_ref().map(Vec::len),
            "warnings": warnings,
        }))
    }

    fn warnings(&self) -> &[String] {
        &self.0.warnings
    }

    fn quiet(&self) -> String {
        String::new()
    }

    fn done(&self) -> Option<&'static str> {
        Some("the trace was written")
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Traced { trace, anomalies, written, .. } = &self.0;
        if let Some(found) = anomalies {
            anomalies::write(f, trace, found)?;
        }
        writeln!(f, "{}", written.as_deref().unwrap_or_default())
    }
}

/// That the user has seen enough: nothing is printed.
struct Stepped;

impl Report for Stepped {
    fn json(&self) -> Result<Json> {
        Ok(Json::Null)
    }
}

impl fmt::Display for Stepped {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
