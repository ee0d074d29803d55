//! The texts that `apr tokenizer` is given: as they are typed, from a file, or from stdin.

use apr_host::storage::error::with_way_out;
use apr_inference::tokens::MAX_TEXT;
use apr_sdk::{Error, Result, escape};
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

/// The most ids that are decoded at once. 2^24: some 60 MB of text.
const MAX_IDS: usize = 1 << 24;

/// The source of a text.
#[derive(Clone, Debug)]
pub enum Text {
    /// Typed.
    Typed(String),
    /// `@FILE`.
    File(String),
    /// `-`
    Stdin,
}

impl FromStr for Text {
    type Err = Infallible;

    fn from_str(text: &str) -> std::result::Result<Text, Infallible> {
        Ok(match (text, text.strip_prefix('@')) {
            ("-", _) => Text::Stdin,
            (_, Some(name)) => Text::File(name.to_owned()),
            _ => Text::Typed(text.to_owned()),
        })
    }
}

/// The text itself.
///
/// # Errors
/// NotFound or Io; LimitExceeded above [`MAX_TEXT`]; Malformed for what is no UTF-8.
pub fn read(text: &Text) -> Result<String> {
    let (name, bytes) = match text {
        Text::Typed(text) => return Ok(text.clone()),
        Text::Stdin => ("stdin", bounded(&mut io::stdin().lock())),
        Text::File(name) => (name.as_str(), File::open(name).and_then(|mut file| bounded(&mut file))),
    };
    let bytes = bytes.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            with_way_out(Error::not_found("no such file or folder").in_file(name), Path::new(name))
        }
        _ => Error::io(format!("cannot read the text: {error}")).in_file(name),
    })?;
    if bytes.len() > MAX_TEXT {
        return Err(Error::limit(format!("the text exceeds the limit of {MAX_TEXT} bytes"))
            .in_file(name)
            .hint("split it into several parts"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::malformed("the text is not valid UTF-8")
            .in_file(name)
            .at(u64::try_from(at).unwrap_or(u64::MAX))
            .hint("convert it first, for example with `iconv -f LATIN1 -t UTF-8`")
    })
}

fn bounded(from: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(u64::try_from(MAX_TEXT).unwrap_or(u64::MAX).saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Ids with blanks or commas between them, in brackets or not.
///
/// # Errors
/// InvalidArgument for anything else.
pub fn ids(text: &str) -> Result<Vec<u32>> {
    let inner = text.trim();
    let inner = inner.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(inner);
    let words = inner.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
    let mut ids = Vec::new();
    for word in words {
        if ids.len() == MAX_IDS {
            return Err(Error::limit(format!("the number of ids exceeds the limit of {MAX_IDS}"))
                .hint("decode them in several parts"));
        }
        ids.push(word.parse().map_err(|_| {
            Error::invalid_argument(format!("invalid token id `{}`", escape(word, 40)))
                .hint("write ids as integers: --decode '1 2 3'")
        })?);
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_programs_print_them() {
        for text in ["1 2 3", "1,2,3", "[1, 2, 3]\n", " 1\n2\t3 "] {
            assert_eq!(ids(text).unwrap(), [1, 2, 3]);
        }
        assert!(ids("").unwrap().is_empty() && ids("[]").unwrap().is_empty());
        for text in ["a", "-1", "1.5", "4294967296", "[1", "1;2"] {
            assert!(ids(text).is_err(), "{text}");
        }
    }

    #[test]
    fn one_letter_says_where_a_text_is() {
        let of = |text: &str| text.parse::<Text>().unwrap();
        assert!(matches!(of("-"), Text::Stdin) && matches!(of("--"), Text::Typed(_)));
        assert!(matches!(of("@a@b"), Text::File(name) if name == "a@b"));
        assert!(matches!(of("a@b"), Text::Typed(_)));
    }
}
