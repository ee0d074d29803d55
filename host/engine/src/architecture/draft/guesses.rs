//! Guesses of a draft: its marks, and what it takes over from the table that it builds on.

use crate::architecture::table::Table;
use crate::registry::Plugin;
use apr_sdk::{Error, Result};
use serde::Serialize;
use std::path::Path;

/// The start of a comment that marks a guess.
const MARK: &str = "# ?";

/// Something that a table guesses about its models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Guess {
    /// The line of the mark; `None` for what the table takes over from its base.
    pub line: Option<usize>,
    /// The subject: guessed, or to be found out.
    pub about: String,
    /// The table's statement.
    pub stated: String,
}

/// The marked guesses in a table's text.
pub fn marked(text: &str) -> Vec<Guess> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let marks = lines.iter().enumerate().filter_map(|(at, line)| Some((at, line.strip_prefix(MARK)?)));
    marks.map(|(at, about)| guess(&lines, at, about)).collect()
}

fn guess(lines: &[&str], at: usize, about: &str) -> Guess {
    let below = lines[at + 1..].iter().find(|line| !line.starts_with(MARK)).copied().unwrap_or_default();
    // A mark may stand above a commented line that the author is to complete.
    let stated = below.trim_start_matches(['#', ' ']).to_owned();
    Guess { line: Some(at + 1), about: about.trim().to_owned(), stated }
}

/// The computation that a table takes over from its base, a guess for each part.
///
/// # Errors
/// InvalidArgument for text that is not TOML.
pub fn taken_over(table: &Table, text: &str) -> Result<Vec<Guess>> {
    let toml: toml::Table = text
        .parse()
        .map_err(|e| Error::invalid_argument(format!("the architecture table is not valid TOML: {e}")))?;
    let (Some(section), Some(base)) = (&table.decoder, toml.get("base").and_then(toml::Value::as_str)) else {
        return Ok(Vec::new());
    };
    let own = toml.get("decoder").and_then(toml::Value::as_table);
    let about = format!("computes the same as `{base}`");
    let parts = section.parts_without(own).into_iter();
    Ok(parts.map(|stated| Guess { line: None, about: about.clone(), stated }).collect())
}

/// Returns whether a table's own text has the mark of a draft.
pub fn is_draft(text: &str) -> bool {
    // Most tables have none, and need not be parsed.
    let may_be = text.lines().any(|line| line.trim_start().starts_with("draft"));
    let parsed = may_be.then(|| text.parse::<toml::Table>().ok()).flatten();
    parsed.and_then(|toml| toml.get("draft")?.as_bool()).unwrap_or(false)
}

/// The warnings about drafts among the tables of some plugins.
pub fn draft_warnings<'p>(plugins: impl IntoIterator<Item = &'p Plugin>) -> Vec<String> {
    let mut warnings = Vec::new();
    for plugin in plugins {
        let (Some(manifest), Ok(provider)) = (&plugin.manifest, &plugin.state) else { continue };
        let drafts = manifest
            .architectures
            .iter()
            .filter(|id| provider.architecture(id).is_ok_and(|text| is_draft(&text)));
        warnings.extend(drafts.map(|id| draft_warning(id, plugin.path.as_deref())));
    }
    warnings
}

/// The warning about a draft, of which `path` is the file: which table it is, and how to complete it.
pub fn draft_warning(id: &str, path: Option<&Path>) -> String {
    let path = path.map(|path| path.display().to_string());
    let file = path.as_ref().map(|path| format!(" ({path})")).unwrap_or_default();
    let named = path.as_deref().unwrap_or(id);
    format!(
        "the table of architecture `{id}`{file} is a draft with unchecked guesses, so results may be wrong; \
         run `apr arch check {named} MODEL` to list the guesses, check each, then remove `draft = true`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_listed_with_what_stands_below_it() {
        let text = "id = 'a'\n# ? one\n# ? two\nrope = 'norm'\n# none\n[[tensor]]\n  # ? its role\n# role = \"\"\n# ?\n";
        let found = marked(text);
        let shown: Vec<_> =
            found.iter().map(|g| (g.line.unwrap(), g.about.as_str(), g.stated.as_str())).collect();
        let rope = "rope = 'norm'";
        assert_eq!(shown, [(2, "one", rope), (3, "two", rope), (7, "its role", "role = \"\""), (9, "", "")]);
    }
}
