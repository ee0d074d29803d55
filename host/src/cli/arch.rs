//! `apr arch`: which architectures are known, and what does a table say?

use crate::cli::context::Context;
use crate::cli::open_args::{OpenArgs, host_and_model};
use crate::cli::report::{Report, boxed, with_schema};
use apr_engine::architecture::{Findings, Table, Tables, Tried, check, draft, not_run, try_on, unused};
use apr_host::sizes::show_number_of;
use apr_host::storage::small_file::read_text;
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::path::{Path, PathBuf};

/// List, show, draft and check architecture tables
///
/// A table says what the tensors and keys of an architecture are called in each
/// dialect (hf, gguf, canonical), and how rows are ordered there. A table is a
/// TOML file: to add your own, put it into a plugin folder.
///
/// Examples:
///   apr arch list
///   apr arch show llama
///   apr arch draft model/ > mine.toml
///   apr arch check mine.toml model/
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the architectures that have a table: the classes that mark their models, and whether they run
    List,
    /// Print an architecture's table
    Show {
        /// Architecture id
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Draft a table for a model whose architecture has none
    Draft {
        /// Model to draft from, preferably a folder with its config.json
        #[arg(value_name = "MODEL")]
        model: PathBuf,
        /// How the model is opened.
        #[command(flatten)]
        open: OpenArgs,
    },
    /// Check a table, by itself and against models
    Check {
        /// Table file, or architecture id
        #[arg(value_name = "TABLE")]
        table: String,
        /// Models of the architecture to check against
        #[arg(value_name = "MODEL")]
        models: Vec<PathBuf>,
        /// How the models are opened.
        #[command(flatten)]
        open: OpenArgs,
    },
}

/// Runs the action.
///
/// # Errors
/// InvalidArgument for an id without a table; what parsing tables raises; Unsupported for what is planned.
pub fn run(args: &Args, context: &Context) -> Result<Box<dyn Report>> {
    let registry = context.registry();
    match &args.action {
        Action::List => {
            let tables = Tables::of(&registry);
            Ok(boxed(Architectures { architectures: tables.all().map(Row::new).collect() }))
        }
        Action::Show { id } => Ok(boxed(Text { id: id.clone(), table: registry.architecture(id)? })),
        Action::Draft { model, open } => {
            let (host, opened) = host_and_model(open, model, context)?;
            let base = |id: &str| host.registry.architecture(id);
            let lookup = |key: &str| opened.stated(key);
            let table = draft(host.tables(), &base, &opened.model, &lookup)?;
            Ok(boxed(Text { id: opened.path.display().to_string(), table }))
        }
        Action::Check { table, models, open } => check_table(table, models, open, context).map(boxed),
    }
}

