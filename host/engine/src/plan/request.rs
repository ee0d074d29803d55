//! The user's request for a conversion.

use crate::contract::Quality;
use crate::open::GivenOption;
use crate::plan::choose::Choice;
use crate::plan::quantize::Quantization;
use crate::plan::rename::Renaming;
use apr_sdk::ForeignPolicy;
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

/// The user's request for a conversion.
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions {
    /// The input: a file, a folder, an index, or any part.
    pub input: PathBuf,
    /// The output, a file or a folder; defaults to the input's name with the extension of `to`.
    pub output: Option<PathBuf>,
    /// The input's format, if forced.
    pub from: Option<String>,
    /// The output's format, if its name does not tell.
    pub to: Option<String>,
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
    /// The most payload bytes per file.
    pub max_shard_size: Option<u64>,
    /// The types requested for the weights.
    pub quantization: Quantization,
    /// Extent of the verification after writing.
    pub verify: VerifyMode,
    /// Metadata to set.
    pub set: Vec<(String, String)>,
    /// Metadata to remove.
    pub unset: Vec<String>,
    /// The path for a report of the conversion afterwards.
    pub report: Option<PathBuf>,
    /// Files that are read besides the model: no output may replace them.
    pub reads: Vec<PathBuf>,
    /// Replaces an existing output.
    pub force: bool,
    /// Replaces the input with the output, file by file.
    pub in_place: bool,
    /// Continues an interrupted conversion.
    pub resume: bool,
    /// Casts values that are not finite, instead of failing.
    pub allow_nonfinite: bool,
    /// Treats findings that would be warnings as errors.
    pub strict: bool,
    /// Continues after findings that would be errors; `force` without `strict` does so too.
    pub relaxed: bool,
    /// Opens the input by itself, without the folder around it.
    pub bare: bool,
}

impl ConvertOptions {
    /// The policy for findings in values and shapes.
    pub fn quality(&self) -> Quality {
        let quality =
            Quality { strict: self.strict, relaxed: self.relaxed, allow_nonfinite: self.allow_nonfinite };
        quality.forced(self.force)
    }
}
