//! The tokenizer in a format-independent form: what [`crate::Model::tokenizer`] holds as JSON.
//!
//! The JSON crosses the plugin boundary and is stored in files, so its form is published: keys are only
//! added, and `schema` grows when an old reader would misunderstand a file. A key with its default value may
//! be absent.
//!
//! | key | value | default |
//! | --- | --- | --- |
//! | `schema` | [`SCHEMA`] | required |
//! | `kind` | `bpe`, `unigram` or `wordpiece` | required |
//! | `spelling` | how token texts are spelled: `bytes` (each byte is one of the 256 characters of GPT-2's table), `sentencepiece` (a space is U+2581), `plain` | `plain` |
//! | `vocab_size` | how many ids the model has (rows of its embedding); ids beyond `tokens` have no token | length of `tokens` |
//! | `n_pieces` | how many ids the SentencePiece model behind a unigram tokenizer has; formats that hold only that model drop later tokens | none |
//! | `tokens` | texts in id order; `null` for an id without a token | required |
//! | `types` | one number per token: 0 none, 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte | required |
//! | `scores` | one number per token (log probability, or merge order); 0 for `null` | none |
//! | `merges` | ids of pairs, best first, flat: `[left, right, left, right, ...]` | `[]` |
//! | `added_tokens` | objects with `id`, `special`, `lstrip`, `rstrip`, `normalized`, `single_word`, `outside_model`: tokens that are matched in the text before anything else; a flag that is false may be absent | `[]` |
//! | `special` | an object from a name (`bos`, `eos`, `unk`, `sep`, `pad`, `cls`, `mask`, `eot`, `eom`, ...) to an id; its order is kept | `{}` |
//! | `ends` | ids other than `eos` that end a text, where the source lists several | `[]` |
//! | `add` | an object from `bos`, `eos`, `sep` to whether that token is added to every text; its order is kept | `{}` |
//! | `unk` | the id for text that no token covers | none |
//! | `byte_fallback`, `fuse_unk`, `ignore_merges` | as in the `tokenizers` library | `false` |
//! | `continuing_prefix`, `word_suffix` | what marks a token as continuing a word, or as ending one | none |
//! | `max_word_chars` | longer words, in characters, become the unknown token | none |
//! | `add_space_prefix`, `remove_extra_whitespaces`, `lowercase`, `strip_accents` | what is done to a text before tokenization, if the source says so | none |
//! | `charsmap` | SentencePiece's compiled normalization rules, in base64 | none |
//! | `split_special_tokens` | whether special tokens that a text spells out are read as other text is | `false` |
//! | `clean_up_spaces` | whether spaces before punctuation are taken out of a text that ids give, if the source says so | none |
//! | `normalizer`, `pre_tokenizer`, `decoder`, `post_processor`, `truncation`, `padding` | as in `tokenizer.json` | none |
//! | `pre` | the pre-tokenizer's name in formats that know it only by name | none |
//! | `notes` | what the source says in two ways, or in a way that programs read in two | `[]` |
//! | `chat_variables` | an object from a name to a text: the special tokens that chat templates have as variables, if the source says which (`bos_token`, `image_token`, ...); its order is kept | those of `special`, with `_token` behind their names |
//! | `chat_templates` | an object from a name (`default` for the main one) to a template; its order is kept | `{}` |

mod check;
mod compare;
mod complete_tokenizer;
mod core;
mod cuts;
mod definitions;
mod differences;
mod json;
mod library;
mod pieces;
mod results;
mod treatment;

pub use self::core::{Core, byte_of};
pub use self::cuts::{cuts, has_usual_decoder};
pub use self::definitions::{Around, fill_definitions, fill_definitions_with, post_processor};
pub use self::differences::{Difference, Differences};
pub use self::library::{
    CONTINUING, UNKNOWN_WORD, WORD_CHARS, added_token, library_form, library_frame, library_merges,
    library_scores, library_vocabulary,
};
pub use self::pieces::{
    before_bytes, beyond_scores, merge_places, merges_of_scores, same_score, scores_of_merges,
};
pub use self::treatment::{SpaceFirst, Treatment, steps};
use crate::Result;
use serde_json::Value as Json;

/// The current version of the JSON form.
pub const SCHEMA: u64 = 1;
/// Tokens per tokenizer. 2^24: sixty times the largest vocabulary in use.
pub const MAX_TOKENS: usize = 1 << 24;
/// Ids without a token. 2^20: they take no bytes in a file, so nothing else bounds their number.
pub const MAX_HOLES: usize = 1 << 20;

/// The tokenization algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Kind {
    /// Byte-pair encoding: merges pairs, best first.
    #[default]
    Bpe,
    /// The most probable segmentation.
    Unigram,
    /// The longest matching token first, word by word.
    WordPiece,
}

/// Spelling of token texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Spelling {
    /// As they appear in the text.
    #[default]
    Plain,
    /// Each byte is one of the 256 characters of GPT-2's table.
    Bytes,
    /// A space is U+2581.
    SentencePiece,
}

