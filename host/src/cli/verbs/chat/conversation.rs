//! The messages so far, and the model's next one.

use super::Args;
use crate::cli::context::Context;
use crate::cli::signals;
use crate::cli::verbs::running::args::Bound;
use crate::cli::verbs::running::loading::Ready;
use crate::cli::verbs::running::prompt::{message, of_chat};
use crate::cli::verbs::running::signs::{explained, in_words};
use crate::cli::verbs::running::stdout::Stdout;
use crate::cli::verbs::running::summary::{Summary, said_of};
use apr_host::host::Host;
use apr_host::running::Suggested;
use apr_inference::generation::{Answer, End, Generator, Request, Surroundings};
use apr_inference::sampling::Sampler;
use apr_sandbox::Tokens;
use apr_sdk::{Error, ErrorKind, Result};
use serde_json::Value as Json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A conversation with a loaded model. What the model has computed is kept, so that each message costs only its own tokens.
pub struct Conversation<'c> {
    args: &'c Args,
    context: &'c Context,
    tokens: &'c Tokens,
    /// Bytes of weights that a token reads.
    bytes_per_token: u64,
    generator: Generator<'c>,
    context_tokens: u32,
    sampler: Sampler,
    ends: Vec<u32>,
    suggested: &'c Suggested,
    messages: Vec<Json>,
    /// Set by Ctrl-C.
    cancel: Arc<AtomicBool>,
    /// Set by what ends more than an answer.
    is_ended: Arc<AtomicBool>,
}

impl<'c> Conversation<'c> {
    /// The beginning of a conversation.
    pub fn new(
        args: &'c Args,
        loaded: &'c mut Ready,
        sampler: Sampler,
        context: &'c Context,
        host: &Host,
    ) -> Conversation<'c> {
        let ends = loaded.facts.suggested.ends(&loaded.tokens.facts().ends);
        let mut conversation = Conversation {
            args,
            context,
            tokens: &loaded.tokens,
            bytes_per_token: loaded.facts.bytes_per_token,
            context_tokens: loaded.runner.context(),
            generator: Generator::new(&mut loaded.runner),
            sampler,
            ends,
            suggested: &loaded.facts.suggested,
            messages: Vec::new(),
            cancel: Arc::clone(&host.cancel),
            is_ended: signals::flag_of_end(),
        };
        conversation.instruct(args.system.clone().unwrap_or_default());
        conversation
    }

    /// Forgets all messages but the instructions.
    pub fn clear(&mut self) {
        self.messages.retain(|message| message["role"] == "system");
    }

    /// Starts again with these instructions; with none if they are empty.
    pub fn instruct(&mut self, text: String) {
        self.messages.clear();
        if !text.is_empty() {
            self.messages.push(message("system", &text));
        }
    }

    /// Prints the model's answer to a message.
    ///
    /// # Errors
    /// InvalidArgument if the template refuses the message, or the context has no room for it: the message is forgotten then.
    /// What computing raised; Cancelled if the program is to end.
    pub fn answer(&mut self, text: String) -> Result<()> {
        self.messages.push(message("user", &text));
        let out = Stdout::new();
        let outcome = self.generate(&out);
        out.end_line()?;
        let (answer, bound) = match outcome {
            Ok(outcome) => outcome,
            Err(error) if error.kind() == ErrorKind::Cancelled && !self.is_ended.load(Ordering::Relaxed) => {
                self.messages.pop();
                self.go_on();
                return Ok(());
            }
            Err(error) => {
                self.messages.pop();
                return Err(self.said(error));
            }
        };
        if out.is_closed() || self.is_ended.load(Ordering::Relaxed) {
            return Err(Error::cancelled("stopped"));
        }
        if answer.end == End::Cancelled {
            self.go_on();
        }
        self.messages.push(message("assistant", &answer.text));
        self.tell(&answer, bound);
        Ok(())
    }

    /// After Ctrl-C: the answer ended, not the program.
    fn go_on(&self) {
        self.cancel.store(false, Ordering::Relaxed);
        signals::forgive();
    }

    /// The answer, and its bound.
    fn generate(&mut self, out: &Stdout) -> Result<(Answer, Bound)> {
        let prompt = of_chat(self.tokens, self.args.template.as_deref(), &self.messages)?;
        let began = Instant::now();
        let stops = self.args.sampling.stops(self.suggested);
        let bound = self.args.sampling.bound(self.suggested, prompt.len());
        let request = Request { prompt: &prompt, stops: &stops, ends: &self.ends, max_tokens: bound.most };
        let mut around = Surroundings {
            now: &|| began.elapsed(),
            is_cancelled: &|| out.is_closed() || self.cancel.load(Ordering::Relaxed),
            give: &mut |text| out.give(text),
        };
        let answer = self.generator.generate(self.tokens, &mut self.sampler, &request, &mut around)?;
        Ok((answer, bound))
    }

    /// An error with what helps in a chat.
    fn said(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::InvalidArgument if error.message().contains("the context has room") => {
                error.with_hint("type /clear to start again, or increase `--context`")
            }
            _ => explained(error, &self.args.file),
        }
    }

    /// Says what there is to say about an answer.
    fn tell(&self, answer: &Answer, bound: Bound) {
        let terminal = &self.context.terminal;
        if terminal.verbose > 0 {
            let summary = Summary::of(&answer.timings, Duration::ZERO, self.bytes_per_token);
            summary.lines(None).iter().for_each(|line| terminal.note(line));
        }
        if let Some(remark) = said_of(answer, self.context_tokens, bound) {
            terminal.warn(&remark);
        }
        let greedy = self.sampler.settings().temperature == 0.0;
        for sign in &answer.signs {
            terminal.warn(&in_words(*sign, Some(self.tokens), &self.args.file, greedy));
        }
    }
}
