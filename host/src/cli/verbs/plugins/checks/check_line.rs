//! A line of what the child of `apr plugins check` prints.

use serde::{Deserialize, Serialize};

/// The result of one check; also what the child prints, one JSON object a line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// The id of the format, quantizer, compute backend or table; of the plugin, for what is said of it as a whole.
    pub format: String,
    /// The check's name.
    pub check: String,
    /// `started` (from the child only), `passed`, `skipped` or `failed`.
    pub result: String,
    /// The details of the result.
    pub detail: String,
}

impl Line {
    /// A line of a check.
    pub fn new(format: &str, check: &str, result: &str, detail: String) -> Line {
        Line { format: format.to_owned(), check: check.to_owned(), result: result.to_owned(), detail }
    }
}
