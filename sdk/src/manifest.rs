//! The manifest: what a plugin declares about itself, readable from the library file before loading it.
//!
//! UTF-8 text of `key=value` lines. Blank lines and spaces around a line are ignored; no key may occur twice.
//!
//! | key | value |
//! | --- | --- |
//! | `id`, `version`, `license` | written by [`crate::export_plugin!`] |
//! | `formats` | ids of the formats the plugin provides, separated by spaces |
//! | `quantizers`, `architectures`, `kernels` | ids of what it provides of the other kinds |
//! | `F.name` | the format's display name |
//! | `F.roles` | `read`, `write` or both |
//! | `F.magic` | `OFFSET:HEX`, several separated by spaces; `-` in place of a byte's two digits matches any byte |
//! | `F.extensions` | without the dot, separated by spaces; the first is the default for writing |
//! | `F.claims` | a file name that makes a folder this format's (`config.json`); a probe of a folder sees the first bytes of that file |
//! | `F.parts` | ids of the formats that hold its payload: in a claimed folder, their files are opened as that folder's model |
//! | `F.folder` | `yes`: its models are always folders |
//! | `F.aliases` | other ids that `--from` and `--to` accept |
//! | `F.dialect` | `always D`, `requires D`, `prefers D` or `any` (the default) |
//! | `F.dtypes` | names of the dtypes the writer can hold, block types that the plugin brings included; or `*`: all, other plugins' too |
//! | `F.max_dims`, `F.max_name_bytes` | the writer's caps; 8 and 65535 if absent |
//! | `F.names` | `any`, `no-nul` or `no-control` |
//! | `F.row_scales` | `yes`: an integer tensor `NAME` beside a tensor `NAME.scale`, one value per row, stands for their product; `no` is the default |
//! | `F.one_tensor` | `yes`: a file holds exactly one tensor and no name for it, so it is named after the file (see [`name_after_file`]); `no` is the default |
//! | `F.zero_size`, `F.scalars`, `F.shared_storage`, `F.assets`, `F.graph` | `yes` or `no` (the default; `scalars` and `zero_size` default to `yes`) |
//! | `F.tokenizer` | `yes`: it holds the whole tokenizer; `core`: its own keys express what [`crate::tokenizer::Tokenizer::core`] does, for models whose names are translated; `no` (the default) |
//! | `F.token_rows` | `yes`: each token needs a row of the embedding. SentencePiece tokens beyond the rows are dropped with a warning, other tokenizers with such tokens are refused; `no` is the default |
//! | `F.metadata` | the value types its own metadata can hold (`str u32 ...`), `*`, or `none` (the default) |
//! | `F.keys` | well-known keys of its own metadata with their types (`NAME:TYPE`, `NAME:[TYPE]`), so that `--set` can add one the model lacks |
//! | `F.file_keys` | the same for keys that lie in one of its files (`FILE:NAME:TYPE`); `--set` adds them there, and takes `FILE.KEY` for any key of such a file, also without the file's extension |
//! | `F.key_texts` | keys whose value is the whole text of a companion file, where the model has that file (`KEY:FILE`) |
//! | `F.bookkeeping` | keys of its own metadata that describe how a model is laid out in its files, not what it is; `apr diff` ignores them between models with different layouts |
//! | `F.tokenizer_keys`, `F.card_keys` | keys of its own metadata about the tokenizer, and about the model card and sampling: a target that holds those writes them in its own form (`FILE:KEY`, or `KEY` in any file; a trailing `*` of either matches any rest) |
//! | `F.type_keys`, `F.type_names` | keys of its own metadata that name the dtype of the weights, and the names they use (`DTYPE:NAME`): updated when the weights' dtype changes |
//! | `F.wide_activations` | `DTYPE NAMES FLAGS`: keys of two lists of its own metadata, the names of weights of this type whose activations must not be narrowed to it, and `false` for each |
//! | `F.described_weights` | a key of its own metadata: a list of names as JSON, each of which is a key as well, under which the tool that packed the weight describes it |
//! | `F.computation` | `KEY REPORT`: a key of its own metadata that holds what a model computes besides its tensors, such as a graph, and the report that lists it: its JSON has `lines`, an array of pairs of a place, which may differ, and what is there, which may not |
//! | `F.adapters` | what marks a model as an adapter of another: the name of a record of its own metadata, or a key and its text (`KEY=TEXT`) |
//! | `F.foreign` | whether it carries other formats' metadata: `all`, `lost` (only what would otherwise be lost), `keep` (only with `--foreign keep`), `none` (the default) |
//! | `F.option.NAME` | `WHEN KIND DEFAULT HELP`: `read`, `write` or `both`; `flag`, `integer`, `text`, `choice:a,b`, or `refuse` (read only: while it is on, the host refuses to read the format); `-` for no default |
//! | `Q.dtype.NAME` | of a quantizer `Q`: a block type that it brings, as [`crate::BlockType::parse`] takes it: `32 18 0:f16` is 32 elements in 18 bytes, which begin with a scale. Names are A-Z, 0-9 and `_`, and belong to one plugin |
//! | `K.option.NAME` | of a compute backend `K`: `open KIND DEFAULT HELP`, as for formats, but not `refuse` |
//! | `F.report.NAME` | one line of help. `apr inspect --NAME` shows the report; `apr scan` shows the one named `scan`, and `apr validate` counts the one named `check` |

