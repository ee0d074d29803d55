//! The tokenizer, in a form that belongs to no format: what [`crate::Model::tokenizer`] holds as JSON.
//!
//! The JSON crosses the plugin boundary and is stored in files, so it is a published form: keys are only added, and
//! `schema` grows when an old reader would misunderstand a file. A key at its default may be absent.
//!
//! | key | value | default |
//! | --- | --- | --- |
//! | `schema` | [`SCHEMA`] | required |
//! | `kind` | `bpe`, `unigram` or `wordpiece` | required |
//! | `spelling` | how the texts of tokens are spelled: `bytes` (each byte one of the 256 characters of GPT-2's table), `sentencepiece` (a space is U+2581), `plain` | `plain` |
//! | `vocab_size` | how many ids the model has (rows of its embedding); ids beyond `tokens` belong to no token | length of `tokens` |
//! | `n_pieces` | how many ids the SentencePiece model has that a unigram tokenizer came with; formats that hold only that model leave later tokens out | none |
//! | `tokens` | texts in the order of ids; `null` for an id that no token has | required |
//! | `types` | one number a token: 0 none, 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte | required |
//! | `scores` | one number a token (log probability, or order of merging); 0 for `null` | none |
//! | `merges` | ids of pairs, best first, flat: `[left, right, left, right, ...]` | `[]` |
//! | `added_tokens` | objects with `id`, `special`, `lstrip`, `rstrip`, `normalized`, `single_word`: tokens that are cut out of the text before anything else; a flag that is false may be absent | `[]` |
//! | `special` | an object from a name (`bos`, `eos`, `unk`, `sep`, `pad`, `cls`, `mask`, `eot`, `eom`, ...) to an id; its order is kept | `{}` |
//! | `ends` | ids that end a text besides `eos`, where the source lists several | `[]` |
//! | `add` | an object from `bos`, `eos`, `sep` to whether it is added to every text; its order is kept | `{}` |
//! | `unk` | the id for what no token covers | none |
//! | `byte_fallback`, `fuse_unk`, `ignore_merges` | as in the `tokenizers` library | `false` |
//! | `continuing_prefix`, `word_suffix` | what marks a token inside a word, or at its end | none |
//! | `max_word_chars` | characters above which a word is unknown | none |
//! | `add_space_prefix`, `remove_extra_whitespaces`, `lowercase`, `strip_accents` | what is done to a text before it is cut, if the source says so | none |
//! | `charsmap` | SentencePiece's compiled normalization rules, in base64 | none |
//! | `normalizer`, `pre_tokenizer`, `decoder`, `post_processor`, `truncation`, `padding` | as in `tokenizer.json` | none |
//! | `pre` | the name of the pre-tokenizer in a format that has only names | none |
//! | `chat_templates` | an object from a name (`default` for the usual one) to a template; its order is kept | `{}` |

mod check;
mod compare;
mod core;
mod definitions;
mod json;
mod library;
mod pieces;
mod treatment;

pub use self::compare::Difference;
pub use self::core::{Core, byte_of};
pub use self::definitions::{Around, fill_definitions, fill_definitions_with, post_processor};
pub use self::library::{added_token, library_form};
pub use self::pieces::{beyond_scores, merges_of_scores, scores_of_merges};
pub use self::treatment::{SpaceFirst, Treatment, steps};
use crate::Result;
use serde_json::Value as Json;

/// The version of the JSON form.
pub const SCHEMA: u64 = 1;
/// Tokens of one tokenizer. 2^24: sixty times the largest vocabulary in use.
pub const MAX_TOKENS: usize = 1 << 24;
/// Ids without a token. 2^20: they cost no bytes in a file, so that their number is bounded by this alone.
pub const MAX_HOLES: usize = 1 << 20;

/// How a text is cut into tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Kind {
    /// Pairs are merged, best first.
    #[default]
    Bpe,
    /// The most probable cut.
    Unigram,
    /// The longest token first, word by word.
    WordPiece,
}

