//! The flags that say which tensors of a model are taken, and what they are called.

use crate::cli::flags::mapping::read_mapping;
use apr_engine::planned::selection::Choice;
use apr_engine::planned::selection::Renaming;
use apr_sdk::Result;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Which tensors of the input are taken, and what they are called.
#[derive(Clone, Debug, clap::Args)]
pub struct TensorArgs {
    /// Take only the tensors under PATH, and strip it from their names
    #[arg(long, value_name = "PATH")]
    prefix: Option<String>,
    /// Convert only input tensors that match; may be repeated. GLOB is matched against the input's names (after --prefix):
    /// `*` any text, `?` one character, [0-9] and [!a] one of a set, {a,b} either text, and a backslash takes the
    /// next character as it is. A pattern that is the whole name of a tensor means that tensor
    #[arg(long, value_name = "GLOB", conflicts_with = "analyze_source")]
    include: Vec<String>,
    /// Leave out input tensors that match, even if --include takes them; may be repeated
    #[arg(long, value_name = "GLOB", conflicts_with = "analyze_source")]
    exclude: Vec<String>,
    /// Drop input tensors that match, as a declared loss: --include may not match them too; may be repeated
    #[arg(long, value_name = "GLOB", conflicts_with = "analyze_source")]
    drop: Vec<String>,
    /// Remove whole layers, counted from 0, and renumber those after them, in the tensors' names and in the metadata
    #[arg(long, value_name = "N,N...", value_delimiter = ',', value_parser = parse_layer, conflicts_with = "analyze_source")]
    prune_layers: Vec<u64>,
    /// Rename output tensors that match OLD, after names are translated; each `*` in NEW is what the same `*` in OLD
    /// matched; may be repeated
    #[arg(long, value_name = "OLD=NEW", value_parser = parse_rename, conflicts_with = "analyze_source")]
    pub rename: Vec<(String, String)>,
    /// Rename input tensors according to this TOML or JSON file: "name in IN" = "new name"
    #[arg(long, value_name = "FILE")]
    pub tensor_mapping: Option<PathBuf>,
}

impl TensorArgs {
    /// The names of the input's tensors.
    ///
    /// # Errors
    /// What reading the mapping raises.
    pub fn renaming(&self) -> Result<Renaming> {
        let mapping = self.tensor_mapping.as_deref().map_or(Ok(Vec::new()), read_mapping)?;
        Ok(Renaming { prefix: self.prefix.clone(), mapping })
    }

    /// The layers that are left out.
    pub fn prune_layers(&self) -> BTreeSet<u64> {
        self.prune_layers.iter().copied().collect()
    }

    /// The tensors that are wanted.
    pub fn choice(&self) -> Choice {
        Choice { include: self.include.clone(), exclude: self.exclude.clone(), drop: self.drop.clone() }
    }
}

/// `OLD=NEW`, cut at the first `=` that no backslash stands before.
///
/// # Errors
/// A sentence saying what is missing.
pub fn parse_rename(text: &str) -> std::result::Result<(String, String), String> {
    let mut is_escaped = false;
    let cut = text.char_indices().find(|(_, letter)| {
        let is_cut = *letter == '=' && !is_escaped;
        is_escaped = *letter == '\\' && !is_escaped;
        is_cut
    });
    match cut.map(|(at, _)| (&text[..at], &text[at + 1..])) {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok((old.to_owned(), new.to_owned())),
        _ => Err(format!("expected OLD=NEW with two names, found `{text}`")),
    }
}

/// A layer's number.
///
/// # Errors
/// A sentence saying what it must be.
fn parse_layer(text: &str) -> std::result::Result<u64, String> {
    text.trim().parse().map_err(|_| format!("expected layer numbers, as in 0,1,5, found `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renames_are_cut_at_the_first_plain_equals_sign() {
        let pair = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
        assert_eq!(parse_rename("a.*=b.*"), pair("a.*", "b.*"));
        assert_eq!(parse_rename("a=b=c"), pair("a", "b=c"));
        assert_eq!(parse_rename(r"a\=b=c"), pair(r"a\=b", "c"));
        assert_eq!(parse_rename(r"a\\=c"), pair(r"a\\", "c"));
        for wrong in ["", "a", "=b", "a=", r"a\=b"] {
            assert!(parse_rename(wrong).is_err(), "{wrong}");
        }
    }
}
