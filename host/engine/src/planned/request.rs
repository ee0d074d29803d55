//! The user's request for a conversion, as far as planning reads it.

use crate::contract::Quality;
use crate::open::GivenOption;
use crate::planned::quantization::Quantization;
use crate::planned::selection::{Choice, Renaming};
use apr_sdk::{Error, ForeignPolicy};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Extent of the verification after writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum VerifyMode {
    /// Re-read the header through the reader, check stored checksums, re-read three tiles per file.
    #[default]
    Quick,
    /// Like `Quick`, and re-read every tile.
    Full,
    /// Nothing.
    Off,
}

/// The user's request for a conversion: the source, what becomes of it, and how strictly. The place of the output is no
/// part of it.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The input: a file, a folder, an index, or any part.
    pub input: PathBuf,
    /// The input's format, if forced.
    pub from: Option<String>,
    /// Opens the input by itself, without the folder around it.
    pub bare: bool,
    /// `-O [format.]name=value`.
    pub options: Vec<GivenOption>,
    /// The architecture; `none` keeps all names.
    pub arch: Option<String>,
    /// True if the model must have an architecture with a table, even if the target does not need one.
    pub wants_architecture: bool,
    /// Rules for renaming the source's tensors.
    pub renaming: Renaming,
    /// The choice of the source's tensors to convert.
    pub choice: Choice,
    /// Layers that are left out, counted from 0: those behind them move down.
    pub prune_layers: BTreeSet<u64>,
    /// New names for tensors of the output: (pattern, replacement).
    pub renames: Vec<(String, String)>,
    /// The policy for foreign metadata.
    pub foreign: ForeignPolicy,
    /// The types requested for the weights.
    pub quantization: Quantization,
    /// Extent of the verification after writing.
    pub verify: VerifyMode,
    /// Metadata to set.
    pub set: Vec<(String, String)>,
    /// Metadata to remove.
    pub unset: Vec<String>,
    /// The policy for findings in values and shapes.
    pub quality: Quality,
    /// Names and versions to record instead of those here: of a conversion that is done again.
    pub versions: Option<Vec<(String, String)>>,
}

impl Request {
    /// Adds the source's path to an error: whether a model can be written depends on both source and target.
    pub fn of_source(&self, error: Error) -> Error {
        error.in_file(self.input.display().to_string())
    }
}
