//! What a verb answers with: text for people, JSON for programs, a verdict for the exit code.

use apr_sdk::{Error, Result};
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::fmt::Display;

/// A verb's answer. `Display` is the text on stdout; nothing else is printed.
pub trait Report: Display {
    /// The document that `--json` prints: an object that begins with its `schema` (but for `tensors`, a bare array).
    ///
    /// # Errors
    /// Whatever serialising raised.
    fn json(&self) -> Result<Json>;

    /// What the user should know though the work was done; on stderr, or in the document's `warnings`.
    fn warnings(&self) -> &[String] {
        &[]
    }

    /// What `-q` leaves of the text: all of it, unless the verb knows better.
    fn quiet(&self) -> String {
        self.to_string()
    }

    /// What is done though the answer cannot be printed: for a verb that writes.
    fn done(&self) -> Option<&'static str> {
        None
    }

    /// The answer "no" of a check, which is exit code 5.
    ///
    /// # Errors
    /// Failed, with what was found.
    fn verdict(&self) -> Result<()> {
        Ok(())
    }
}

/// A report, boxed; for `map`.
pub fn boxed<R: Report + 'static>(report: R) -> Box<dyn Report> {
    Box::new(report)
}

/// `report` as an object that begins with its schema's name and version (`apr.inspect/1`).
///
/// # Errors
/// Plugin, if a value cannot stand in JSON; that is a bug.
pub fn with_schema(schema: &str, report: &impl Serialize) -> Result<Json> {
    let mut object = Map::new();
    object.insert("schema".into(), Json::from(schema));
    match plain(report)? {
        Json::Object(fields) => object.extend(fields),
        other => drop(object.insert("value".into(), other)),
    }
    Ok(Json::Object(object))
}

/// `report` as JSON without a schema.
///
/// # Errors
/// As [`with_schema`].
pub fn plain(report: &impl Serialize) -> Result<Json> {
    serde_json::to_value(report)
        .map_err(|error| Error::io(format!("the answer cannot be put into JSON: {error}")))
}