/// The type of a token, numbered as in SentencePiece, with 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TokenType {
    /// The id has no token.
    #[default]
    None,
    /// A piece of text.
    Normal,
    /// Stands for text that no token covers.
    Unknown,
    /// Never matched in text: begin, end, padding.
    Control,
    /// Matched whole before anything else.
    UserDefined,
    /// Has an id but is not used.
    Unused,
    /// A single byte, such as `<0x0A>`.
    Byte,
}

impl TokenType {
    /// Every type, ordered by number.
    pub const ALL: [TokenType; 7] = [
        TokenType::None,
        TokenType::Normal,
        TokenType::Unknown,
        TokenType::Control,
        TokenType::UserDefined,
        TokenType::Unused,
        TokenType::Byte,
    ];

    /// SentencePiece's number for this type; 0 for none.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Looks up a type by its number.
    pub fn from_number(number: u64) -> Option<TokenType> {
        usize::try_from(number).ok().and_then(|n| TokenType::ALL.get(n)).copied()
    }
}

/// A token that is matched in the text before anything else is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AddedToken {
    /// The token's id, which also gives its text.
    pub id: u32,
    /// True if it is dropped when decoding ids to text.
    pub special: bool,
    /// True if it absorbs whitespace to its left.
    pub lstrip: bool,
    /// True if it absorbs whitespace to its right.
    pub rstrip: bool,
    /// True if it is matched after normalization instead of in the raw text.
    pub normalized: bool,
    /// True if it is matched only as a whole word.
    pub single_word: bool,
    /// True if the model's own vocabulary lacks it: nothing but its text in the input gives it.
    pub outside_model: bool,
}

/// The contents of a tokenizer; see the [module](self) for each field. [`Tokenizer::new`] checks it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Parts {
    /// The tokenization algorithm.
    pub kind: Kind,
    /// Spelling of the token texts.
    pub spelling: Spelling,
    /// Number of ids that the model has, at least the length of `tokens`; 0 stands for exactly that length.
    pub vocab_size: u32,
    /// Number of ids that the SentencePiece model behind a unigram tokenizer has.
    pub n_pieces: Option<u32>,
    /// Token texts by id; `None` for an id without a token.
    pub tokens: Vec<Option<String>>,
    /// Token types by id; as long as `tokens`.
    pub types: Vec<TokenType>,
    /// Token scores by id; as long as `tokens`, if present.
    pub scores: Option<Vec<f64>>,
    /// Pairs of ids to merge, best first.
    pub merges: Vec<(u32, u32)>,
    /// Tokens that are matched before anything else.
    pub added: Vec<AddedToken>,
    /// Ids by purpose (`bos`, `eos`, ...), in the source's order.
    pub special: Vec<(String, u32)>,
    /// Ids other than `eos` that end a text.
    pub ends: Vec<u32>,
    /// The special tokens that are added to every text, in the source's order.
    pub add: Vec<(String, bool)>,
    /// The id for text that no token covers.
    pub unk: Option<u32>,
    /// True if text that no token covers becomes byte tokens.
    pub byte_fallback: bool,
    /// True if consecutive unknown tokens become one.
    pub fuse_unk: bool,
    /// True if a word that is itself a token is used without merging.
    pub ignore_merges: bool,
    /// The mark of a token that continues a word (`##`).
    pub continuing_prefix: Option<String>,
    /// The mark of a token that ends a word (`</w>`).
    pub word_suffix: Option<String>,
    /// Longer words, in characters, become the unknown token.
    pub max_word_chars: Option<u64>,
    /// True if a space is put before a text.
    pub add_space_prefix: Option<bool>,
    /// True if spaces are trimmed and runs of them collapsed.
    pub remove_extra_whitespaces: Option<bool>,
    /// True if texts are lower-cased.
    pub lowercase: Option<bool>,
    /// True if accents are removed.
    pub strip_accents: Option<bool>,
    /// True if special tokens that a text spells out are read as other text is.
    pub split_special_tokens: bool,
    /// True if spaces before punctuation are taken out of a text that ids give.
    pub clean_up_spaces: Option<bool>,
    /// SentencePiece's compiled normalization rules.
    pub charsmap: Option<Vec<u8>>,
    /// The `normalizer` of `tokenizer.json`.
    pub normalizer: Option<Json>,
    /// The `pre_tokenizer` of `tokenizer.json`.
    pub pre_tokenizer: Option<Json>,
    /// The `decoder` of `tokenizer.json`.
    pub decoder: Option<Json>,
    /// The `post_processor` of `tokenizer.json`.
    pub post_processor: Option<Json>,
    /// The `truncation` of `tokenizer.json`.
    pub truncation: Option<Json>,
    /// The `padding` of `tokenizer.json`.
    pub padding: Option<Json>,
    /// The pre-tokenizer's name in formats that know it only by name.
    pub pre: Option<String>,
    /// Statements that the source makes in two ways, or in a way that programs read in two: warnings for whoever converts it.
    pub notes: Vec<String>,
    /// Texts of the special tokens that chat templates have as variables, by the variable's name, if the source says which: without
    /// that, those of `special`.
    pub chat_variables: Option<Vec<(String, String)>>,
    /// Chat templates by name, in the source's order; `default` is the main one.
    pub chat_templates: Vec<(String, String)>,
}