use crate::{BlockType, DType, OptionSpec};

/// A parsed manifest. See the [module](self) for the keys.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Manifest {
    /// The plugin's id: letters, digits and `_`.
    pub id: String,
    /// The plugin's version, from its `Cargo.toml`.
    pub version: String,
    /// The plugin's licence, from its `Cargo.toml`.
    pub license: String,
    /// The formats the plugin provides.
    pub formats: Vec<FormatManifest>,
    /// Ids of the quantizers the plugin provides.
    pub quantizers: Vec<String>,
    /// The block types that its quantizers bring.
    pub block_types: Vec<BlockType>,
    /// Ids of the architectures the plugin has tables for.
    pub architectures: Vec<String>,
    /// Ids of the compute backends the plugin provides.
    pub kernels: Vec<String>,
    /// The options that devices of compute backends are opened with, each with the backend's id.
    pub kernel_options: Vec<(String, OptionSpec)>,
    /// Keys unknown to this SDK: typos, or features of a newer plugin. `apr plugins check` warns about them.
    pub unknown: Vec<String>,
}

impl Manifest {
    /// The kinds of things the plugin provides, in words.
    pub fn kinds(&self) -> Vec<&'static str> {
        let kinds = [
            ("reader", self.formats.iter().any(|f| f.reads)),
            ("writer", self.formats.iter().any(|f| f.writes)),
            ("quantizer", !self.quantizers.is_empty()),
            ("name_mapper", !self.architectures.is_empty()),
            ("kernel", !self.kernels.is_empty()),
        ];
        kinds.iter().filter(|(_, has)| *has).map(|(kind, _)| *kind).collect()
    }
}

