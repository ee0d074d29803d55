//! A model's tokenizer and chat templates in a worker process, for every verb that needs them.

use crate::cli::context::Context;
use apr_engine::architecture::way_out_of_lone;
use apr_engine::open::OpenedModel;
use apr_host::host::Host;
use apr_sandbox::{Program, Tokens, Watch};
use apr_sdk::{Error, ErrorKind, Result, escape};
use serde::Deserialize;
use std::sync::Arc;

/// Starts a worker with a model's tokenizer; with `-v`, says in which way the system does not confine it.
///
/// # Errors
/// Io if no worker can be started; what is wrong with the tokenizer.
pub fn tokens_of(given: Given, host: &Host, opened: &OpenedModel, context: &Context) -> Result<Tokens> {
    let tokens = Tokens::new(Program::this()?, given.json, watch(host))
        .map_err(|error| error.in_file(opened.path.display().to_string()))?;
    let remark = tokens.remark();
    if context.terminal.verbose > 0 && !remark.is_empty() {
        context.terminal.note(&format!("the tokenizer's worker process may open files: {remark}"));
    }
    Ok(tokens)
}

/// The flags to watch while a worker works for a host.
pub fn watch(host: &Host) -> Watch {
    Watch { cancel: Arc::clone(&host.cancel) }
}

/// The longest note that is shown, in characters. 600: those of the plugins are shorter.
const MAX_NOTE: usize = 600;

/// The tokenizer of a model, as its format gives it.
pub struct Given {
    /// The JSON of its representation.
    pub json: Vec<u8>,
    /// Warnings of statements that its files make in two ways, or in a way that programs read in two.
    pub warnings: Vec<String>,
}

#[derive(Deserialize)]
struct Noted {
    #[serde(default)]
    notes: Vec<String>,
}

impl Given {
    /// Reads the tokenizer of a model.
    ///
    /// # Errors
    /// Unsupported if there is none, or one that is not understood; any error from reading it.
    pub fn of(host: &Host, opened: &OpenedModel) -> Result<Given> {
        let json = tokenizer_json(host, opened)?;
        // What is no tokenizer is refused by whoever reads all of it.
        let notes = serde_json::from_slice::<Noted>(&json).map(|noted| noted.notes).unwrap_or_default();
        let warnings = notes.iter().map(|note| escape(note, MAX_NOTE)).collect();
        Ok(Given { json, warnings })
    }

    /// Adds the warnings to those that are there, each once.
    pub fn warn(&self, warnings: &mut Vec<String>) {
        for warning in &self.warnings {
            if !warnings.contains(warning) {
                warnings.push(warning.clone());
            }
        }
    }
}

/// The way out for a model without a tokenizer, as an imperative.
fn way_to_tokenizer(host: &Host, opened: &OpenedModel) -> String {
    let format = host.registry.format(&opened.format);
    if let Some(way) = way_out_of_lone(&host.registry, &opened.model) {
        way
    } else if format.is_ok_and(|format| format.manifest.folder) {
        "put the files of its tokenizer into the model's folder".to_owned()
    } else {
        "use a file that was made of the model with its tokenizer".to_owned()
    }
}

fn tokenizer_json(host: &Host, opened: &OpenedModel) -> Result<Vec<u8>> {
    let tokenizer = opened.tokenizer(host).map_err(|error| match error.kind() {
        // What the format says is said of converting it.
        ErrorKind::Unsupported => {
            let file = opened.path.display().to_string();
            let hint = error.hint_text().unwrap_or(
                "use a model with a BPE, Unigram or WordPiece tokenizer, or use the program that the model was made for",
            );
            Error::unsupported(error.message().replace("cannot be converted", "is not supported"))
                .in_file(file)
                .hint(hint)
        }
        _ => error,
    });
    let bytes = tokenizer?.ok_or_else(|| {
        Error::unsupported("the model has no tokenizer, or its format cannot hold one")
            .in_file(opened.path.display().to_string())
            .hint(way_to_tokenizer(host, opened))
    })?;
    Ok(opened.fetch(&bytes)?.inline().unwrap_or_default().to_vec())
}
