//! What the user asked of a conversion.

use crate::contract::Quality;
use crate::open::GivenOption;
use crate::plan::choose::Choice;
use crate::plan::quantize::Quantization;
use crate::plan::rename::Renaming;
use apr_sdk::ForeignPolicy;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// How much is proved after writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum VerifyMode {
    /// Header re-read through the reader, stored checksums, three tiles a file re-read.
    #[default]
    Quick,
    /// As quick, and every tile re-read.
    Full,
    /// Nothing.
    Off,
}

/// What the user asked of a conversion.
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions {
    /// The input: a file, a folder, an index, any part.
    pub input: PathBuf,
    /// The output: a file or a folder; without one, the input's name with the extension of `to`.
    pub output: Option<PathBuf>,
    /// The input's format, if forced.
    pub from: Option<String>,
    /// The output's format, if the name does not say it.
    pub to: Option<String>,
    /// `-O [format.]name=value`.
    pub options: Vec<GivenOption>,
    /// The architecture; `none` keeps every name as it is.
    pub arch: Option<String>,
    /// Whether it must have an architecture that a table knows, also where the target would do without.
    pub wants_architecture: bool,
    /// Other names for the source's tensors.
    pub renaming: Renaming,
    /// Which of the source's tensors are wanted.
    pub choice: Choice,
    /// Layers that are left out, counted from 0: those behind them move down.
    pub prune_layers: BTreeSet<u64>,
    /// Other names for the output's tensors: patterns, and what they become.
    pub renames: Vec<(String, String)>,
    /// What becomes of foreign metadata.
    pub foreign: ForeignPolicy,
    /// The most payload bytes of one file.
    pub max_shard_size: Option<u64>,
    /// Which types the weights are to have.
    pub quantization: Quantization,
    /// How much is proved after writing.
    pub verify: VerifyMode,
    /// Metadata to set.
    pub set: Vec<(String, String)>,
    /// Metadata to remove.
    pub unset: Vec<String>,
    /// Where a report of the conversion is to go afterwards.
    pub report: Option<PathBuf>,
    /// Files that are read besides the model: no output may take their place.
    pub reads: Vec<PathBuf>,
    /// Whether an existing output is replaced.
    pub force: bool,
    /// Whether the output takes the place of the input, file by file.
    pub in_place: bool,
    /// Whether a stopped conversion is taken up again.
    pub resume: bool,
    /// Whether values that are not finite are cast like others, instead of being an error.
    pub allow_nonfinite: bool,
    /// Whether findings that would be warnings stop the work.
    pub strict: bool,
    /// Whether findings that would stop the work are recorded, and it goes on; so does `force` without `strict`.
    pub relaxed: bool,
    /// Whether the input stands alone, without the folder around it.
    pub bare: bool,
}

impl ConvertOptions {
    /// What is done with findings in values and shapes.
    pub fn quality(&self) -> Quality {
        let quality =
            Quality { strict: self.strict, relaxed: self.relaxed, allow_nonfinite: self.allow_nonfinite };
        quality.forced(self.force)
    }
}
