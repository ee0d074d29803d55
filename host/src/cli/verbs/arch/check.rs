//! `apr arch check`: is a table right, by itself, for models, and in what it computes?

use super::logits::{Compared, LogitsArgs, compare};
use crate::cli::context::Context;
use crate::cli::flags::open_args::OpenArgs;
use crate::cli::output::verb_report::{Report, with_schema};
use apr_engine::architecture::{
    Findings, Guess, Table, Tried, check_text, is_draft, marked, taken_over, try_on, unused,
};
use apr_engine::open::OpenedModel;
use apr_host::host::Host;
use apr_host::sizes::show_number_of;
use apr_host::storage::small_file::read_text;
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::path::{Path, PathBuf};

/// Check a table: by itself, against models, and against logits
///
/// Looks for mistakes in the table, then takes the names and shapes of each MODEL
/// to every other dialect and back. A table with the mark `draft = true`, which
/// `apr arch draft` writes, is not sound: its guesses are listed.
///
/// Names and shapes do not show what a model computes. With --logits, MODEL is
/// computed as the table says, and its logits are compared with those of its own
/// code. Three lines of Python write them (any other file with the tensors
/// `logits` and `ids` will do too):
///
///   import numpy, torch, transformers; ids = list(range(3, 67))
///   model = transformers.AutoModelForCausalLM.from_pretrained("model/", dtype=torch.float32)
///   numpy.savez("logits.npz", ids=ids, logits=model(torch.tensor(ids).unsqueeze(0)).logits.squeeze(0).detach())
///
/// Examples:
///   apr arch check mine.toml
///   apr arch check mine.toml model/
///   apr arch check mine.toml model/ --logits logits.npz
///   apr arch check mine.toml model/ --logits logits.npy --tokens 3,4,5,6
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Table file, or architecture id
    #[arg(value_name = "TABLE")]
    table: String,
    /// Models of the architecture to check against
    #[arg(value_name = "MODEL")]
    models: Vec<PathBuf>,
    /// Reference logits.
    #[command(flatten)]
    logits: LogitsArgs,
    /// How the models are opened.
    #[command(flatten)]
    open: OpenArgs,
}

/// Checks a table, tries it on models, and compares logits.
///
/// # Errors
/// InvalidArgument for an id without a table, a table that cannot be parsed, and logits without one model; what opening and
/// computing models raises.
pub fn run(args: &Args, context: &Context) -> Result<Checked> {
    let given = &args.table;
    let file =
        Some(Path::new(given)).filter(|path| path.extension().is_some_and(|e| e == "toml") || path.is_file());
    if args.logits.file.is_some() && args.models.len() != 1 {
        let error = Error::invalid_argument("--logits requires exactly one model");
        return Err(error.hint("specify it: apr arch check TABLE MODEL --logits FILE"));
    }
    let host = context.host();
    let text = match file {
        Some(path) => read_text(path)?,
        None => {
            host.registry.architecture(given).map_err(|e| e.hint("run `apr arch list` to list the ids"))?
        }
    };
    let base = |id: &str| host.registry.architecture(id);
    let table = Table::parse(&text, &base);
    let table = table.map_err(|e| e.in_file(given.to_owned()))?;
    let mut checked = Checked {
        table: given.to_owned(),
        id: table.id.clone(),
        sound: true,
        draft: table.draft,
        guesses: guesses(&table, &text)?,
        findings: check_text(&table, &text, &base)?,
        models: Vec::new(),
        logits: None,
    };
    checked.findings.warnings.extend(unused(&table, &text)?);
    checked.findings.warnings.extend(left_marks(&table, &text));
    for path in &args.models {
        let opened = args.open.open(&host, path)?;
        checked.models.push(try_model(&table, &opened));
    }
    let fits = checked.models.iter().all(|model| model.failed.is_none());
    if let (Some(reference), [model], true) = (&args.logits.file, &args.models[..], fits) {
        let host = match file {
            Some(path) => context.host_with_table(named_as_table(path)?)?,
            None => host,
        };
        let opened = args.open.open(&host, model)?;
        checked.logits = Some(compare(&quiet(host), &opened, &table.id, reference, &args.logits)?);
    }
    let same = checked.logits.as_ref().is_none_or(|logits| logits.same);
    checked.sound = checked.findings.errors.is_empty() && fits && same && !checked.draft;
    Ok(checked)
}

/// A host that does not warn of the draft, since that is what the answer is about.
fn quiet(mut host: Host) -> Host {
    host.progress = std::sync::Arc::new(apr_engine::progress::Silent);
    host
}

/// Refuses a table that no plugin folder would show either.
fn named_as_table(path: &Path) -> Result<&Path> {
    if apr_host::plugins::is_table(path) {
        return Ok(path);
    }
    let error =
        Error::invalid_argument("computing logits requires a table whose file name ends with `.toml`");
    Err(error.in_file(path.display().to_string()).hint("rename the file"))
}

