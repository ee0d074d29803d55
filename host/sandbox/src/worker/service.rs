//! Answers requests.

use super::confinement::bound_request;
use crate::limits::{Limits, REQUEST};
use crate::tokens::{Compared, Facts};
use crate::wire::{Request, answer_bytes, bytes_of, odd};
use apr_inference::generation::ends;
use apr_inference::template::{choose, render};
use apr_inference::tokens::{Encoding, Tokens, compare};
use apr_sdk::tokenizer::Tokenizer;
use apr_sdk::{Error, Result};
use serde::Serialize;
use std::io::{self, Read, Write};

/// A tokenizer as it came, what the library makes of it once a text is tokenized, or why it cannot.
enum Held {
    Parts(Box<Tokenizer>),
    Ready(Box<Tokens>),
    Failed(Error),
}

impl Held {
    fn parts(&self) -> Result<&Tokenizer> {
        match self {
            Held::Parts(parts) => Ok(parts),
            Held::Ready(tokens) => Ok(tokens.tokenizer()),
            Held::Failed(error) => Err(error.clone()),
        }
    }

    fn ready(&mut self) -> Result<&mut Tokens> {
        if let Held::Parts(_) = self
            && let Held::Parts(parts) = std::mem::replace(self, Held::Failed(odd()))
        {
            *self = match Tokens::new(*parts) {
                Ok(tokens) => Held::Ready(Box::new(tokens)),
                Err(error) => Held::Failed(error),
            };
        }
        match self {
            Held::Ready(tokens) => Ok(tokens),
            Held::Failed(error) => Err(error.clone()),
            Held::Parts(_) => Err(odd()),
        }
    }
}

/// Says how the process is confined, and answers until there are no more requests.
pub fn serve(remark: &str) -> io::Result<()> {
    let mut from = io::stdin().lock();
    let mut to = io::stdout().lock();
    let mut all = Vec::new();
    send(&mut to, &answer_bytes(Ok(remark.as_bytes().to_vec())))?;
    loop {
        let mut head = [0; 24];
        match from.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        }
        let [seconds, memory, length] = [0, 8, 16].map(|at| {
            let bytes = head.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            u64::from_le_bytes(bytes.unwrap_or_default())
        });
        bound_request(Limits { memory, seconds });
        let mut request = Vec::new();
        (&mut from).take(length.min(REQUEST)).read_to_end(&mut request)?;
        send(&mut to, &answer_bytes(answer(&mut all, &request)))?;
    }
}

fn send(to: &mut impl Write, answer: &[u8]) -> io::Result<()> {
    to.write_all(&u64::try_from(answer.len()).unwrap_or(u64::MAX).to_le_bytes())?;
    to.write_all(answer)?;
    to.flush()
}

fn answer(all: &mut Vec<Held>, request: &[u8]) -> Result<Vec<u8>> {
    let (request, slot) = Request::from_bytes(request)?;
    if let Request::Load(json) = request {
        let parts = Tokenizer::from_json(json)?;
        let facts = facts(&parts);
        all.push(Held::Parts(Box::new(parts)));
        return json_of(&facts);
    }
    if let Request::Compare(text, how) = request {
        return compared(all, text, how);
    }
    let held = all.get_mut(slot).ok_or_else(odd)?;
    match request {
        Request::Encode(text, how) => Ok(bytes_of(&held.ready()?.encode(text, how)?)),
        Request::Count(text, how) => json_of(&held.ready()?.count(text, how)?),
        Request::Decode(ids, skip) => Ok(held.ready()?.decode(&ids, skip)?.into_bytes()),
        Request::Pieces(ids) => {
            let parts = held.parts()?;
            let pieces: Vec<_> = ids.iter().map(|id| parts.token(*id)).collect();
            json_of(&pieces)
        }
        Request::Render(rendering) => {
            let (template, conversation) = rendering.into_parts();
            let parts = held.parts()?;
            let chosen = choose(parts, template.as_deref(), conversation.tools.is_some())?;
            Ok(render(chosen, parts, &conversation)?.into_bytes())
        }
        Request::Prepare => held.ready().map(|_| Vec::new()),
        Request::Load(_) | Request::Compare(..) => Err(odd()),
    }
}

fn compared(all: &mut [Held], text: &str, how: Encoding) -> Result<Vec<u8>> {
    let [one, two, ..] = all else { return Err(odd()) };
    let one = one.ready()?;
    let two = two.ready()?;
    let comparison = compare(one, two, text, how)?;
    let first = comparison.first.as_ref();
    let pieces = [piece(one, first.and_then(|at| at.one)), piece(two, first.and_then(|at| at.two))];
    json_of(&Compared::new(&comparison, pieces))
}

fn piece(tokens: &Tokens, id: Option<u32>) -> Option<String> {
    id.map(|id| tokens.piece(id).unwrap_or_default().to_owned())
}

fn facts(tokenizer: &Tokenizer) -> Facts {
    let n_tokens = tokenizer.tokens.len();
    let ids = 0..u32::try_from(n_tokens).unwrap_or(u32::MAX);
    let added = ["eos", "sep"].into_iter().filter(|name| tokenizer.adds(name) == Some(true));
    Facts {
        n_tokens,
        holes: ids.filter(|id| tokenizer.token(*id).is_none()).collect(),
        ends: ends(tokenizer),
        behind: added.filter_map(|name| tokenizer.special_id(name)).collect(),
        unknown: tokenizer.special_id("unk"),
        n_templates: tokenizer.chat_templates.len(),
    }
}

fn json_of(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value)
        .map_err(|error| Error::failed(format!("cannot serialize the response: {error}")))
}
