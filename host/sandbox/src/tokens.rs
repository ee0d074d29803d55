//! A model's tokenizer and chat templates, held by a worker.

use crate::limits::Limits;
use crate::process::{Process, Program};
use crate::wire::{Rendering, Request, answer_of, ids_of, odd};
use apr_inference::generation::Decoder;
use apr_inference::template::Conversation;
use apr_inference::tokens::{Comparison, Divergence, Encoding};
use apr_sdk::Result;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Facts that a program needs to know of a tokenizer without asking again.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Facts {
    /// Number of ids that may have a token.
    pub n_tokens: usize,
    /// Ids without a token below that number.
    pub holes: Vec<u32>,
    /// Ids that end an answer.
    pub ends: Vec<u32>,
    /// Ids that the tokenizer puts behind every text.
    pub behind: Vec<u32>,
    /// The id that stands for what has no token.
    pub unknown: Option<u32>,
    /// Number of chat templates.
    pub n_templates: usize,
}

/// The flags watched while a worker works, and the receiver of its news.
#[derive(Clone, Default)]
pub struct Watch {
    /// Set when the user stops the work.
    pub cancel: Arc<AtomicBool>,
}

/// Tokenizers in a worker process.
pub struct Tokens {
    program: Program,
    watch: Watch,
    /// The tokenizers' representations, for the next worker.
    held: Vec<Vec<u8>>,
    facts: Facts,
    process: Mutex<Option<Process>>,
}

impl Tokens {
    /// Starts a worker with a tokenizer: JSON of the SDK's representation. Nothing is made of it before it is needed.
    ///
    /// # Errors
    /// Io if no worker can be started; what is wrong with the tokenizer.
    pub fn new(program: Program, tokenizer: Vec<u8>, watch: Watch) -> Result<Tokens> {
        Tokens::several(program, vec![tokenizer], watch)
    }

    fn several(program: Program, held: Vec<Vec<u8>>, watch: Watch) -> Result<Tokens> {
        let mut tokens = Tokens { program, watch, held, facts: Facts::default(), process: Mutex::new(None) };
        let (process, facts) = tokens.start()?;
        tokens.facts = facts;
        tokens.process = Mutex::new(Some(process));
        Ok(tokens)
    }

    /// Has the worker make ready what texts are tokenized with, and does not wait for it: what is wrong with the tokenizer is an
    /// error of the first text.
    pub fn prepare(&mut self) {
        let held = self.held.iter().map(Vec::len).sum();
        let process = self.process.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(asked) = process {
            let request = Request::Prepare.to_bytes(0);
            let limits = Limits::of(request.len(), held);
            if asked.begin(&request, limits, &|| self.watch.cancel.load(Ordering::Relaxed)).is_err() {
                *process = None;
            }
        }
    }

    /// The facts about the tokenizer.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Gaps in the worker's confinement, for people; empty if it is confined in every way.
    pub fn remark(&self) -> String {
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        process.as_ref().map(|process| process.remark.clone()).unwrap_or_default()
    }

    /// Tokenizes a text.
    ///
    /// # Errors
    /// As [`apr_inference::tokens::Tokens::encode`]; LimitExceeded if it took too much.
    pub fn encode(&self, text: &str, how: Encoding) -> Result<Vec<u32>> {
        ids_of(&self.ask(&Request::Encode(text, how))?)
    }

    /// Number of tokens in a text.
    ///
    /// # Errors
    /// As [`Tokens::encode`].
    pub fn count(&self, text: &str, how: Encoding) -> Result<u64> {
        self.ask_json(&Request::Count(text, how))
    }

    /// The vocabulary's spelling of ids; `None` for those without a token.
    ///
    /// # Errors
    /// LimitExceeded if it took too much.
    pub fn pieces(&self, ids: &[u32]) -> Result<Vec<Option<String>>> {
        self.ask_json(&Request::Pieces(ids.to_vec()))
    }

