//! `apr report`: what is in this model, and how far is another from it, on one page?

use crate::cli::context::Context;
use crate::cli::flags::open_args::OpenArgs;
use crate::cli::output::verb_report::{Report, Streamed, with_schema, write_with_schema};
use crate::cli::sandbox_worker::{Given, tokens_of};
use crate::cli::verbs::running::prompt::of_text;
use apr_engine::crew::Crew;
use apr_engine::open::{OpenedModel, check_options};
use apr_engine::survey::{Survey, survey};
use apr_host::destination::output_file::OutputFile;
use apr_host::host::Host;
use apr_host::report::{Activations, MOST_TENSORS, survey_page};
use apr_host::running::{LoadOptions, load};
use apr_host::sizes::{show_count, show_number_of, show_size};
use apr_inference::generation::Model;
use apr_inference::trace::{Subject, Tracer};
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Make a page about a model, or about two
///
/// One HTML file that opens in any browser, without a network: a summary,
/// findings, statistics and a histogram of every tensor, layer by layer.
/// Quantized values are decoded. With a second model, a heat map shows how
/// far its values lie from the first one's, across formats and types.
///
/// Every value is read once. Findings do not change the exit code: `apr
/// validate` and `apr diff` judge.
///
/// Examples:
///   apr report model.gguf
///   apr report source/ model-Q4_K_M.gguf -o loss.html
///   apr report model.gguf --trace 'Why is the sky blue?'
///   apr report model.gguf -o - > page.html
///   apr report model.gguf --json | jq '.findings'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The model: a file, any part of it, its index, or its folder
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Second model to compare with
    #[arg(value_name = "B")]
    b: Option<PathBuf>,
    /// Write the page here, `-` for stdout; else to NAME.report.html, or with --json nowhere
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Run the first model on TEXT, and show how large the result of each operation is
    #[arg(long, value_name = "TEXT")]
    trace: Option<String>,
    /// Replace the page if it exists
    #[arg(short, long)]
    force: bool,
    /// How the models are opened.
    #[command(flatten)]
    pub open: OpenArgs,
}

/// The page and what it shows. JSON: `output`, the page's path or null; `a` and `b`, the models as a whole (`path`,
/// `format`, `bytes`, `between_payloads`, `tensors`, `types`, `summary` as that of `inspect`); `findings`; `layers`;
/// `heat_map` (`kinds`, `rows`, `outside`); with `--trace` `activations` (`tokens`, `kinds`, `layers`, `outside`, `not_finite`); `tensors`, each with its `statistics`, `rms` and `histogram` in `a` and in
/// `b`, and the `error` between both; `notes`; `warnings`.
#[derive(Debug, Serialize)]
pub struct Reported {
    output: Option<String>,
    #[serde(flatten)]
    survey: Survey,
    #[serde(skip_serializing_if = "Option::is_none")]
    activations: Option<Activations>,
    warnings: Vec<String>,
    /// The page, if it is to be printed.
    #[serde(skip)]
    printed: Option<String>,
    /// Bytes of the page.
    #[serde(skip)]
    bytes: u64,
}