/// How the texts of tokens are spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Spelling {
    /// As they are.
    #[default]
    Plain,
    /// Each byte is one of the 256 characters of GPT-2's table.
    Bytes,
    /// A space is U+2581.
    SentencePiece,
}

/// What a token is; the numbers are those of SentencePiece, with 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TokenType {
    /// No token has this id.
    #[default]
    None,
    /// A piece of text.
    Normal,
    /// Stands for what no token covers.
    Unknown,
    /// Never found in text: begin, end, padding.
    Control,
    /// Found whole before anything else is done.
    UserDefined,
    /// Has an id and is not used.
    Unused,
    /// One byte, `<0x0A>`.
    Byte,
}

impl TokenType {
    /// Every type, in the order of their numbers.
    pub const ALL: [TokenType; 7] = [
        TokenType::None,
        TokenType::Normal,
        TokenType::Unknown,
        TokenType::Control,
        TokenType::UserDefined,
        TokenType::Unused,
        TokenType::Byte,
    ];

    /// Its number.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The type of this number.
    pub fn from_number(number: u64) -> Option<TokenType> {
        usize::try_from(number).ok().and_then(|n| TokenType::ALL.get(n)).copied()
    }
}

/// A token that is cut out of a text before anything else is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AddedToken {
    /// Its id; its text is that of the token.
    pub id: u32,
    /// Whether it is left out when text is made of tokens.
    pub special: bool,
    /// Whether it takes the spaces before it.
    pub lstrip: bool,
    /// Whether it takes the spaces behind it.
    pub rstrip: bool,
    /// Whether it is looked for after normalization.
    pub normalized: bool,
    /// Whether it is only found as a word of its own.
    pub single_word: bool,
}

/// What a tokenizer consists of; the module says what each field means. [`Tokenizer::new`] checks it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Parts {
    /// How a text is cut.
    pub kind: Kind,
    /// How texts of tokens are spelled.
    pub spelling: Spelling,
    /// How many ids the model has; at least the length of `tokens`, which 0 stands for.
    pub vocab_size: u32,
    /// How many ids the SentencePiece model has that a unigram tokenizer came with.
    pub n_pieces: Option<u32>,
    /// The texts, in the order of ids.
    pub tokens: Vec<Option<String>>,
    /// As many as `tokens`.
    pub types: Vec<TokenType>,
    /// As many as `tokens`, or none.
    pub scores: Option<Vec<f64>>,
    /// Pairs of ids, best first.
    pub merges: Vec<(u32, u32)>,
    /// Tokens that are cut out first.
    pub added: Vec<AddedToken>,
    /// Ids by what they are for.
    pub special: Vec<(String, u32)>,
    /// Ids that end a text besides that of `special`.
    pub ends: Vec<u32>,
    /// What is added to every text.
    pub add: Vec<(String, bool)>,
    /// The id for what no token covers.
    pub unk: Option<u32>,
    /// Whether bytes stand for what no token covers.
    pub byte_fallback: bool,
    /// Whether unknown tokens that follow one another are one.
    pub fuse_unk: bool,
    /// Whether a word that is a token is taken whole.
    pub ignore_merges: bool,
    /// What marks a token inside a word.
    pub continuing_prefix: Option<String>,
    /// What marks a token at a word's end.
    pub word_suffix: Option<String>,
    /// Characters above which a word is unknown.
    pub max_word_chars: Option<u64>,
    /// Whether a text gets a space before it.
    pub add_space_prefix: Option<bool>,
    /// Whether spaces are trimmed and runs of them become one.
    pub remove_extra_whitespaces: Option<bool>,
    /// Whether texts are lower-cased.
    pub lowercase: Option<bool>,
    /// Whether accents are taken off.
    pub strip_accents: Option<bool>,
    /// SentencePiece's compiled normalization rules.
    pub charsmap: Option<Vec<u8>>,
    /// As in `tokenizer.json`.
    pub normalizer: Option<Json>,
    /// As in `tokenizer.json`.
    pub pre_tokenizer: Option<Json>,
    /// As in `tokenizer.json`.
    pub decoder: Option<Json>,
    /// As in `tokenizer.json`.
    pub post_processor: Option<Json>,
    /// As in `tokenizer.json`.
    pub truncation: Option<Json>,
    /// As in `tokenizer.json`.
    pub padding: Option<Json>,
    /// The pre-tokenizer's name in a format that has only names.
    pub pre: Option<String>,
    /// Chat templates by name; `default` is the usual one.
    pub chat_templates: Vec<(String, String)>,
}

