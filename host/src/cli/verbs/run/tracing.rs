//! `apr run --trace`: the computation of an answer as the history of an execution of AWS Step Functions.

use super::Asked;
use crate::cli::verbs::running::loading::Seen;
use crate::cli::verbs::trace::step_functions::History;
use crate::cli::verbs::trace::subject::{Config, ModelFacts, Said, TokenOf, Trace, text_of};
use crate::cli::verbs::trace::timestamp::Timestamp;
use apr_host::destination::output_file::OutputFile;
use apr_inference::trace::Recordings;
use apr_sdk::{Error, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Flags of the trace.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Options of the trace")]
pub struct TraceArgs {
    /// Print the trace of the computation instead of the answer: JSON in the form of AWS Step Functions
    #[arg(long, conflicts_with_all = ["embed", "logits_out"])]
    trace: bool,
    /// Write the trace to FILE, and print the answer
    #[arg(long, value_name = "FILE", conflicts_with_all = ["embed", "logits_out"])]
    trace_output: Option<PathBuf>,
    /// Add to the trace the first and the last values of each result, of the last token
    #[arg(long, conflicts_with_all = ["embed", "logits_out"])]
    trace_verbose: bool,
}

impl TraceArgs {
    /// Returns whether a trace is wanted.
    pub fn is_wanted(&self) -> bool {
        self.trace || self.trace_verbose || self.trace_output.is_some()
    }

    /// Returns whether it is printed instead of the answer.
    pub fn is_printed(&self) -> bool {
        self.is_wanted() && self.path().is_none()
    }

    /// The file to write.
    fn path(&self) -> Option<&Path> {
        self.trace_output.as_deref().filter(|path| path.as_os_str() != "-")
    }

    /// The file to write, as an output.
    pub fn file(&self, force: bool) -> Option<OutputFile> {
        self.path().map(|path| OutputFile::new(path, "trace", force))
    }

    /// What is to be seen of the computation.
    pub fn seen(&self) -> Seen {
        match self.is_wanted() {
            true if self.trace_verbose => Seen::Values,
            true => Seen::Figures,
            false => Seen::Nothing,
        }
    }

    /// Refuses two documents on stdout.
    ///
    /// # Errors
    /// InvalidArgument.
    pub fn check(&self, json: bool) -> Result<()> {
        if json && self.is_printed() {
            return Err(Error::invalid_argument("--json and --trace both write to stdout")
                .hint("pass --trace-output FILE, or remove one of them"));
        }
        Ok(())
    }
}

/// What is known of a question before it is answered.
pub struct Before {
    /// The text of the question; `None` for ids.
    pub text: Option<String>,
    /// Duration of making tokens of it.
    pub tokenizing: Duration,
    /// The moment when computing began.
    pub began: Timestamp,
    /// The settings of the run.
    pub config: Config,
}

/// The trace of an answer as text.
///
/// # Errors
/// Io, if it cannot be written as JSON; that is a bug.
pub fn history(
    asked: &Asked<'_>,
    before: Before,
    recordings: Recordings,
    said: std::result::Result<Said, &Error>,
) -> Result<String> {
    let Recordings { prompt, answer } = recordings;
    let Before { text, tokenizing, began, config } = before;
    let token = |id: &u32| TokenOf { id: *id, text: text_of(asked.tokens, *id) };
    let trace = Trace {
        model: ModelFacts::of(&asked.args.file.display().to_string(), asked.facts, prompt.layers()),
        config,
        began,
        tokenizing,
        text,
        tokens: prompt.ids.iter().map(token).collect(),
        prompt,
        answer,
        next: Vec::new(),
        failed: said.as_ref().err().map(|error| error.message().to_owned()),
        said: said.ok(),
    };
    let text = serde_json::to_string_pretty(&History::of(&trace));
    text.map(|text| text + "\n")
        .map_err(|error| Error::io(format!("cannot write the trace as JSON: {error}")))
}
