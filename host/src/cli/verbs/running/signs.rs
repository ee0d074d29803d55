//! Signs that something is wrong with an answer, in words: the likely cause, and the command that shows it.

use apr_inference::generation::Sign;
use apr_sandbox::Tokens;
use apr_sdk::{Error, ErrorKind, escape};
use std::path::Path;

/// A sign in words; `tokens` is `None` for a model that is given ids.
pub fn in_words(sign: Sign, tokens: Option<&Tokens>, model: &Path, greedy: bool) -> String {
    let model = quoted(model);
    let Some(tokens) = tokens else { return without_tokens(sign, &model) };
    match sign {
        Sign::Repeated { id, times } if greedy => format!(
            "the model repeated {} {times} times in a row: at temperature 0 small models tend to loop; try \
             `--temperature 0.8 --repeat-penalty 1.1`, and if that does not help, run `apr tensors {model} \
             --stats` to look for corrupt weights",
            piece(tokens, id)
        ),
        Sign::Repeated { id, times } => format!(
            "the model repeated {} {times} times in a row: its weights are probably corrupt or quantized \
             too far; run `apr tensors {model} --stats` to look for outliers",
            piece(tokens, id)
        ),
        Sign::EndedAtOnce { id, prompt_ended: true } => format!(
            "the model ended the text immediately, because the prompt itself ends with {}; run `apr \
             tokenizer {model} --encode PROMPT --pieces` to see the prompt's tokens",
            piece(tokens, id)
        ),
        Sign::EndedAtOnce { id, prompt_ended: false } => format!(
            "the model ended the text immediately with {}: the prompt probably lacks the chat template that \
             the model was trained with, or has a wrong one; run `apr tokenizer {model} --chat PROMPT` to \
             see the rendered text",
            piece(tokens, id)
        ),
        Sign::NoToken { id } => format!(
            "the model chose id {id}, which is not in its tokenizer: the tokenizer probably belongs to \
             another model; run `apr tokenizer {model}` to see its size"
        ),
    }
}

/// A sign in words, of a model whose ids have no pieces.
fn without_tokens(sign: Sign, model: &str) -> String {
    match sign {
        Sign::Repeated { id, times } => format!(
            "the model repeated id {id} {times} times in a row: try `--temperature 0.8 --repeat-penalty 1.1`, and if \
             that does not help, run `apr tensors {model} --stats` to look for corrupt weights"
        ),
        Sign::EndedAtOnce { id, .. } => format!("the model ended the text immediately with id {id}"),
        Sign::NoToken { id } => format!("the model chose id {id}, which is not in its tokenizer"),
    }
}

fn piece(tokens: &Tokens, id: u32) -> String {
    let text = tokens.pieces(&[id]).ok().and_then(|pieces| pieces.into_iter().next().flatten());
    format!("`{}`", escape(text.as_deref().unwrap_or("?"), 40))
}

/// Adds to an error of generating what probably caused it.
pub fn explained(error: Error, model: &Path) -> Error {
    if error.kind() != ErrorKind::Failed {
        return error;
    }
    let model = quoted(model);
    error.hint(format!(
        "run `apr tensors {model} --stats` to look for non-finite weights; if there are none, values \
         overflow during computation: try `--cache-type f32`"
    ))
}

/// A path as a shell takes it.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-/+=:@%,".contains(c)) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_can_be_pasted() {
        assert_eq!(quoted(Path::new("a/b-1.gguf")), "a/b-1.gguf");
        assert_eq!(quoted(Path::new("it's here.gguf")), "'it'\\''s here.gguf'");
    }

    #[test]
    fn only_failures_are_explained() {
        let hint = |error: Error| explained(error, Path::new("m.gguf")).hint_text().map(str::to_owned);
        assert!(hint(Error::failed("NaN")).is_some_and(|hint| hint.contains("apr tensors m.gguf --stats")));
        assert_eq!(hint(Error::io("gone")), None);
    }
}