/// The manifest's declarations about one format.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FormatManifest {
    /// The id, as in `--from` and `--to`.
    pub id: String,
    /// The display name.
    pub name: String,
    /// True if the plugin reads it.
    pub reads: bool,
    /// True if the plugin writes it.
    pub writes: bool,
    /// Byte patterns that identify the format; one match is enough.
    pub magic: Vec<Magic>,
    /// Extensions without the dot, lower case; the first is the default for writing.
    pub extensions: Vec<String>,
    /// File names that make a folder this format's, in order of preference.
    pub claims: Vec<String>,
    /// Ids of the formats that hold the payload of its models, as parts.
    pub parts: Vec<String>,
    /// True if its models are always folders.
    pub folder: bool,
    /// Other ids that `--from` and `--to` accept.
    pub aliases: Vec<String>,
    /// The dialect it uses for tensor names and keys.
    pub dialect: DialectRule,
    /// The contents its writer can hold.
    pub carries: Carries,
    /// Keys of its own metadata that describe how a model is laid out in its files, not what it is.
    pub bookkeeping: Vec<String>,
    /// Keys of its own metadata about the tokenizer (see [`FormatManifest::speaks`]).
    pub tokenizer_keys: Vec<String>,
    /// Keys of its own metadata about the model card, sampling included.
    pub card_keys: Vec<String>,
    /// Keys of its own metadata that name the dtype of the weights.
    pub type_keys: Vec<String>,
    /// The names those keys use for each dtype: (dtype, name).
    pub type_names: Vec<(String, String)>,
    /// The way its metadata lists weights whose activations must not be narrowed.
    pub wide_activations: Option<WideActivations>,
    /// The key of its own metadata that lists which of its other keys describe packed weights.
    pub described_weights: Option<String>,
    /// The key of its own metadata that holds what a model computes besides its tensors, and the id of the report that lists it.
    pub computation: Option<(String, String)>,
    /// Marks of a model that is an adapter of another: names of records, and keys with their texts (`KEY=TEXT`).
    pub adapters: Vec<String>,
    /// Well-known keys of its own metadata with the names of their types.
    pub keys: Vec<(String, String)>,
    /// Well-known keys that lie in one of its files.
    pub file_keys: Vec<FileKey>,
    /// Keys whose value is the whole text of a companion file, where the model has that file: (key, file).
    pub key_texts: Vec<(String, String)>,
    /// The options its reader and writer take.
    pub options: Vec<OptionSpec>,
    /// The reports its reader makes: (id, one line of help).
    pub reports: Vec<(String, String)>,
}

/// A well-known key of one of a format's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileKey {
    /// The file's name.
    pub file: String,
    /// The key.
    pub name: String,
    /// The name of its type.
    pub kind: String,
}

/// Two lists of a format's metadata: weights of a type whose activations must not be narrowed to that type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WideActivations {
    /// The type of the weights.
    pub dtype: DType,
    /// The key of the list of their names.
    pub names: String,
    /// The key of the list with `false` for each name.
    pub flags: String,
}

impl FormatManifest {
    /// Returns whether `key` of `file` matches one of `patterns`: `FILE:KEY`, or `KEY` in any file; a trailing `*` of
    /// either matches any rest.
    pub fn speaks(patterns: &[String], file: &str, key: &str) -> bool {
        patterns.iter().any(|pattern| {
            let (of, wanted) = pattern.split_once(':').unwrap_or((file, pattern));
            fits(of, file) && fits(wanted, key)
        })
    }
}

fn fits(wanted: &str, name: &str) -> bool {
    wanted.strip_suffix('*').map_or(wanted == name, |start| name.starts_with(start))
}

/// A byte pattern at a fixed offset.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Magic {
    /// Offset of the pattern, in bytes.
    pub offset: usize,
    /// The bytes to match; `None` matches any byte.
    pub bytes: Vec<Option<u8>>,
}

impl Magic {
    /// Returns whether a file that begins with `head` matches.
    pub fn matches(&self, head: &[u8]) -> bool {
        let Some(there) =
            self.offset.checked_add(self.bytes.len()).and_then(|end| head.get(self.offset..end))
        else {
            return false;
        };
        self.bytes.iter().zip(there).all(|(want, have)| want.is_none_or(|want| want == *have))
    }
}

/// The dialect that a format uses for tensor names and keys.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DialectRule {
    /// Accepts any dialect.
    #[default]
    Any,
    /// Always uses this one, reading and writing.
    Always(String),
    /// Refuses to write any other.
    Requires(String),
    /// Prefers this one when writing.
    Prefers(String),
}

/// A format's ability to carry other formats' metadata in its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ForeignCarrier {
    /// Never.
    #[default]
    None,
    /// Only with `--foreign keep`.
    Keep,
    /// Only what would otherwise be lost.
    Lost,
    /// Everything.
    All,
}

