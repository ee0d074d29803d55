//! Requests and answers as bytes: a length of 8 bytes, little-endian, then so many bytes. A request begins with its number
//! and the tokenizer's, an answer with 0, or 1 for an error.

use apr_inference::template::Conversation;
use apr_inference::tokens::Encoding;
use apr_sdk::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use std::borrow::Cow;

/// Bytes before a request's contents: its number, the tokenizer's, and two flags.
const HEAD: usize = 4;

/// A request to a worker.
#[derive(Debug)]
pub enum Request<'a> {
    /// Keep this tokenizer, as JSON of its representation, and say what it is.
    Load(&'a [u8]),
    /// The ids of a text.
    Encode(&'a str, Encoding),
    /// The number of tokens of a text.
    Count(&'a str, Encoding),
    /// The text of ids.
    Decode(Vec<u32>, bool),
    /// The vocabulary's spelling of ids.
    Pieces(Vec<u32>),
    /// The text of a conversation.
    Render(Box<Rendering>),
    /// Compare the first two tokenizers' readings of a text.
    Compare(&'a str, Encoding),
    /// Make ready what texts are tokenized with.
    Prepare,
}

/// A conversation, and the template by which it is rendered.
#[derive(Debug, Serialize, Deserialize)]
pub struct Rendering {
    template: Option<String>,
    messages: Vec<Json>,
    tools: Option<Vec<Json>>,
    add_generation_prompt: bool,
    variables: Map<String, Json>,
    now: Option<i64>,
}

impl Rendering {
    /// A conversation by the template of this name.
    pub fn new(template: Option<&str>, conversation: &Conversation) -> Rendering {
        Rendering {
            template: template.map(str::to_owned),
            messages: conversation.messages.clone(),
            tools: conversation.tools.clone(),
            add_generation_prompt: conversation.add_generation_prompt,
            variables: conversation.variables.clone(),
            now: conversation.now,
        }
    }

    /// The parts again.
    pub fn into_parts(self) -> (Option<String>, Conversation) {
        let Rendering { template, messages, tools, add_generation_prompt, variables, now } = self;
        (template, Conversation { messages, tools, add_generation_prompt, variables, now })
    }
}

fn text_of(contents: &[u8]) -> Result<&str> {
    std::str::from_utf8(contents).map_err(|_| odd())
}

impl<'a> Request<'a> {
    /// The request to a tokenizer, as bytes.
    pub fn to_bytes(&self, slot: u8) -> Vec<u8> {
        let plain = Encoding::default();
        let (number, how, contents): (u8, Encoding, Cow<'_, [u8]>) = match self {
            Request::Load(json) => (0, plain, Cow::Borrowed(json)),
            Request::Encode(text, how) => (1, *how, text.as_bytes().into()),
            Request::Count(text, how) => (2, *how, text.as_bytes().into()),
            Request::Decode(ids, skip) => {
                (3, Encoding { add_special: *skip, plain: false }, bytes_of(ids).into())
            }
            Request::Pieces(ids) => (4, plain, bytes_of(ids).into()),
            Request::Render(rendering) => {
                (5, plain, serde_json::to_vec(rendering).unwrap_or_default().into())
            }
            Request::Compare(text, how) => (6, *how, text.as_bytes().into()),
            Request::Prepare => (7, plain, Cow::default()),
        };
        let head = [number, slot, how.add_special.into(), how.plain.into()];
        [&head[..], &contents].concat()
    }

    /// The request and its tokenizer.
    ///
    /// # Errors
    /// Failed for bytes that are none.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<(Request<'a>, usize)> {
        let Some((&[number, slot, first, second], contents)) = bytes.split_first_chunk::<HEAD>() else {
            return Err(odd());
        };
        let how = Encoding { add_special: first != 0, plain: second != 0 };
        let request = match number {
            0 => Request::Load(contents),
            1 => Request::Encode(text_of(contents)?, how),
            2 => Request::Count(text_of(contents)?, how),
            3 => Request::Decode(ids_of(contents)?, first != 0),
            4 => Request::Pieces(ids_of(contents)?),
            5 => Request::Render(serde_json::from_slice(contents).map_err(|_| odd())?),
            6 => Request::Compare(text_of(contents)?, how),
            7 => Request::Prepare,
            _ => return Err(odd()),
        };
        Ok((request, usize::from(slot)))
    }
}

/// Ids as bytes.
pub fn bytes_of(ids: &[u32]) -> Vec<u8> {
    ids.iter().flat_map(|id| id.to_le_bytes()).collect()
}

/// Ids of bytes.
///
/// # Errors
/// Failed if a part of one is left.
pub fn ids_of(bytes: &[u8]) -> Result<Vec<u32>> {
    let (ids, rest) = bytes.as_chunks::<4>();
    if rest.is_empty() { Ok(ids.iter().map(|id| u32::from_le_bytes(*id)).collect()) } else { Err(odd()) }
}

/// An error on its way.
#[derive(Debug, Serialize, Deserialize)]
struct Failure {
    kind: usize,
    message: String,
    hint: Option<String>,
    code: Option<String>,
}

/// An answer as bytes.
pub fn answer_bytes(answer: Result<Vec<u8>>) -> Vec<u8> {
    match answer {
        Ok(mut bytes) => {
            bytes.insert(0, 0);
            bytes
        }
        Err(error) => {
            let kind = ErrorKind::ALL.iter().position(|kind| *kind == error.kind()).unwrap_or(0);
            let failure = Failure {
                kind,
                message: error.message().to_owned(),
                hint: error.hint_text().map(str::to_owned),
                code: error.explicit_code().map(str::to_owned),
            };
            let mut bytes = vec![1];
            bytes.extend(serde_json::to_vec(&failure).unwrap_or_default());
            bytes
        }
    }
}

/// The contents of an answer.
///
/// # Errors
/// The error that it is; Failed for bytes that are no answer.
pub fn answer_of(bytes: &[u8]) -> Result<&[u8]> {
    match bytes.split_first() {
        Some((0, contents)) => Ok(contents),
        Some((1, contents)) => {
            let failure: Failure = serde_json::from_slice(contents).map_err(|_| odd())?;
            let kind = ErrorKind::ALL.get(failure.kind).copied().ok_or_else(odd)?;
            let mut error = Error::new(kind, failure.message);
            if let Some(hint) = failure.hint {
                error = error.hint(hint);
            }
            Err(if let Some(code) = failure.code { error.code(code) } else { error })
        }
        _ => Err(odd()),
    }
}

/// The error for bytes that mean nothing.
pub fn odd() -> Error {
    Error::failed("the tokenizer's worker process sent an invalid response")
        .hint("report this with the model's tokenizer files")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_arrive_as_they_were() {
        let error = Error::limit("too much").hint("give less");
        let back = answer_of(&answer_bytes(Err(error.clone()))).unwrap_err();
        assert_eq!(back, error);
        assert_eq!(answer_of(&answer_bytes(Ok(b"text".to_vec()))).unwrap(), b"text");
        for bytes in [&b""[..], b"\x02", b"\x01{}", b"\x01{\"kind\":99,\"message\":\"\"}"] {
            assert_eq!(answer_of(bytes).unwrap_err().kind(), ErrorKind::Failed);
        }
    }

    #[test]
    fn requests_arrive_as_they_were() {
        let how = Encoding { add_special: true, plain: false };
        let bytes = Request::Encode("a\0é", how).to_bytes(3);
        let (Request::Encode(text, given), 3) = Request::from_bytes(&bytes).unwrap() else {
            panic!("{bytes:?}")
        };
        assert_eq!((text, given), ("a\0é", how));
        let bytes = Request::Decode(vec![1, u32::MAX], true).to_bytes(0);
        let (Request::Decode(ids, true), 0) = Request::from_bytes(&bytes).unwrap() else {
            panic!("{bytes:?}")
        };
        assert_eq!(ids, [1, u32::MAX]);
        for bytes in [&b""[..], b"\x09\0\0\0", b"\x01\0\0\0\xff", b"\x03\0\0\0abc", b"\x05\0\0\0{"] {
            assert!(Request::from_bytes(bytes).is_err(), "{bytes:?}");
        }
    }
}
