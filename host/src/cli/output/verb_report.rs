//! The answer of a verb: text for people, JSON for programs, a verdict for the exit code.

use apr_sdk::{Error, Result};
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::fmt::Display;
use std::io::{self, Write};

/// A verb's answer. `Display` is the text on stdout; nothing else is printed.
pub trait Report: Display {
    /// The document that `--json` prints: an object that begins with its `schema` (but for `tensors`, a bare array).
    ///
    /// # Errors
    /// Whatever serialising raised.
    fn json(&self) -> Result<Json>;

    /// Writes the same document piece by piece, for a report that may have a million rows: neither a tree of it nor its
    /// text is held.
    ///
    /// # Errors
    /// Whatever writing raised.
    fn write_json(&self, _out: &mut dyn Write) -> io::Result<Streamed> {
        Ok(Streamed::No)
    }

    /// Warnings for the user though the work was done; on stderr, or in the document's `warnings`.
    fn warnings(&self) -> &[String] {
        &[]
    }

    /// The same to add to, of a report that writes its document itself.
    fn warnings_mut(&mut self) -> Option<&mut Vec<String>> {
        None
    }

    /// The part of the text that `-q` leaves: all of it, unless the verb knows better.
    fn quiet(&self) -> String {
        self.to_string()
    }

    /// The text on stdout for a program: to the byte, where the answer is a text and stdout no terminal.
    fn exact(&self) -> Option<&str> {
        None
    }

    /// The work that is done though the answer cannot be printed: for a verb that writes.
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

/// The result of [`Report::write_json`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streamed {
    /// Nothing: [`Report::json`] is to be printed.
    No,
    /// The document, warnings included.
    Document,
    /// A bare array, which has no place for warnings.
    Rows,
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

/// Writes what [`with_schema`] gives, without a tree of it; `report` has its `warnings`.
///
/// # Errors
/// Whatever writing raised.
pub fn write_with_schema(
    out: &mut dyn Write,
    schema: &'static str,
    report: &impl Serialize,
) -> io::Result<Streamed> {
    #[derive(Serialize)]
    struct Document<'a, T> {
        schema: &'static str,
        #[serde(flatten)]
        report: &'a T,
    }
    write_document(out, &Document { schema, report })
}

/// Writes a report that has its own `schema` first, and its `warnings`, without a tree of it.
///
/// # Errors
/// Whatever writing raised.
pub fn write_document(out: &mut dyn Write, report: &impl Serialize) -> io::Result<Streamed> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    out.write_all(b"\n")?;
    Ok(Streamed::Document)
}

/// Writes a bare array, each row on a line of its own, so that `grep` and people can read it.
///
/// # Errors
/// Whatever writing raised.
pub fn write_rows(out: &mut dyn Write, rows: &[impl Serialize]) -> io::Result<Streamed> {
    for (number, row) in rows.iter().enumerate() {
        out.write_all(if number == 0 { b"[\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, row)?;
    }
    out.write_all(if rows.is_empty() { b"[]\n" } else { b"\n]\n" })?;
    Ok(Streamed::Rows)
}

/// `report` as JSON without a schema.
///
/// # Errors
/// As [`with_schema`].
pub fn plain(report: &impl Serialize) -> Result<Json> {
    serde_json::to_value(report)
        .map_err(|error| Error::io(format!("cannot write the result as JSON: {error}")))
}