/// Checks a table, and tries it on models.
fn check_table(given: &str, models: &[PathBuf], open: &OpenArgs, context: &Context) -> Result<Checked> {
    let host = context.host();
    let text = match Path::new(given) {
        path if path.extension().is_some_and(|e| e == "toml") || path.is_file() => read_text(path)?,
        _ => host.registry.architecture(given).map_err(|e| e.hint("run `apr arch list` to see the ids"))?,
    };
    let base = |id: &str| host.registry.architecture(id);
    let table = Table::parse(&text, &base).map_err(|e| e.in_file(given.to_owned()))?;
    let mut checked = Checked {
        table: given.to_owned(),
        id: table.id.clone(),
        sound: true,
        findings: check(&table),
        models: Vec::new(),
    };
    checked.findings.warnings.extend(unused(&table, &text)?);
    for path in models {
        let opened = open.open(&host, path)?;
        let lookup = |key: &str| opened.stated(key);
        let model = &opened.model;
        let names: Vec<&str> = model.tensors.iter().map(|t| t.name.as_str()).collect();
        let dialect = match model.dialect.as_str() {
            "none" => table.nearest_dialect(&names).to_owned(),
            known => known.to_owned(),
        };
        let (tried, failed) = match try_on(&table, &model.tensors, &dialect, &lookup) {
            Ok(tried) => (tried, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let failed = failed.map(|error| {
            let at = error.tensor_name().map(|name| format!(" ({})", escape(name, 200)));
            format!("{}{}", error.message(), at.unwrap_or_default())
        });
        checked.models.push(TriedModel { path: path.display().to_string(), tried, failed });
    }
    let fits = checked.models.iter().all(|model| model.failed.is_none());
    checked.sound = checked.findings.errors.is_empty() && fits;
    Ok(checked)
}

/// A table that was checked. JSON: `table`, `id`, `sound`, `findings` (`errors`, `warnings`), `models`.
#[derive(Debug, Serialize)]
struct Checked {
    table: String,
    id: String,
    sound: bool,
    findings: Findings,
    models: Vec<TriedModel>,
}

/// A model on which a table was tried.
#[derive(Debug, Serialize)]
struct TriedModel {
    path: String,
    tried: Vec<Tried>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

impl Report for Checked {
    fn json(&self) -> Result<Json> {
        with_schema("apr.arch.check/1", self)
    }

    fn verdict(&self) -> Result<()> {
        if self.sound {
            return Ok(());
        }
        let models = self.models.iter().filter(|model| model.failed.is_some()).count();
        let (errors, models) =
            (show_number_of(self.findings.errors.len(), "error"), show_number_of(models, "model"));
        Err(Error::failed(format!("the table is invalid: {errors} in it, {models} not fitting it")))
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
        let verdict = if self.sound { "sound" } else { "wrong" };
        writeln!(f, "{} ({}): {verdict}", escape(&self.table, 400), self.id)
    }
}

/// The architectures. JSON: `architectures`, each with the fields of [`Row`].
#[derive(Debug, Serialize)]
struct Architectures {
    architectures: Vec<Row>,
}

/// One architecture.
#[derive(Debug, Serialize)]
struct Row {
    /// Its id.
    id: String,
    /// Its name for people.
    name: String,
    /// How its rotary embedding turns pairs in GGUF: `norm`, `neox` or `none`.
    rope: String,
    /// The dialects that its table knows besides its own.
    dialects: Vec<String>,
    /// The library's classes that mark its models.
    classes: Vec<String>,
    /// Where the table's facts come from.
    sources: Vec<String>,
    /// The programs that agree with what it does: `converter`, `llama.cpp`, `transformers`.
    judges: Vec<String>,
    /// Why `apr run` does not run its models; null if it does.
    not_run: Option<String>,
    /// What a dialect's files do not hold of its models.
    left_out: Vec<LeftOut>,
}

/// Tensors that a dialect has no place for.
#[derive(Debug, Serialize)]
struct LeftOut {
    dialect: String,
    role: String,
    reason: String,
}

impl Row {
    fn new(table: &Table) -> Row {
        Row {
            id: table.id.clone(),
            name: table.name.clone(),
            rope: table.rope.clone(),
            dialects: table.dialects.iter().map(|dialect| dialect.id.clone()).collect(),
            classes: table.classes().into_iter().map(str::to_owned).collect(),
            sources: table.sources.clone(),
            judges: table.judges.clone(),
            not_run: not_run(table).map(str::to_owned),
            left_out: table.dialects.iter().flat_map(|dialect| left_out(table, &dialect.id)).collect(),
        }
    }
}

fn left_out<'a>(table: &'a Table, dialect: &'a str) -> impl Iterator<Item = LeftOut> + 'a {
    table.left_out(dialect).into_iter().map(|(role, reason)| LeftOut {
        dialect: dialect.to_owned(),
        role: role.to_owned(),
        reason: reason.to_owned(),
    })
}

impl Report for Architectures {
    fn json(&self) -> Result<Json> {
        with_schema("apr.arch.list/1", self)
    }

    fn quiet(&self) -> String {
        self.architectures.iter().map(|row| format!("{}\n", row.id)).collect()
    }
}

impl fmt::Display for Architectures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.architectures.is_empty() {
            return writeln!(f, "no plugin provides a table: `apr plugins list` shows the plugins found");
        }
        let width = self.architectures.iter().map(|row| row.id.len()).max().unwrap_or(0);
        for row in &self.architectures {
            let (name, dialects) = (escape(&row.name, 60), row.dialects.join(", "));
            let classes: Vec<String> =
                row.classes.iter().map(|class| escape(class, 80).to_string()).collect();
            let classes =
                if classes.is_empty() { String::new() } else { format!(": {}", classes.join(", ")) };
            writeln!(f, "{:width$}  {:5}  {dialects:10}  {name}{classes}", row.id, row.rope)?;
            if !row.judges.is_empty() {
                let judges: Vec<String> =
                    row.judges.iter().map(|judge| escape(judge, 40).to_string()).collect();
                writeln!(f, "{:width$}  judged by {}", "", judges.join(", "))?;
            }
            match &row.not_run {
                None => writeln!(f, "{:width$}  `apr run` runs its models", "")?,
                Some(reason) => {
                    writeln!(f, "{:width$}  `apr run` does not run its models: {}", "", escape(reason, 200))?;
                }
            }
            for left in &row.left_out {
                let (dialect, role, reason) =
                    (escape(&left.dialect, 40), escape(&left.role, 80), escape(&left.reason, 200));
                writeln!(f, "{:width$}  {dialect} leaves out {role}: {reason}", "")?;
            }
        }
        Ok(())
    }
}

/// A table's text. JSON: `id` and `table`.
#[derive(Debug, Serialize)]
struct Text {
    id: String,
    table: String,
}

impl Report for Text {
    fn json(&self) -> Result<Json> {
        with_schema("apr.arch.show/1", self)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table)
    }
}
