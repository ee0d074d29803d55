//! Generates text: prompt tokens in, text out as it comes, until something ends it.

mod signs;
mod stops;
mod text;
mod timings;

pub use signs::Sign;
pub use stops::{Passed, Stops};
pub use text::Text;
pub use timings::Timings;

use crate::runner::Runner;
use crate::sampling::{Progress, Sampler};
use crate::tokens::Tokens;
use apr_sdk::tokenizer::Parts;
use apr_sdk::{Error, ErrorKind, Result, escape};
use signs::Watch;
use std::time::Duration;

/// A sequence that a model continues.
pub trait Model {
    /// Appends tokens, at least one, and returns the logits after the last.
    ///
    /// # Errors
    /// Any error of the computation; Cancelled if it was told to end.
    fn feed(&mut self, ids: &[u32]) -> Result<&[f32]>;

    /// Forgets the tokens from a position on.
    ///
    /// # Errors
    /// Any error, if that is not possible: everything is forgotten then.
    fn trim(&mut self, position: u32) -> Result<()>;

    /// Number of tokens it has seen.
    fn position(&self) -> u32;

    /// Number of tokens it can see.
    fn context(&self) -> u32;
}

impl Model for Runner {
    fn feed(&mut self, ids: &[u32]) -> Result<&[f32]> {
        Runner::feed(self, ids)
    }

    fn trim(&mut self, position: u32) -> Result<()> {
        Runner::trim(self, position)
    }

    fn position(&self) -> u32 {
        Runner::position(self)
    }

    fn context(&self) -> u32 {
        Runner::context(self)
    }
}

/// The request for an answer.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The tokens that are continued: the whole text so far, of which the model may have seen a part.
    pub prompt: &'a [u32],
    /// Strings that end the answer; they are not part of it.
    pub stops: &'a [String],
    /// Tokens that end the answer: see [`ends`].
    pub ends: &'a [u32],
    /// Tokens of the answer at most; `None` for as many as the context has room for.
    pub max_tokens: Option<u32>,
}

/// The services that generating needs from its surroundings.
pub struct Surroundings<'a> {
    /// The time since some fixed moment.
    pub now: &'a dyn Fn() -> Duration,
    /// Returns true if the answer is to end here.
    pub is_cancelled: &'a dyn Fn() -> bool,
    /// Takes the next piece of text.
    pub give: &'a mut dyn FnMut(&str) -> Result<()>,
}

/// The reason why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The model chose this token, which ends a text.
    EndOfText(u32),
    /// This stop string came.
    Stop(String),
    /// It has as many tokens as were asked for.
    MaxTokens,
    /// The context has no room for more.
    Context,
    /// It was told to end.
    Cancelled,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Its text.
    pub text: String,
    /// Its tokens, but for the one that ended it.
    pub ids: Vec<u32>,
    /// The reason why it ended.
    pub end: End,
    /// The durations.
    pub timings: Timings,
    /// Signs that something is wrong with it.
    pub signs: Vec<Sign>,
}

/// The decoder of an answer's ids into text.
pub trait Decoder {
    /// Returns whether an id has a token.
    fn knows(&self, id: u32) -> bool;

    /// The text of ids; with `skip_special`, without special tokens.
    ///
    /// # Errors
    /// InvalidArgument for an id without a token.
    fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String>;
}

impl Decoder for Tokens {
    fn knows(&self, id: u32) -> bool {
        self.piece(id).is_some()
    }

    fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        Tokens::decode(self, ids, skip_special)
    }
}

/// The ids that end an answer: what the tokenizer calls the end of a text, of a turn or of a message, and any
/// others that the model's configuration lists.
pub fn ends(tokenizer: &Parts) -> Vec<u32> {
    let named = ["eos", "eot", "eom"].into_iter().filter_map(|name| tokenizer.special_id(name));
    let mut ends: Vec<u32> = named.chain(tokenizer.ends.iter().copied()).collect();
    ends.sort_unstable();
    ends.dedup();
    ends
}

/// Generates answers with a model, and remembers what the model has seen: of a text that begins as the last one did,
/// only the rest is computed.
pub struct Generator<'m> {
    model: &'m mut dyn Model,
    seen: Vec<u32>,
}