/// A tokenizer whose parts agree: every id it mentions has a token, texts are unique, merges produce tokens.
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

    /// Returns the parts, to be changed and checked again.
    pub fn into_parts(self) -> Parts {
        self.0
    }

    /// The same without truncation and padding, which concern batches of texts.
    pub fn without_batching(mut self) -> Tokenizer {
        self.0.truncation = None;
        self.0.padding = None;
        self
    }

    /// Parses the JSON form.
    ///
    /// # Errors
    /// Malformed for anything else; Unsupported for a `schema` above [`SCHEMA`].
    pub fn from_json(text: &[u8]) -> Result<Tokenizer> {
        json::from_json(text)
    }

    /// Serializes to the JSON form. Equal tokenizers give equal bytes.
    pub fn to_json(&self) -> Vec<u8> {
        json::to_json(self)
    }

    /// The part that every format with a tokenizer keeps.
    pub fn core(&self) -> Core {
        core::core(self)
    }

    /// The differences in the part that every format with a tokenizer keeps, between this one and what was `written`
    /// of it. Where a format stores only scores or only merges, they are compared with what the other implies.
    pub fn core_differences(&self, written: &Tokenizer) -> Differences {
        compare::core_differences(self, written)
    }

    /// The first of [`Tokenizer::core_differences`].
    pub fn difference(&self, written: &Tokenizer) -> Option<Difference> {
        self.core_differences(written).listed().first().cloned()
    }

    /// All differences from another tokenizer, in whatever either states.
    pub fn differences(&self, other: &Tokenizer) -> Differences {
        complete_tokenizer::differences(self, other)
    }

    /// The differences from another tokenizer outside the part that every format keeps, in what both state.
    pub fn differences_beyond_core(&self, other: &Tokenizer) -> Differences {
        complete_tokenizer::beyond_core(self, other)
    }

    /// The differences from another tokenizer in how a text is cut, where formats say it in two ways: by what the steps of
    /// both do. What only one states counts too. Leaves out what [`Tokenizer::core_differences`] has.
    pub fn cut_differences(&self, other: &Tokenizer) -> Differences {
        cuts::cut_differences(self, other)
    }

    /// Every token's text as it appears in input, by id: `tokens` may spell an added token differently if it
    /// is matched before normalization. `None` for an id without a token.
    pub fn surfaces(&self) -> Vec<Option<std::borrow::Cow<'_, str>>> {
        core::surfaces(self)
    }
}

impl Parts {
    /// The text of a token; `None` for an id without one.
    pub fn token(&self, id: u32) -> Option<&str> {
        self.tokens.get(usize::try_from(id).ok()?)?.as_deref()
    }

    /// The type of a token; [`TokenType::None`] for an id without one.
    pub fn type_of(&self, id: u32) -> TokenType {
        usize::try_from(id).ok().and_then(|n| self.types.get(n)).copied().unwrap_or_default()
    }

    /// Returns whether a token stands for text, and is no mark of its own.
    pub fn is_text(&self, id: u32) -> bool {
        [TokenType::Normal, TokenType::UserDefined].contains(&self.type_of(id))
    }

    /// Returns whether formats that hold only the SentencePiece model keep this token (see `n_pieces`).
    pub fn written(&self, id: u32) -> bool {
        self.kind != Kind::Unigram || self.n_pieces.is_none_or(|n| id < n)
    }

    /// Every token with its id, in id order.
    pub fn each(&self) -> impl Iterator<Item = (u32, &str)> {
        (0u32..).zip(&self.tokens).filter_map(|(id, text)| Some((id, text.as_deref()?)))
    }

    /// The id for a purpose (`bos`, `eos`, ...), if there is one.
    pub fn special_id(&self, name: &str) -> Option<u32> {
        self.special.iter().find(|(n, _)| n == name).map(|(_, id)| *id)
    }

    /// The variables that chat templates have of special tokens: those that the source says, or those of `special`.
    pub fn variables(&self) -> Vec<(String, String)> {
        if let Some(stated) = &self.chat_variables {
            return stated.clone();
        }
        let named = |(name, id): &(String, u32)| Some((format!("{name}_token"), self.token(*id)?.to_owned()));
        self.special.iter().filter_map(named).collect()
    }

    /// Returns whether the token for this purpose is added to every text; `None` if the source does not say.
    pub fn adds(&self, name: &str) -> Option<bool> {
        self.add.iter().find(|(n, _)| n == name).map(|(_, yes)| *yes)
    }
}
