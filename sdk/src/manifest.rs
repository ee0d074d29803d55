//! The manifest: what a plugin says of itself, readable from the library file before it is loaded.
//!
//! It is UTF-8 text of `key=value` lines; blank lines and spaces around a line are ignored, a key may occur once.
//!
//! | key | value |
//! | --- | --- |
//! | `id`, `version`, `license` | written by [`crate::export_plugin!`] |
//! | `formats` | ids of the formats it provides, separated by spaces |
//! | `quantizers`, `architectures`, `kernels` | ids of what it provides of the other kinds |
//! | `F.name` | the format's name for people |
//! | `F.roles` | `read`, `write` or both |
//! | `F.magic` | `OFFSET:HEX`, several separated by spaces; `-` instead of two digits matches any byte |
//! | `F.extensions` | without the dot, separated by spaces; the first is the default for writing |
//! | `F.claims` | a file name that makes a folder this format's (`config.json`); a probe of a folder sees that file's first bytes |
//! | `F.parts` | ids of the formats that hold its payload: their files in a claimed folder are opened as that folder's model |
//! | `F.folder` | `yes`: its models are folders always |
//! | `F.aliases` | other ids that `--from` and `--to` take |
//! | `F.dialect` | `always D`, `requires D`, `prefers D` or `any` (the default) |
//! | `F.dtypes` | names the writer can hold, or `*` |
//! | `F.max_dims`, `F.max_name_bytes` | caps of the writer; 8 and 65535 if absent |
//! | `F.names` | `any`, `no-nul` or `no-control` |
//! | `F.row_scales` | `yes` where an integer tensor `NAME` with a tensor `NAME.scale`, one value for each row, means their product; `no` is the default |
//! | `F.one_tensor` | `yes` where a file is exactly one tensor, whose name is not in it: it is called after the file (see [`name_after_file`]); `no` is the default |
//! | `F.zero_size`, `F.scalars`, `F.shared_storage`, `F.assets`, `F.graph` | `yes` or `no` (the default; `scalars` and `zero_size` default to `yes`) |
//! | `F.tokenizer` | `yes`: it holds the tokenizer as it is; `core`: its own keys say what [`crate::tokenizer::Tokenizer::core`] does, of models whose names are translated; `no` (the default) |
//! | `F.token_rows` | `yes` where each token needs a row of the embedding: tokens of SentencePiece beyond the rows are left out with a warning, and other tokenizers that have some are refused; `no` is the default |
//! | `F.metadata` | value types its own metadata holds (`str u32 ...`), `*`, or `none` (the default) |
//! | `F.keys` | well-known keys of its own metadata with their types (`NAME:TYPE`, `NAME:[TYPE]`), for `--set` of one that a model lacks |
//! | `F.bookkeeping` | keys of its own metadata that say how a model lies in its files, not what it is; `apr diff` does not count them between models that lie in files differently |
//! | `F.tokenizer_keys`, `F.card_keys` | keys of its own metadata that speak of the tokenizer, and of the model card and sampling: a target that holds those states them in its own form (`FILE:KEY`, or `KEY` for any file; `*` for all that go on) |
//! | `F.type_keys`, `F.type_names` | keys of its own metadata that name the type of the weights, and the names (`DTYPE:NAME`): they follow the weights where those change |
//! | `F.foreign` | whether it carries other formats' metadata: `all`, `lost` (only what would else be lost), `keep` (only with `--foreign keep`), `none` (the default) |
//! | `F.option.NAME` | `WHEN KIND DEFAULT HELP`: `read`, `write` or `both`; `flag`, `integer`, `text`, `choice:a,b`, or `refuse` (read only: while it is on, the host does not read the format); `-` for none |
//! | `F.report.NAME` | one line of help; `apr inspect --NAME` shows it, `apr scan` the one named `scan`, and `apr validate` counts the one named `check` |

use crate::OptionSpec;

/// A parsed manifest.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Manifest {
    /// The plugin's id: letters, digits and `_`.
    pub id: String,
    /// Its version.
    pub version: String,
    /// Its licence.
    pub license: String,
    /// The formats it provides.
    pub formats: Vec<FormatManifest>,
    /// The ids of the quantizers it provides.
    pub quantizers: Vec<String>,
    /// The ids of the architectures it has tables for.
    pub architectures: Vec<String>,
    /// The ids of the compute backends it provides.
    pub kernels: Vec<String>,
    /// Keys that this SDK does not know: slips, or what a newer plugin says. `apr plugins check` warns of them.
    pub unknown: Vec<String>,
}

