//! Converts text to token ids and back with a model's own tokenizer, whatever the format.

mod check;
mod library;
mod merging;
mod patterns;
mod windows;

pub use check::{Comparison, Divergence, compare};

use apr_sdk::tokenizer::{Kind, Tokenizer, library_frame};
use apr_sdk::{Error, Result, escape};
use patterns::Patterns;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Bytes of a text. 1 GiB: the text is in memory, and so are 4 bytes for each of its tokens.
pub const MAX_TEXT: usize = 1 << 30;

/// Settings for tokenizing a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// True to add the tokens that the tokenizer puts around every text (beginning, end).
    pub add_special: bool,
    /// True if special tokens spelled out in the text are treated as ordinary characters.
    pub plain: bool,
}

/// A tokenizer that is ready to use.
pub struct Tokens {
    parts: Arc<Tokenizer>,
    library: library::Library,
    patterns: Patterns,
}

/// A token in a text, with the bytes it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placed {
    id: u32,
    start: usize,
    end: usize,
}

impl Tokens {
    /// Prepares a model's tokenizer.
    ///
    /// # Errors
    /// Unsupported for a definition that the library does not know, or an expression that it cannot compile.
    pub fn new(parts: Tokenizer) -> Result<Tokens> {
        let parts = Arc::new(parts.without_batching());
        let mut frame = library_frame(&parts);
        let patterns = Patterns::rewrite(&mut frame)?;
        let loaded = guarded(|| library::load(&parts, &frame))?;
        let library = loaded.map_err(|error| {
            let why = escape(&error.to_string(), 300);
            Error::unsupported(format!("the tokenizer has an unsupported definition: {why}")).hint(
                "check the model's normalizer, pre-tokenizer, decoder and post-processor: one of them \
                 is invalid, or newer than this program",
            )
        })?;
        Ok(Tokens { parts, library, patterns })
    }

    /// The tokenizer it was made from.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.parts
    }

    /// The text of a token as in the vocabulary; `None` for an id without a token.
    pub fn piece(&self, id: u32) -> Option<&str> {
        self.parts.token(id)
    }

    /// Tokenizes a text.
    ///
    /// # Errors
    /// LimitExceeded above [`MAX_TEXT`], or if the tokenizer gave up on a text; Unsupported if it failed.
    pub fn encode(&mut self, text: &str, how: Encoding) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        self.each(text, how, &mut |token| ids.push(token.id))?;
        Ok(ids)
    }

    /// The number of tokens in a text: [`Tokens::encode`] without the ids.
    ///
    /// # Errors
    /// As [`Tokens::encode`].
    pub fn count(&mut self, text: &str, how: Encoding) -> Result<u64> {
        let mut n = 0;
        self.each(text, how, &mut |_| n += 1)?;
        Ok(n)
    }

    /// Calls `put` with each token of a text.
    fn each(&mut self, text: &str, how: Encoding, put: &mut dyn FnMut(Placed)) -> Result<()> {
        if text.len() > MAX_TEXT {
            let n = text.len();
            return Err(Error::limit(format!("the text has {n} bytes, more than the limit of {MAX_TEXT}"))
                .hint("split it into several parts"));
        }
        self.library.set_encode_special_tokens(how.plain || self.parts.split_special_tokens);
        windows::each(self, text, how.add_special, put)
    }

    /// The tokens of a text that is short enough to be tokenized whole.
    fn whole(&self, text: &str, add_special: bool) -> Result<Vec<Placed>> {
        self.patterns.check(text)?;
        let encoding = guarded(|| self.library.encode(text, add_special))?.map_err(|error| {
            let why = escape(&error.to_string(), 300);
            Error::unsupported(format!("the tokenizer cannot encode the text: {why}")).hint(
                "check that the tokenizer has an unknown token or byte tokens for text outside its vocabulary",
            )
        })?;
        let places = encoding.get_ids().iter().zip(encoding.get_offsets());
        Ok(places.map(|(&id, &(start, end))| Placed { id, start, end }).collect())
    }

    /// The text of ids; with `skip_special`, without special tokens.
    ///
    /// # Errors
    /// InvalidArgument for an id without a token.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        if let Some(id) = ids.iter().find(|id| self.piece(**id).is_none()) {
            return Err(self.no_token(*id));
        }
        // The library's decoders need not expect that there is nothing.
        let special = self.library.get_added_vocabulary();
        let mut pieces = ids.iter().filter_map(|id| self.library.id_to_token(*id));
        if !pieces.any(|piece| !skip_special || !special.is_special_token(&piece)) {
            return Ok(String::new());
        }
        let text = guarded(|| self.library.decode(ids, skip_special))?.map_err(|error| {
            let why = escape(&error.to_string(), 300);
            Error::unsupported(format!("the tokenizer cannot decode these ids: {why}"))
        })?;
        // Of what is merged, transformers leaves the spaces where they are: it would spoil the text.
        let cleans = self.parts.clean_up_spaces == Some(true) && self.parts.kind != Kind::Bpe;
        Ok(if cleans { cleaned(&text) } else { text })
    }

    /// The error for an id without a text.
    fn no_token(&self, id: u32) -> Error {
        let size = self.parts.vocab_size;
        let why: Cow<'_, str> = match id < size {
            true => "it has a row in the model, but no token in the tokenizer".into(),
            false => format!(
                "it is out of range for the vocabulary of {size}, whose last id is {}",
                size.saturating_sub(1)
            )
            .into(),
        };
        Error::invalid_argument(format!("no token has id {id}: {why}"))
            .hint("check that the ids are from this model's tokenizer")
    }
}

/// A text without the spaces before punctuation, and inside of what English contracts.
fn cleaned(text: &str) -> String {
    const BETWEEN: [(&str, &str); 10] = [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    BETWEEN.iter().fold(text.to_owned(), |text, (spaced, bare)| text.replace(spaced, bare))
}

/// Calls the library; turns a panic into an error.
fn guarded<T>(call: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| {
        let said = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let said = said.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        Error::unsupported(format!(
            "the tokenizers library failed on the tokenizer's definitions: {}",
            escape(&said, 200)
        ))
        .hint("report this with the model's tokenizer files")
    })
}