/// A tokenizer whose parts agree: every id that is named is a token's, texts are unique, merges give tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Tokenizer(Parts);

impl std::ops::Deref for Tokenizer {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Tokenizer {
    /// Checks that the parts agree, and fills in what 0 or an empty list stands for.
    ///
    /// # Errors
    /// Malformed, naming the token; LimitExceeded above [`MAX_TOKENS`] or [`MAX_HOLES`].
    pub fn new(parts: Parts) -> Result<Tokenizer> {
        check::check(parts).map(Tokenizer)
    }

    /// The parts, to be changed and checked again.
    pub fn into_parts(self) -> Parts {
        self.0
    }

    /// The tokenizer that `text` is the JSON of.
    ///
    /// # Errors
    /// Malformed for anything else; Unsupported for a `schema` above [`SCHEMA`].
    pub fn from_json(text: &[u8]) -> Result<Tokenizer> {
        json::from_json(text)
    }

    /// Its JSON. The same tokenizer always gives the same bytes.
    pub fn to_json(&self) -> Vec<u8> {
        json::to_json(self)
    }

    /// The part that every format with a tokenizer keeps.
    pub fn core(&self) -> Core {
        core::core(self)
    }

    /// The first difference of what every format with a tokenizer keeps: in what `written` says, against this one. Where a
    /// format holds scores or merges alone, the one that it has is compared with what the other means.
    pub fn difference(&self, written: &Tokenizer) -> Option<Difference> {
        compare::difference(self, written)
    }

    /// Every token's text as it looks in a text: that of an added token which is looked for before normalization may be
    /// spelled otherwise in `tokens`. `None` for an id that no token has.
    pub fn surfaces(&self) -> Vec<Option<std::borrow::Cow<'_, str>>> {
        core::surfaces(self)
    }
}

impl Parts {
    /// The text of a token.
    pub fn token(&self, id: u32) -> Option<&str> {
        self.tokens.get(usize::try_from(id).ok()?)?.as_deref()
    }

    /// The type of a token; [`TokenType::None`] for an id that no token has.
    pub fn type_of(&self, id: u32) -> TokenType {
        usize::try_from(id).ok().and_then(|n| self.types.get(n)).copied().unwrap_or_default()
    }

    /// Whether a format that holds only what SentencePiece's model has keeps this token.
    pub fn written(&self, id: u32) -> bool {
        self.kind != Kind::Unigram || self.n_pieces.is_none_or(|n| id < n)
    }

    /// Every token, with its id.
    pub fn each(&self) -> impl Iterator<Item = (u32, &str)> {
        (0u32..).zip(&self.tokens).filter_map(|(id, text)| Some((id, text.as_deref()?)))
    }

    /// The id for this purpose.
    pub fn special_id(&self, name: &str) -> Option<u32> {
        self.special.iter().find(|(n, _)| n == name).map(|(_, id)| *id)
    }

    /// Whether this is added to every text; `None` if nothing is said.
    pub fn adds(&self, name: &str) -> Option<bool> {
        self.add.iter().find(|(n, _)| n == name).map(|(_, yes)| *yes)
    }
}
