//! `apr run --embed`: a text as a vector.

use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::verbs::running::loading::Ready;
use crate::cli::verbs::running::signs::explained;
use apr_sdk::{Error, Result};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::path::Path;

/// An embedding. JSON: `embedding`, a list of numbers; `tokens`, of the prompt.
#[derive(Debug, Serialize)]
pub struct Embedded {
    embedding: Vec<f32>,
    tokens: usize,
    warnings: Vec<String>,
}

/// Computes the embedding of a prompt.
///
/// # Errors
/// What computing raised; Failed for an embedding that is none.
pub fn run(mut loaded: Ready, prompt: &[u32], file: &Path) -> Result<Embedded> {
    let embedding = loaded.runner.embed(prompt, 1)?.to_vec();
    let odd = embedding.iter().filter(|value| !value.is_finite()).count();
    if odd > 0 {
        let n = embedding.len();
        let error = Error::failed(format!("{odd} of the embedding's {n} values are NaN or infinite"));
        return Err(explained(error, file));
    }
    Ok(Embedded { embedding, tokens: prompt.len(), warnings: loaded.facts.warnings })
}

impl Report for Embedded {
    fn json(&self) -> Result<Json> {
        with_schema("apr.run.embed/1", self)
    }
}

impl fmt::Display for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, value) in self.embedding.iter().enumerate() {
            write!(f, "{}{value}", if n == 0 { "" } else { " " })?;
        }
        writeln!(f)
    }
}