/// Opens what is named, measures it and writes the page.
///
/// # Errors
/// What opening and reading raised; InvalidArgument, Io or NotFound for an output that cannot be written.
pub fn run(args: &Args, context: &Context) -> Result<Reported> {
    let json = context.terminal.json;
    let output = match &args.output {
        None if json => None,
        None => Some(default_output(&args.a)),
        Some(path) if path.as_os_str() == "-" && json => {
            let error = Error::invalid_argument("--json and `-o -` both write to stdout");
            return Err(error.hint("remove one of them, or specify a file for the page"));
        }
        Some(path) => Some(path.clone()),
    };
    let host = context.host();
    let a = args.open.open(&host, &args.a)?;
    let b = args.b.as_deref().map(|b| args.open.open(&host, b)).transpose()?;
    let opened: Vec<_> = [Some(&a), b.as_ref()].into_iter().flatten().collect();
    let formats =
        opened.iter().map(|model| host.registry.format(&model.format)).collect::<Result<Vec<_>>>()?;
    check_options(&host.registry, &formats, &args.open.options)?;
    let path = output.as_deref().filter(|path| path.as_os_str() != "-");
    let file = path.map(|path| OutputFile::new(path, "page", args.force));
    if let Some(file) = &file {
        let mut inputs = context.inputs(&host.registry);
        opened.iter().for_each(|model| inputs.add_model(model));
        file.check(&inputs)?;
    }
    let survey = survey(&host, &a, b.as_ref(), MOST_TENSORS)?;
    let activations = args.trace.as_ref().map(|text| traced(&host, &a, text, context)).transpose()?;
    let page = output.as_ref().map(|_| survey_page(&survey, activations.as_ref())).transpose()?;
    if let Some((file, page)) = file.zip(page.as_ref()) {
        host.check_cancelled()?;
        file.write(page.as_bytes())?;
    }
    Ok(Reported {
        output: path.map(|path| path.display().to_string()),
        survey,
        activations,
        warnings: opened.iter().flat_map(|model| model.warnings.clone()).collect(),
        bytes: page.as_ref().map_or(0, |page| page.len() as u64),
        printed: page.filter(|_| path.is_none()),
    })
}

/// The activations of a text.
///
/// # Errors
/// Unsupported for a model without a tokenizer; what loading and computing raised.
fn traced(host: &Host, opened: &OpenedModel, text: &str, context: &Context) -> Result<Activations> {
    let tokens = tokens_of(Given::of(host, opened)?, host, opened, context)?;
    let ids = of_text(&tokens, text)?;
    let options = LoadOptions { threads: host.threads().width(), measures: true, ..LoadOptions::default() };
    let mut loaded = load(host, opened, &options)?;
    let subject = Subject {
        runner: &mut loaded.runner,
        built: &loaded.built,
        specs: &loaded.specs,
        probes: &loaded.probes,
    };
    let began = Instant::now();
    let now = || began.elapsed();
    let mut tracer = Tracer::new(subject, &now);
    tracer.feed(&ids)?;
    Ok(Activations::of(&tracer.finish().prompt))
}

/// `NAME.report.html` in the current folder.
fn default_output(model: &Path) -> PathBuf {
    let whole = model.canonicalize().unwrap_or_else(|_| model.to_owned());
    let mut name =
        if whole.is_dir() { whole.file_name() } else { model.file_stem() }.unwrap_or_default().to_owned();
    name.push(".report.html");
    PathBuf::from(name)
}

impl Report for Reported {
    fn json(&self) -> Result<Json> {
        with_schema("apr.report/1", self)
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<Streamed> {
        write_with_schema(out, "apr.report/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn warnings_mut(&mut self) -> Option<&mut Vec<String>> {
        Some(&mut self.warnings)
    }

    fn quiet(&self) -> String {
        self.printed.clone().unwrap_or_default()
    }

    fn exact(&self) -> Option<&str> {
        self.printed.as_deref()
    }

    fn done(&self) -> Option<&'static str> {
        self.output.as_ref().map(|_| "the page was written")
    }
}

impl fmt::Display for Reported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(page) = &self.printed {
            return f.write_str(page);
        }
        let Survey { a, b, tensors, .. } = &self.survey;
        for (word, model) in [("a", Some(a)), ("b", b.as_ref())] {
            let Some(model) = model else { continue };
            let path = escape(&model.path, 400);
            let tensors = show_number_of(model.tensors, "tensor");
            let word = if b.is_some() { format!("{word}: ") } else { String::new() };
            writeln!(f, "{word}{path}: {}, {}, {tensors}", model.format_name, show_size(model.bytes))?;
        }
        let compared = tensors.iter().filter(|tensor| tensor.error.is_some()).count();
        if b.is_some() {
            writeln!(f, "compared: {}", show_number_of(compared, "tensor"))?;
        }
        writeln!(f, "findings: {}", show_count(self.survey.odd() as u128))?;
        match &self.output {
            Some(output) => writeln!(f, "wrote {} ({})", escape(output, 400), show_size(self.bytes)),
            None => Ok(()),
        }
    }
}
