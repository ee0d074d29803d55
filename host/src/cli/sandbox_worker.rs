//! A model's tokenizer and chat templates in a worker process, for every verb that needs them.

use crate::cli::context::Context;
use apr_engine::open::OpenedModel;
use apr_host::host::Host;
use apr_sandbox::{Program, Tokens, Watch};
use apr_sdk::{Error, ErrorKind, Result};
use std::sync::Arc;

/// Starts a worker with the tokenizer of a model; with `-v`, says in which way the system does not confine it.
///
/// # Errors
/// As [`tokenizer_json`]; Io if no worker can be started; what is wrong with the tokenizer.
pub fn tokens_of(host: &Host, opened: &OpenedModel, context: &Context) -> Result<Tokens> {
    let tokenizer = tokenizer_json(host, opened)?;
    let tokens = Tokens::new(Program::this()?, tokenizer, watch(host))
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

/// The tokenizer of a model, as JSON of its representation.
///
/// # Errors
/// Unsupported if there is none, or one that is not understood; any error from reading it.
pub fn tokenizer_json(host: &Host, opened: &OpenedModel) -> Result<Vec<u8>> {
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
            .hint("specify the folder or file that contains the model's tokenizer")
    })?;
    Ok(opened.fetch(&bytes)?.inline().unwrap_or_default().to_vec())
}
