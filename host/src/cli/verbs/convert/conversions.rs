//! Several outputs: one after another is begun, and one that fails leaves the others alone.

use crate::cli::context::Context;
use crate::cli::output::exit_code::exit_code;
use crate::cli::output::terminal::error_json;
use crate::cli::output::verb_report::plain;
use crate::cli::verbs::convert::outcome::Shown;
use crate::cli::verbs::convert::{Detail, write_report};
use apr_engine::convert::Plan;
use apr_host::convert::{ConvertOptions, Converted, convert_all, plan_all};
use apr_host::destination::outputs::{Operands, is_folder};
use apr_host::host::Host;
use apr_sdk::{Error, ErrorKind, Result, escape};
use serde_json::{Map, Value as Json};
use std::fmt;

/// The results of all outputs. JSON: of `apr convert` with several outputs: `results`, one for each output, in the
/// order requested: an `apr.convert/1` or `apr.plan/1`, or an `apr.error/1` if it failed, with its `input` and `output`.
#[derive(Debug)]
pub struct Conversions {
    results: Vec<Ended>,
    detail: Detail,
    /// Warnings for the user, each with the output that it is of.
    pub warnings: Vec<String>,
}

/// The result of one output.
#[derive(Debug)]
struct Ended {
    input: String,
    output: String,
    result: Result<Work>,
}

#[derive(Debug)]
enum Work {
    Done(Box<Converted>),
    Planned(Box<Plan>),
}

/// Converts every input to its outputs, or plans to: the outputs of one input are made together.
///
/// # Errors
/// What making the folder raises.
pub fn several(
    host: &Host,
    operands: &Operands,
    all: &[Vec<ConvertOptions>],
    only_plan: bool,
    context: &Context,
) -> Result<Conversions> {
    if let Some(folder) = operands.output.as_ref().filter(|folder| is_folder(folder) && !only_plan) {
        std::fs::create_dir_all(folder).map_err(|error| {
            Error::io(format!("cannot create the folder: {error}")).in_file(folder.display().to_string())
        })?;
    }
    let detail = if context.terminal.verbose > 0 { Detail::All } else { Detail::Short };
    let mut done = Conversions { results: Vec::new(), detail, warnings: Vec::new() };
    for of_one in all {
        let results = match only_plan {
            true => plan_all(host, of_one).map(|plans| each(plans, |plan| Work::Planned(Box::new(plan)))),
            false => convert_all(host, of_one).map(|all| each(all, |one| Work::Done(Box::new(one)))),
        };
        let results = results.unwrap_or_else(|error| of_one.iter().map(|_| Err(error.clone())).collect());
        for (options, result) in of_one.iter().zip(results) {
            done.add(options, result, context);
        }
        if host.is_cancelled() {
            break;
        }
    }
    Ok(done)
}

fn each<T>(results: Vec<Result<T>>, work: impl Fn(T) -> Work) -> Vec<Result<Work>> {
    results.into_iter().map(|result| result.map(&work)).collect()
}

impl Conversions {
    fn add(&mut self, options: &ConvertOptions, result: Result<Work>, context: &Context) {
        let result = result.and_then(|work| {
            if let (Work::Done(done), Some(report)) = (&work, &options.report) {
                write_report(report, done, options.force)?;
            }
            Ok(work)
        });
        let input = options.input.display().to_string();
        // Without a name of its own it is called after the input.
        let output = options.output.as_ref().map_or_else(
            || format!("{input} as {}", options.to.as_deref().unwrap_or_default()),
            |output| output.display().to_string(),
        );
        let warnings = match &result {
            Ok(Work::Done(done)) => &done.warnings,
            Ok(Work::Planned(plan)) => &plan.warnings,
            Err(_) => &Vec::new(),
        };
        self.warnings.extend(warnings.iter().map(|warning| format!("{output}: {warning}")));
        if let (Err(error), false) = (&result, context.terminal.json) {
            let _ = context.terminal.fail(&of_output(&output, error));
        }
        self.results.push(Ended { input, output, result });
    }

    fn failed(&self) -> impl Iterator<Item = &Error> {
        self.results.iter().filter_map(|ended| ended.result.as_ref().err())
    }

    /// The part that `-q` leaves: plans.
    pub fn quiet(&self) -> String {
        let plans = self.results.iter().filter_map(|ended| match &ended.result {
            Ok(Work::Planned(plan)) => Some(format!("{plan}\n")),
            _ => None,
        });
        plans.collect()
    }

    /// Returns whether any output was written.
    pub fn has_written(&self) -> bool {
        self.results.iter().any(|ended| matches!(ended.result, Ok(Work::Done(_))))
    }

    /// The first failure decides on the exit code; a stop goes before all.
    ///
    /// # Errors
    /// That some outputs failed.
    pub fn verdict(&self) -> Result<()> {
        let stopped = self.failed().find(|error| error.kind() == ErrorKind::Cancelled);
        let Some(first) = stopped.or_else(|| self.failed().next()) else { return Ok(()) };
        let failed = self.failed().count();
        let all = self.results.len();
        let error = Error::new(first.kind(), format!("{failed} of {all} outputs failed"));
        Err(match first.hint_text().filter(|_| stopped.is_some()) {
            Some(hint) => error.hint(hint),
            None => error,
        })
    }

    /// The document.
    ///
    /// # Errors
    /// Whatever serialising raised.
    pub fn json(&self) -> Result<Json> {
        let mut results = Vec::with_capacity(self.results.len());
        for Ended { input, output, result } in &self.results {
            let document = match result {
                Ok(Work::Done(done)) => plain(done)?,
                Ok(Work::Planned(plan)) => plain(plan)?,
                Err(error) => error_json(error, exit_code(error.kind())),
            };
            let mut fields = match document {
                Json::Object(fields) => fields,
                _ => Map::new(),
            };
            fields.insert("input".into(), Json::from(input.as_str()));
            fields.insert("output".into(), Json::from(output.as_str()));
            results.push(Json::Object(fields));
        }
        let failed = self.failed().count();
        Ok(serde_json::json!({
            "schema": "apr.conversions/1", "results": results, "failed": failed, "warnings": self.warnings,
        }))
    }
}

/// An error as that of one output among several.
fn of_output(output: &str, error: &Error) -> Error {
    let message = format!("`{}` was not written: {}", escape(output, 400), error.message());
    error.clone().with_message(message)
}

impl fmt::Display for Conversions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ended in &self.results {
            match &ended.result {
                Ok(Work::Done(done)) => write!(f, "{}", Shown(done, self.detail))?,
                Ok(Work::Planned(plan)) => writeln!(f, "{plan}")?,
                Err(_) => {}
            }
        }
        Ok(())
    }
}