/// The tensor names that a format can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum NameRule {
    /// Any UTF-8.
    #[default]
    Any,
    /// Any name without NUL bytes.
    NoNul,
    /// Any name without control characters.
    NoControl,
}

/// The contents a format's writer can hold. The host refuses anything else before work starts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Carries {
    /// True if a file holds exactly one tensor, named after the file ([`name_after_file`]).
    pub one_tensor: bool,
    /// True if an integer tensor `NAME` beside an F32 tensor `NAME.scale`, one value per row, stands for their product.
    pub row_scales: bool,
    /// Names of the supported dtypes; `None` for all.
    pub dtypes: Option<Vec<String>>,
    /// The most dimensions a tensor may have.
    pub max_dims: usize,
    /// The most bytes a tensor's name may have.
    pub max_name_bytes: usize,
    /// The tensor names that are allowed.
    pub names: NameRule,
    /// True if a dimension may be 0.
    pub zero_size: bool,
    /// True if a tensor may have no dimensions.
    pub scalars: bool,
    /// True if two tensors may share bytes.
    pub shared_storage: bool,
    /// Names of the value types its own metadata can hold; `None` for all. Empty if it has no metadata.
    pub metadata: Option<Vec<String>>,
    /// True if it holds the whole tokenizer.
    pub tokenizer: bool,
    /// True if its own keys express the core of a tokenizer, for models whose names are translated.
    pub tokenizer_core: bool,
    /// True if each token needs a row of the embedding, in models whose names are translated.
    pub token_rows: bool,
    /// True if it holds companion files (assets).
    pub assets: bool,
    /// True if it holds a graph.
    pub graph: bool,
    /// Its ability to carry other formats' metadata.
    pub foreign: ForeignCarrier,
}

impl Default for Carries {
    fn default() -> Carries {
        Carries {
            one_tensor: false,
            row_scales: false,
            dtypes: None,
            max_dims: 8,
            max_name_bytes: 65_535,
            names: NameRule::Any,
            zero_size: true,
            scalars: true,
            shared_storage: false,
            metadata: Some(Vec::new()),
            tokenizer: false,
            tokenizer_core: false,
            token_rows: false,
            assets: false,
            graph: false,
            foreign: ForeignCarrier::None,
        }
    }
}

impl Carries {
    /// Returns whether the writer can hold the dtype called `name`.
    pub fn dtype(&self, name: &str) -> bool {
        self.dtypes.as_ref().is_none_or(|names| names.iter().any(|n| n == name))
    }

    /// Returns whether its own metadata can hold values of the type called `name`.
    pub fn metadata_type(&self, name: &str) -> bool {
        self.metadata.as_ref().is_none_or(|names| names.iter().any(|n| n == name))
    }

    /// Returns whether the format has metadata of its own.
    pub fn has_metadata(&self) -> bool {
        self.metadata.as_ref().is_none_or(|names| !names.is_empty())
    }
}

/// Names the only tensor of a file whose format stores no names (`F.one_tensor`): the file's name without
/// folders and without `.extension`, unless nothing would be left. Readers of such formats use this, and the
/// host relies on it.
pub fn name_after_file<'f>(file: &'f str, extension: &str) -> &'f str {
    let name = file.rsplit('/').next().unwrap_or_default();
    let stem = name.strip_suffix(extension).and_then(|rest| rest.strip_suffix('.'));
    stem.filter(|stem| !stem.is_empty()).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::name_after_file;

    #[test]
    fn a_tensor_is_called_after_its_file() {
        for (file, name) in [
            ("w.npy", "w"),
            ("in/a.b.npy", "a.b"),
            (".npy", ".npy"),
            ("w.bin", "w.bin"),
            ("npy", "npy"),
            ("", ""),
        ] {
            assert_eq!(name_after_file(file, "npy"), name, "{file}");
        }
    }
}
