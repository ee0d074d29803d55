//! The tokens of a text that a model is measured over, as llama.cpp's tools read one.

use super::prompt::of_plain_text;
use crate::cli::verbs::tokenizer::text::{Text, read};
use apr_inference::tokens::Encoding;
use apr_sandbox::Tokens;
use apr_sdk::{Error, Result, escape};
use std::path::Path;

/// A text in memory, with its name.
pub struct Corpus {
    /// The path as it was typed; `stdin` for `-`.
    pub name: String,
    text: String,
}

impl Corpus {
    /// Reads a file, or stdin for `-`. One line feed at the end is left out, as llama.cpp's tools do.
    ///
    /// # Errors
    /// As [`read`]; InvalidArgument for an empty text.
    pub fn read(path: &Path) -> Result<Corpus> {
        let is_stdin = path.as_os_str() == "-";
        let name = if is_stdin { "stdin".to_owned() } else { path.display().to_string() };
        let mut text = read(&if is_stdin { Text::Stdin } else { Text::File(name.clone()) })?;
        if text.ends_with('\n') {
            text.pop();
        }
        if text.is_empty() {
            return Err(Error::invalid_argument("the text is empty").in_file(name).hint("use a longer text"));
        }
        Ok(Corpus { name, text })
    }

    /// Its tokens, with those that begin every text. Special tokens that it spells out are ordinary text, unless
    /// `parse_special`.
    ///
    /// # Errors
    /// As [`Tokens::encode`].
    pub fn ids(&self, tokens: &Tokens, parse_special: bool) -> Result<Vec<u32>> {
        of_plain_text(tokens, &self.text, !parse_special).map_err(|error| error.in_file(self.name.clone()))
    }
}

/// The token that a tokenizer puts before every text, if it puts one.
///
/// # Errors
/// As [`Tokens::encode`]; Unsupported for a tokenizer that puts several.
pub fn first_token(tokens: &Tokens) -> Result<Option<u32>> {
    let bare = tokens.encode("a", Encoding { add_special: false, plain: false })?;
    let whole = tokens.encode("a", Encoding { add_special: true, plain: false })?;
    let before = whole.windows(bare.len().max(1)).position(|some| some == bare).unwrap_or(0);
    match before {
        0 | 1 => Ok(whole[..before].first().copied()),
        _ => {
            let message = format!(
                "the tokenizer puts {before} tokens before every text ({}), but a window begins with one",
                escape(&format!("{:?}", &whole[..before]), 80)
            );
            Err(Error::unsupported(message).hint("use a model whose texts begin with one token or none"))
        }
    }
}