impl<'m> Generator<'m> {
    /// Generates with a model. What it has seen before is forgotten at the first answer.
    pub fn new(model: &'m mut dyn Model) -> Generator<'m> {
        Generator { model, seen: Vec::new() }
    }

    /// Tokens of a prompt that need not be computed again.
    pub fn known(&self, prompt: &[u32]) -> usize {
        let same = self.seen.iter().zip(prompt).take_while(|(one, two)| one == two).count();
        // The logits after the last token are wanted, so at least that one is computed.
        same.min(prompt.len().saturating_sub(1))
    }

    /// Continues a prompt. What the sampler has noted before is replaced by the prompt.
    ///
    /// # Errors
    /// InvalidArgument for a prompt without tokens or beyond the context; Failed for logits that are not numbers; any
    /// error from the model, the tokenizer or the surroundings.
    pub fn generate(
        &mut self,
        tokens: &dyn Decoder,
        sampler: &mut Sampler,
        request: &Request<'_>,
        around: &mut Surroundings<'_>,
    ) -> Result<Answer> {
        check_prompt(request.prompt.len(), self.model.context())?;
        let mut stops = Stops::new(request.stops)?;
        sampler.begin(Progress {
            text: request.prompt.to_vec(),
            prompt: request.prompt.len(),
            ends: request.ends.to_vec(),
            most: request.max_tokens.map(usize_of),
        });
        let began = (around.now)();
        let known = self.reuse(request.prompt);
        let mut timings = Timings::of_prompt(request.prompt.len() - known, known);
        let mut text = Text::after(tokens, request.prompt);
        let mut answer = Draft::default();
        let mut watch = Watch::default();
        let mut next: Vec<u32> = request.prompt.get(known..).unwrap_or_default().to_vec();
        let mut signs = Vec::new();
        let end = loop {
            if request.max_tokens.is_some_and(|most| answer.ids.len() >= usize_of(most)) {
                break End::MaxTokens;
            }
            if (around.is_cancelled)() {
                break End::Cancelled;
            }
            if usize_of(self.model.position()) + next.len() > usize_of(self.model.context()) {
                break End::Context;
            }
            let logits = match self.model.feed(&next) {
                Ok(logits) => logits,
                Err(error) if error.kind() == ErrorKind::Cancelled && (around.is_cancelled)() => {
                    // Nobody knows how far it came.
                    self.seen.clear();
                    break End::Cancelled;
                }
                Err(error) => {
                    self.seen.clear();
                    return Err(error);
                }
            };
            self.seen.append(&mut next);
            let ending = answer.ids.is_empty().then(|| probability(logits, request.ends));
            let id = sampler.choose(logits).map_err(|error| after(error, self.seen.len()))?;
            timings.token((around.now)().saturating_sub(began));
            sampler.accept(id);
            if request.ends.contains(&id) {
                if answer.ids.is_empty() {
                    let prompt_ended = request.prompt.last().is_some_and(|last| request.ends.contains(last));
                    signs.push(Sign::EndedAtOnce { id, prompt_ended });
                }
                break End::EndOfText(id);
            }
            if let Some(probability) = ending.filter(|probability| *probability > 0.5) {
                signs.push(Sign::WantedToEnd { probability });
            }
            answer.ids.push(id);
            watch.push(id, tokens.knows(id));
            next.push(id);
            let Passed { text, stop } = stops.push(&text.push(id)?);
            answer.give(&text, around)?;
            if let Some(stop) = stop {
                break End::Stop(stop.to_owned());
            }
        };
        if !matches!(end, End::Stop(_)) {
            let rest = text.finish()?;
            let Passed { text, stop } = stops.push(&rest);
            answer.give(&text, around)?;
            if stop.is_none() {
                answer.give(&stops.finish(), around)?;
            }
        }
        signs.extend(watch.signs());
        let characters = answer.text.matches('\u{fffd}').count();
        if characters > 0 {
            signs.push(Sign::NotText { characters });
        }
        Ok(Answer { text: answer.text, ids: answer.ids, end, timings, signs })
    }

    /// Makes the model forget all but the known beginning of a prompt, and says how long that is.
    fn reuse(&mut self, prompt: &[u32]) -> usize {
        let known = self.known(prompt);
        let position = u32::try_from(known).unwrap_or(0);
        // What cannot be cut is computed again from the start; if even that fails, feeding will say why.
        let known = match self.model.trim(position) {
            Ok(()) if self.model.position() == position => known,
            _ => {
                let _ = self.model.trim(0);
                0
            }
        };
        self.seen.truncate(known);
        known
    }
}

/// The answer as far as it is.
#[derive(Default)]
struct Draft {
    text: String,
    ids: Vec<u32>,
}

impl Draft {
    fn give(&mut self, text: &str, around: &mut Surroundings<'_>) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.text.push_str(text);
        (around.give)(text)
    }
}

/// Refuses a prompt that cannot be continued.
fn check_prompt(tokens: usize, context: u32) -> Result<()> {
    if tokens == 0 {
        return Err(Error::invalid_argument("the prompt has no tokens").hint("specify a text to continue"));
    }
    if tokens > usize_of(context) {
        let message = format!("the prompt has {tokens} tokens, but the context has room for only {context}");
        return Err(Error::invalid_argument(message).hint("shorten the prompt, or increase `--context`"));
    }
    Ok(())
}

/// The probability of some tokens together; no number if logits are none.
fn probability(logits: &[f32], ids: &[u32]) -> f64 {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = |logit: f32| (f64::from(logit) - f64::from(top)).exp();
    let whole: f64 = logits.iter().copied().map(weight).sum();
    let wanted = ids.iter().filter_map(|id| logits.get(usize_of(*id))).copied().map(weight);
    wanted.sum::<f64>() / whole
}

/// Says where in the text the model's output went wrong.
fn after(error: Error, tokens: usize) -> Error {
    let message = format!("{}, after {tokens} tokens", escape(error.message(), 300));
    error.with_message(message)
}

fn usize_of(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