/// The guesses of a draft.
fn guesses(table: &Table, text: &str) -> Result<Vec<Guess>> {
    if !table.draft {
        return Ok(Vec::new());
    }
    let mut guesses = marked(text);
    guesses.extend(taken_over(table, text)?);
    if !is_draft(text) {
        let about = "the base of this table is a draft".to_owned();
        guesses.insert(0, Guess { line: None, about, stated: String::new() });
    }
    Ok(guesses)
}

/// Warnings about marks of guesses in a table that is no draft any more.
fn left_marks(table: &Table, text: &str) -> Vec<String> {
    let marks = if table.draft { Vec::new() } else { marked(text) };
    let left = marks.into_iter().map(|Guess { line, about, .. }| {
        format!("line {}: `# ? {about}` marks a guess: check it, then remove the mark", line.unwrap_or(0))
    });
    left.collect()
}

fn try_model(table: &Table, opened: &OpenedModel) -> TriedModel {
    let model = &opened.model;
    let names: Vec<&str> = model.tensors.iter().map(|t| t.name.as_str()).collect();
    let dialect = match model.dialect.as_str() {
        "none" => table.nearest_dialect(&names).to_owned(),
        known => known.to_owned(),
    };
    let path = opened.path.display().to_string();
    match try_on(table, model, &dialect) {
        Ok(tried) => TriedModel { path, tried, failed: None },
        Err(error) => {
            let at = error.tensor_name().map(|name| format!(" ({})", escape(name, 200)));
            let failed = format!("{}{}", error.message(), at.unwrap_or_default());
            TriedModel { path, tried: Vec::new(), failed: Some(failed) }
        }
    }
}

/// A table that was checked. JSON: `table`, `id`, `sound`, `draft`, `guesses` (each `line`, `about`, `stated`), `findings`
/// (`errors`, `warnings`), `models` (each `path`, `tried`, and `failed` if it does not fit), and with `--logits` `logits`,
/// with the fields of [`Compared`].
#[derive(Debug, Serialize)]
pub struct Checked {
    table: String,
    id: String,
    sound: bool,
    draft: bool,
    guesses: Vec<Guess>,
    findings: Findings,
    models: Vec<TriedModel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logits: Option<Compared>,
}

/// A model on which a table was tried.
#[derive(Debug, Serialize)]
struct TriedModel {
    path: String,
    tried: Vec<Tried>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

impl Checked {
    /// The number of models that the table does not fit.
    fn unfit(&self) -> usize {
        self.models.iter().filter(|model| model.failed.is_some()).count()
    }

    fn is_wrong(&self) -> bool {
        !self.findings.errors.is_empty() || self.unfit() > 0 || self.logits.as_ref().is_some_and(|l| !l.same)
    }
}

impl Report for Checked {
    fn json(&self) -> Result<Json> {
        with_schema("apr.arch.check/1", self)
    }

    fn verdict(&self) -> Result<()> {
        let unfit = self.unfit();
        if !self.findings.errors.is_empty() || unfit > 0 {
            let errors = show_number_of(self.findings.errors.len(), "error");
            let models = show_number_of(unfit, "model");
            return Err(Error::failed(format!(
                "the table is invalid: {errors} in the table, {models} that do not fit it"
            )));
        }
        if let Some(logits) = self.logits.as_ref().filter(|logits| !logits.same) {
            return Err(logits.failure());
        }
        if self.draft {
            let count = self.guesses.len();
            let guesses = if count == 1 { "1 guess".to_owned() } else { format!("{count} guesses") };
            let error = Error::failed(format!("the table is a draft with {guesses} not yet checked"));
            let hint = "check each against the model's own code, compare logits (--logits FILE), then remove `draft = true`";
            return Err(error.in_file(self.table.clone()).hint(hint));
        }
        Ok(())
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for error in &self.findings.errors {
            writeln!(f, "error    {}", escape(error, 600))?;
        }
        for warning in &self.findings.warnings {
            writeln!(f, "warning  {}", escape(warning, 600))?;
        }
        for Guess { line, about, stated } in &self.guesses {
            let at = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            let stated = if stated.is_empty() { String::new() } else { format!(": {}", escape(stated, 400)) };
            writeln!(f, "guess    {at}{}{stated}", escape(about, 400))?;
        }
        for model in &self.models {
            let path = escape(&model.path, 400);
            for tried in &model.tried {
                let Tried { from, to, tensors, there, dropped } = tried;
                let left =
                    if dropped.is_empty() { String::new() } else { format!(", {} left out", dropped.len()) };
                writeln!(f, "ok       {path}: {tensors} tensors in {from}, {there} in {to}{left}, and back")?;
            }
            if let Some(failed) = &model.failed {
                writeln!(f, "error    {path}: {}", escape(failed, 600))?;
            }
        }
        self.logits.iter().try_for_each(|logits| logits.fmt(f))?;
        let verdict = match (self.sound, self.is_wrong()) {
            (true, _) => "sound",
            (_, true) => "wrong",
            (_, false) => "a draft",
        };
        writeln!(f, "{} ({}): {verdict}", escape(&self.table, 400), self.id)
    }
}
