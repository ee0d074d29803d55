//! `apr tokenizer --encode`, `--count` and `--decode`.

use crate::cli::output::verb_report::{Report, Streamed, boxed, with_schema, write_document};
use apr_sandbox::Tokens;
use apr_sdk::{Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::io::{self, Write};

/// Ids, or with `--pieces` ids and pieces.
///
/// # Errors
/// LimitExceeded if the pieces took too much.
pub fn encoded(
    tokens: &Tokens,
    ids: Vec<u32>,
    pieces: bool,
    warnings: Vec<String>,
) -> Result<Box<dyn Report>> {
    let pieces = match pieces {
        true => Some(tokens.pieces(&ids)?.into_iter().map(Option::unwrap_or_default).collect()),
        false => None,
    };
    Ok(boxed(Encoded { schema: "apr.tokenizer.encode/1", count: ids.len(), ids, pieces, warnings }))
}

/// The tokens of a text. JSON: `apr.tokenizer.encode/1`: `count`, `ids` in order, with `--pieces` also `pieces`: the vocabulary's spelling of each.
#[derive(Debug, Serialize)]
struct Encoded {
    schema: &'static str,
    count: usize,
    ids: Vec<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pieces: Option<Vec<String>>,
    warnings: Vec<String>,
}

impl Report for Encoded {
    fn json(&self) -> Result<Json> {
        with_schema(self.schema, self)
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<Streamed> {
        write_document(out, self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl fmt::Display for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(pieces) = &self.pieces {
            let width = self.ids.iter().max().map_or(1, |id| id.to_string().len());
            for (id, piece) in self.ids.iter().zip(pieces) {
                writeln!(f, "{id:>width$}  {}", escape(piece, usize::MAX))?;
            }
            return Ok(());
        }
        for (n, id) in self.ids.iter().enumerate() {
            write!(f, "{}{id}", if n == 0 { "" } else { " " })?;
        }
        writeln!(f)
    }
}

/// Number of tokens in a text. JSON: `apr.tokenizer.count/1`: `count`, and the text's `bytes` and `characters`.
#[derive(Debug, Serialize)]
pub struct Counted {
    count: u64,
    bytes: usize,
    characters: usize,
    warnings: Vec<String>,
}

impl Counted {
    /// The count of a text's tokens.
    pub fn new(count: u64, text: &str, warnings: Vec<String>) -> Counted {
        Counted { count, bytes: text.len(), characters: text.chars().count(), warnings }
    }
}

impl Report for Counted {
    fn json(&self) -> Result<Json> {
        with_schema("apr.tokenizer.count/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.count)
    }
}

/// A text made of ids. JSON: `apr.tokenizer.decode/1`: `text`, and `count` of the ids.
#[derive(Debug, Serialize)]
pub struct Decoded {
    text: String,
    count: usize,
    warnings: Vec<String>,
}

impl Decoded {
    /// The text of so many ids.
    pub fn new(text: String, count: usize, warnings: Vec<String>) -> Decoded {
        Decoded { text, count, warnings }
    }
}

impl Report for Decoded {
    fn json(&self) -> Result<Json> {
        with_schema("apr.tokenizer.decode/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn exact(&self) -> Option<&str> {
        Some(&self.text)
    }
}

impl fmt::Display for Decoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)
    }
}
