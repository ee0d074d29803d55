//! A conversion: what the user asks for, and what came of it.

use apr_engine::contract::{ContractReport, Quality};
use apr_engine::convert::Outcome;
use apr_engine::convert::output::Shards;
use apr_engine::convert::verify::EncodedPayload;
use apr_engine::open::GivenOption;
use apr_engine::planned::coverage::Coverage;
use apr_engine::planned::quantization::Quantization;
use apr_engine::planned::request::{Request, VerifyMode};
use apr_engine::planned::selection::{Choice, Renaming};
use apr_engine::tiles::losses::Quantized;
use apr_engine::verify::value_changes::ChangedTensor;
use apr_sdk::{Error, ForeignPolicy};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The user's request for a conversion: what planning reads ([`ConvertOptions::request`]) and where the output goes
/// ([`Destination`](crate::destination::Destination)).
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
    /// The most tensors per file.
    pub max_shard_tensors: Option<u64>,
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
    /// What planning reads.
    pub fn request(&self) -> Request {
        Request {
            input: self.input.clone(),
            from: self.from.clone(),
            bare: self.bare,
            options: self.options.clone(),
            arch: self.arch.clone(),
            wants_architecture: self.wants_architecture,
            renaming: self.renaming.clone(),
            choice: self.choice.clone(),
            prune_layers: self.prune_layers.clone(),
            renames: self.renames.clone(),
            foreign: self.foreign,
            quantization: self.quantization.clone(),
            verify: self.verify,
            set: self.set.clone(),
            unset: self.unset.clone(),
            quality: self.quality(),
            versions: None,
        }
    }

    /// Limits on what is in one file.
    pub fn shards(&self) -> Shards {
        Shards { size: self.max_shard_size, tensors: self.max_shard_tensors }
    }

    /// The policy for findings in values and shapes.
    pub fn quality(&self) -> Quality {
        let quality =
            Quality { strict: self.strict, relaxed: self.relaxed, allow_nonfinite: self.allow_nonfinite };
        quality.forced(self.force)
    }
}

/// The result of a conversion. JSON: of `apr convert`, `import`, `export` and `edit`: the fields below.
#[derive(Clone, Debug, Serialize)]
pub struct Converted {
    /// `apr.convert/1`.
    pub schema: &'static str,
    /// The input, as typed.
    pub input: String,
    /// The id of the input's format.
    pub from: String,
    /// The id of the output's format.
    pub to: String,
    /// The files that were written, in layout order (each `path`, `bytes`).
    pub files: Vec<ConvertedFile>,
    /// Number of tensors.
    pub tensors: usize,
    /// Total size of all files in bytes.
    pub bytes: u64,
    /// Wall time in seconds.
    pub seconds: f64,
    /// The claims that verify has proved.
    pub verified: Vec<String>,
    /// Tensors with values that a cast or an addition could not keep (each `name`, `dtype`, `values`, and how many were
    /// `rounded`, `overflowed`, `nonfinite`, `not_undone`); absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<ChangedTensor>,
    /// The losses of quantized tensors, as in `apr.quantization/1`; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantized: Option<Quantized>,
    /// The tensors that were compressed: `tensors`, `bytes`, `raw_bytes`; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compressed: Option<EncodedPayload>,
    /// The destination of everything in the source: `tensors` and `keys`, each `total` and the lists `mapped`, `carried`,
    /// `restated` and `dropped`.
    pub coverage: Coverage,
    /// The findings about the tensors' values and shapes, as in `apr.analysis/1`.
    pub looked: ContractReport,
    /// Notes on what was assumed, changed or not carried.
    pub notes: Vec<String>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

impl Converted {
    /// The result of a conversion that wrote these files and took so many seconds.
    pub(crate) fn new(outcome: Outcome, files: Vec<ConvertedFile>, seconds: f64) -> Converted {
        let Outcome { input, from, to, tensors, verified, changed, quantized, coverage, .. } = outcome;
        Converted {
            schema: "apr.convert/1",
            input,
            from,
            to,
            tensors,
            bytes: files.iter().map(|file| file.bytes).sum(),
            files,
            seconds,
            verified,
            changed,
            quantized,
            compressed: outcome.encoded,
            coverage,
            looked: outcome.looked,
            notes: outcome.notes,
            warnings: outcome.warnings,
        }
    }
}

/// A file of the output.
#[derive(Clone, Debug, Serialize)]
pub struct ConvertedFile {
    /// The file's path, as the user would type it.
    pub path: String,
    /// Length in bytes.
    pub bytes: u64,
}

/// Cannot happen: every conversion that starts also ends.
pub(crate) fn no_end() -> Error {
    Error::plugin("a conversion was not finished")
}