impl Manifest {
    /// The kinds of things it provides, in words.
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

/// What the manifest says of one format.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FormatManifest {
    /// The format's id.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Whether the plugin reads it.
    pub reads: bool,
    /// Whether the plugin writes it.
    pub writes: bool,
    /// Byte patterns that mark it; one that matches is enough.
    pub magic: Vec<Magic>,
    /// Extensions without the dot, lower case; the first is the default.
    pub extensions: Vec<String>,
    /// File names that make a folder this format's, the first that is there.
    pub claims: Vec<String>,
    /// The formats that hold the payload of this one's models, as parts: ids.
    pub parts: Vec<String>,
    /// Whether its models are folders always.
    pub folder: bool,
    /// Other ids that a user may say.
    pub aliases: Vec<String>,
    /// What naming world it wants.
    pub dialect: DialectRule,
    /// What its writer can hold.
    pub carries: Carries,
    /// Keys of its own metadata that say how a model lies in its files, not what it is.
    pub bookkeeping: Vec<String>,
    /// Keys of its own metadata that speak of the tokenizer (see [`FormatManifest::speaks`]).
    pub tokenizer_keys: Vec<String>,
    /// Keys of its own metadata that speak of the model card, sampling included.
    pub card_keys: Vec<String>,
    /// Keys of its own metadata that name the type of the weights.
    pub type_keys: Vec<String>,
    /// Names of dtypes, and what those keys call them.
    pub type_names: Vec<(String, String)>,
    /// Well-known keys of its own metadata, and the names of their types.
    pub keys: Vec<(String, String)>,
    /// Its options.
    pub options: Vec<OptionSpec>,
    /// Its reports: id and help.
    pub reports: Vec<(String, String)>,
}

impl FormatManifest {
    /// Whether a key of a file of this format is one of `patterns`: `FILE:KEY`, or `KEY` in any file; a `*` at the end stands
    /// for whatever goes on.
    pub fn speaks(patterns: &[String], file: &str, key: &str) -> bool {
        patterns.iter().any(|pattern| {
            let (of, wanted) = pattern.split_once(':').unwrap_or((file, pattern));
            of == file && wanted.strip_suffix('*').map_or(wanted == key, |start| key.starts_with(start))
        })
    }
}

/// A byte pattern at an offset.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Magic {
    /// Where it begins.
    pub offset: usize,
    /// Its bytes; `None` matches any.
    pub bytes: Vec<Option<u8>>,
}

impl Magic {
    /// Whether a file that begins with `head` has it.
    pub fn matches(&self, head: &[u8]) -> bool {
        let Some(there) =
            self.offset.checked_add(self.bytes.len()).and_then(|end| head.get(self.offset..end))
        else {
            return false;
        };
        self.bytes.iter().zip(there).all(|(want, have)| want.is_none_or(|want| want == *have))
    }
}

/// What naming world a format wants (design section 6).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DialectRule {
    /// Takes any.
    #[default]
    Any,
    /// Its files always are of this one, read and written.
    Always(String),
    /// Refuses to write any other.
    Requires(String),
    /// Would rather have this one.
    Prefers(String),
}

/// Whether a format's files carry other formats' metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ForeignCarrier {
    /// Never.
    #[default]
    None,
    /// Only with `--foreign keep`.
    Keep,
    /// Only what would else be lost.
    Lost,
    /// Everything.
    All,
}

/// What names a format can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum NameRule {
    /// Any UTF-8.
    #[default]
    Any,
    /// Any but NUL.
    NoNul,
    /// No control characters.
    NoControl,
}

/// What a format's writer can hold; the host refuses the rest before work starts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Carries {
    /// Whether a file is exactly one tensor, which is called after the file ([`name_after_file`]).
    pub one_tensor: bool,
    /// Whether an integer tensor `NAME` with an F32 tensor `NAME.scale`, one value for each row, means their product.
    pub row_scales: bool,
    /// Names of the dtypes; `None` for all.
    pub dtypes: Option<Vec<String>>,
    /// The most dimensions of a tensor.
    pub max_dims: usize,
    /// The most bytes of a tensor's name.
    pub max_name_bytes: usize,
    /// What names it can hold.
    pub names: NameRule,
    /// Whether a dimension may be 0.
    pub zero_size: bool,
    /// Whether a tensor may have no dimensions.
    pub scalars: bool,
    /// Whether two tensors may share bytes.
    pub shared_storage: bool,
    /// Value types of its own metadata, by name; `None` for all. Empty: it has none.
    pub metadata: Option<Vec<String>>,
    /// Whether it holds a tokenizer as it is.
    pub tokenizer: bool,
    /// Whether its own keys say the core of a tokenizer, for models whose names are translated.
    pub tokenizer_core: bool,
    /// Whether each token needs a row of the embedding, in models whose names are translated.
    pub token_rows: bool,
    /// Whether it holds companion files.
    pub assets: bool,
    /// Whether it holds a graph.
    pub graph: bool,
    /// Whether it carries other formats' metadata.
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
    /// Whether the writer can hold a dtype of this name.
    pub fn dtype(&self, name: &str) -> bool {
        self.dtypes.as_ref().is_none_or(|names| names.iter().any(|n| n == name))
    }

    /// Whether its own metadata can hold a value of the type of this name.
    pub fn metadata_type(&self, name: &str) -> bool {
        self.metadata.as_ref().is_none_or(|names| names.iter().any(|n| n == name))
    }

    /// Whether it has metadata of its own.
    pub fn has_metadata(&self) -> bool {
        self.metadata.as_ref().is_none_or(|names| !names.is_empty())
    }
}

/// What the only tensor of a file is called where a format has no names (`F.one_tensor`): the file's name without folders
/// and without `.extension`, if anything is left. Readers of such formats use this, and the host expects it.
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
