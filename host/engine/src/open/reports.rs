//! Reports declared by formats: what a plugin can say about a file beyond the model, even if the file is not
//! a model.

use crate::engine::Engine;
use crate::open::files::Files;
use crate::open::probe;
use crate::open::source::{CallSource, Root};
use crate::open::{OpenOptions, OpenedModel, check_options, option_values};
use crate::registry::Format;
use apr_sdk::{Error, ErrorKind, Limits, Result, escape};
use serde_json::{Map, Value as Json};
use std::path::Path;

/// A report made by a format.
#[derive(Clone, Debug)]
pub struct FormatReport {
    /// The id of the format that made it.
    pub format: String,
    /// For people: plain text.
    pub text: String,
    /// For programs: a JSON object with a `schema`.
    pub json: Map<String, Json>,
    /// True if all is well.
    pub passed: bool,
    /// Warnings for the user, such as a wrong extension.
    pub warnings: Vec<String>,
}

/// Makes the report `id` about the file at `path`.
///
/// A file that no format recognises goes to the formats that declare such a report, until one can make it: files
/// that do not load are just the ones people want a report about.
///
/// # Errors
/// NotFound; Unsupported if the file's format does not declare such a report; any error from the reader.
pub fn report(engine: &Engine, path: &Path, id: &str, options: &OpenOptions) -> Result<FormatReport> {
    let files = Files::new(&engine.places.locate(path)?, engine.cancel.clone());
    make(engine, &files, id, options).map_err(|error| files.show(error))
}

/// Makes the report `id` of a model that is open, by the format that it is in.
///
/// # Errors
/// As [`report`].
pub(crate) fn of_opened(engine: &Engine, opened: &OpenedModel, id: &str) -> Result<FormatReport> {
    let format = engine.registry.format(&opened.format)?;
    let made = make_with(engine, &opened.files, id, &OpenOptions::default(), format, Vec::new());
    made.map_err(|error| opened.files.show(error))
}

fn make(engine: &Engine, files: &Files, id: &str, options: &OpenOptions) -> Result<FormatReport> {
    let (format, warnings) = match probe::choose(engine, files, options.from.as_deref(), true) {
        Ok(choice) => (choice.format, choice.warnings),
        Err(error) if error.explicit_code() == Some("E001") => {
            return make_of_unknown(engine, files, id, options, error);
        }
        Err(error) => return Err(error),
    };
    make_with(engine, files, id, options, format, warnings)
}

/// The report of the first format that has one to make of a file that none recognises.
fn make_of_unknown(
    engine: &Engine,
    files: &Files,
    id: &str,
    options: &OpenOptions,
    unknown: Error,
) -> Result<FormatReport> {
    let mut failed = unknown;
    let mut formats = probe::suspects(engine, files)?;
    let others = engine.registry.formats().iter().filter(|f| f.manifest.reads && !is_among(f, &formats));
    let others: Vec<_> = others.collect();
    formats.extend(others);
    for format in formats.into_iter().filter(|format| declares(format, id)) {
        match make_with(engine, files, id, options, format, Vec::new()) {
            Err(error) if !matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => failed = error,
            made => return made,
        }
    }
    Err(failed)
}

fn is_among(format: &Format, formats: &[&Format]) -> bool {
    formats.iter().any(|other| other.id() == format.id())
}

/// Returns whether a format that declares the report `id` knows the name of the file at `path`, which none recognises.
///
/// # Errors
/// As for a file that is opened.
pub fn suspects(engine: &Engine, path: &Path, id: &str) -> Result<bool> {
    let files = Files::new(&engine.places.locate(path)?, engine.cancel.clone());
    let suspects = probe::suspects(engine, &files).map_err(|error| files.show(error))?;
    Ok(suspects.iter().any(|format| declares(format, id)))
}

fn make_with(
    engine: &Engine,
    files: &Files,
    id: &str,
    options: &OpenOptions,
    format: &Format,
    warnings: Vec<String>,
) -> Result<FormatReport> {
    if !declares(format, id) {
        return Err(none_such(format, id));
    }
    check_options(&engine.registry, &[format], &options.options)?;
    let values = option_values(format, &options.options, |spec| spec.read)?;
    let limits = Limits::default();
    let source = CallSource::new(files, Root::WHOLE, &limits.budget, engine.progress.as_ref());
    let own = format.reader()?.report(id, &source, &limits, &values)?;
    let json = match serde_json::from_str(&own.json) {
        Ok(Json::Object(object)) if object.get("schema").is_some_and(Json::is_string) => object,
        _ => {
            let message =
                format!("the report `{id}` of `{}` is not a JSON object with a schema", format.id());
            return Err(Error::plugin(message));
        }
    };
    Ok(FormatReport { format: format.id().to_owned(), text: own.text, json, passed: own.passed, warnings })
}

/// Returns whether a format declares the report `id`.
pub fn declares(format: &Format, id: &str) -> bool {
    format.manifest.reports.iter().any(|(name, _)| name == id)
}

fn none_such(format: &Format, id: &str) -> Error {
    let known: Vec<_> = format.manifest.reports.iter().map(|(name, _)| name.as_str()).collect();
    let message = format!("{} has no report `{}`", format.manifest.name, escape(id, 80));
    let hint = match known[..] {
        [] => "run `apr inspect` to see the file's metadata: its format has no reports".to_owned(),
        _ => format!("use one of {}", known.join(", ")),
    };
    Error::unsupported(message).hint(hint)
}