    /// Renders a conversation by the template of this name, or the usual one.
    ///
    /// # Errors
    /// As [`apr_inference::template::choose`] and [`apr_inference::template::render`].
    pub fn render(&self, template: Option<&str>, conversation: &Conversation) -> Result<String> {
        text_of(self.ask(&Request::Render(Box::new(Rendering::new(template, conversation))))?)
    }

    fn ask_json<T: DeserializeOwned>(&self, request: &Request<'_>) -> Result<T> {
        serde_json::from_slice(&self.ask(request)?).map_err(|_| odd())
    }

    /// The worker's answer; one that is of no use any more is replaced.
    fn ask(&self, request: &Request<'_>) -> Result<Vec<u8>> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let mut asked = match process.take() {
            Some(asked) => asked,
            None => self.start()?.0,
        };
        let answer = self.ask_process(&mut asked, &request.to_bytes(0))?;
        *process = Some(asked);
        answer_of(&answer).map(<[u8]>::to_vec)
    }

    fn ask_process(&self, process: &mut Process, request: &[u8]) -> Result<Vec<u8>> {
        let held = self.held.iter().map(Vec::len).sum();
        process.ask(request, Limits::of(request.len(), held), &|| self.watch.cancel.load(Ordering::Relaxed))
    }

    /// A new worker that holds the tokenizers, and what it says of the first.
    fn start(&self) -> Result<(Process, Facts)> {
        let mut process = Process::start(&self.program, &|| self.watch.cancel.load(Ordering::Relaxed))?;
        let mut first = None;
        for tokenizer in &self.held {
            let answer = self.ask_process(&mut process, &Request::Load(tokenizer).to_bytes(0))?;
            let facts = answer_of(&answer)?;
            first = first.or(Some(serde_json::from_slice(facts).map_err(|_| odd())?));
        }
        Ok((process, first.ok_or_else(odd)?))
    }
}

impl Decoder for Tokens {
    fn knows(&self, id: u32) -> bool {
        usize::try_from(id).is_ok_and(|n| n < self.facts.n_tokens)
            && self.facts.holes.binary_search(&id).is_err()
    }

    fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        text_of(self.ask(&Request::Decode(ids.to_vec(), skip_special))?)
    }
}

/// Compares two tokenizers' readings of a text, with the spellings of the tokens that differ.
///
/// # Errors
/// As [`Tokens::encode`].
pub fn compare(
    program: Program,
    tokenizers: [Vec<u8>; 2],
    text: &str,
    how: Encoding,
    watch: Watch,
) -> Result<(Comparison, [Option<String>; 2])> {
    let tokens = Tokens::several(program, tokenizers.into(), watch)?;
    let compared: Compared = tokens.ask_json(&Request::Compare(text, how))?;
    Ok((compared.comparison(), compared.pieces))
}

/// A comparison on its way.
#[derive(Debug, Serialize, Deserialize)]
pub struct Compared {
    one: u64,
    two: u64,
    first: Option<First>,
    pieces: [Option<String>; 2],
}

/// A [`Divergence`] on its way.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct First {
    token: u64,
    line: u64,
    byte: usize,
    one: Option<u32>,
    two: Option<u32>,
}

impl Compared {
    /// A comparison with the spellings of what differs.
    pub fn new(comparison: &Comparison, pieces: [Option<String>; 2]) -> Compared {
        let first = comparison.first.as_ref().map(|at| {
            let Divergence { token, line, byte, one, two } = *at;
            First { token, line, byte, one, two }
        });
        Compared { one: comparison.one, two: comparison.two, first, pieces }
    }

    fn comparison(&self) -> Comparison {
        let first = self.first.map(|at| {
            let First { token, line, byte, one, two } = at;
            Divergence { token, line, byte, one, two }
        });
        Comparison { one: self.one, two: self.two, first }
    }
}

fn text_of(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| odd())
}
