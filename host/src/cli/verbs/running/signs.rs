//! Signs that something is wrong with an answer, in words: the likely cause, and the command that shows it.

use apr_engine::hints;
use apr_engine::wording::n_of;
use apr_inference::generation::Sign;
use apr_sandbox::Tokens;
use apr_sdk::{Error, ErrorKind, Result, escape};
use std::path::Path;

/// A sign in words; `tokens` is `None` for a model that is given ids.
pub fn in_words(sign: Sign, tokens: Option<&Tokens>, model: &Path, greedy: bool) -> String {
    let hint = match sign {
        Sign::Repeated { .. } | Sign::Loop { .. } => hints::LOOP,
        Sign::EndedAtOnce { .. } | Sign::WantedToEnd { .. } => hints::ENDED,
        Sign::NotText { .. } => hints::UTF_8,
        Sign::NoToken { .. } => hints::VOCABULARY,
    };
    hint.told(&message(sign, tokens, model, greedy))
}

fn message(sign: Sign, tokens: Option<&Tokens>, model: &Path, greedy: bool) -> String {
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
        Sign::Loop { .. } | Sign::WantedToEnd { .. } | Sign::NotText { .. } => of_text(sign, &model),
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
        Sign::Loop { .. } | Sign::WantedToEnd { .. } | Sign::NotText { .. } => of_text(sign, model),
        Sign::NoToken { id } => format!("the model chose id {id}, which is not in its tokenizer"),
    }
}

/// A sign of an answer as a whole.
fn of_text(sign: Sign, model: &str) -> String {
    match sign {
        Sign::Loop { tokens, times } => format!(
            "the model repeated the same {tokens} tokens {times} times in a row: try `--repeat-penalty 1.1`, and if \
             that does not help, run `apr check {model}`"
        ),
        Sign::WantedToEnd { probability } => format!(
            "the model would have ended the text immediately with a probability of {:.0} %: the prompt probably \
             lacks the chat template that it was trained with; run `apr tokenizer {model} --chat PROMPT` to see \
             the rendered text",
            100.0 * probability
        ),
        Sign::NotText { characters } => format!(
            "the answer has {} for bytes that are no text: the model broke off inside a character, or its tokenizer \
             belongs to another model; run `apr check {model}`",
            n_of(characters, "replacement character")
        ),
        _ => String::new(),
    }
}

fn piece(tokens: &Tokens, id: u32) -> String {
    let text = tokens.pieces(&[id]).ok().and_then(|pieces| pieces.into_iter().next().flatten());
    format!("`{}`", escape(text.as_deref().unwrap_or("?"), 40))
}

/// Tells of a prompt's characters that the tokenizer does not have: they became the token for unknown ones, or single bytes.
///
/// # Errors
/// As [`Tokens::pieces`].
pub fn unknown_in(prompt: &[u32], tokens: &Tokens) -> Result<Option<String>> {
    let unknown = tokens.facts().unknown;
    let pieces = tokens.pieces(prompt)?;
    let mut count = 0;
    let mut first = None;
    for (at, (id, piece)) in prompt.iter().zip(pieces).enumerate() {
        let is_byte = piece.as_deref().is_some_and(is_byte);
        if Some(*id) == unknown || is_byte {
            count += 1;
            first.get_or_insert((at, is_byte));
        }
    }
    let Some((at, is_byte)) = first else { return Ok(None) };
    let what = if is_byte { "a single byte" } else { "the token for unknown characters" };
    Ok(Some(hints::UNKNOWN.told(&format!(
        "the tokenizer does not have all characters of the prompt: {} of them stand for unknown ones or bytes, the first, \
         {what}, is number {}",
        n_of(count, "token"),
        at + 1
    ))))
}

/// True for a token of one byte, such as `<0xE2>`.
fn is_byte(piece: &str) -> bool {
    let digits = piece.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| {
        digits.len() == 2 && u8::from_str_radix(digits, 16).is_ok_and(|byte| byte > 0x7f)
    })
}

/// Adds to an error of generating what probably caused it.
pub fn explained(error: Error, model: &Path) -> Error {
    if error.kind() != ErrorKind::Failed {
        return error;
    }
    let model = quoted(model);
    let message = hints::NOT_FINITE.told(error.message());
    error.with_message(message).hint(format!(
        "run `apr check {model}` to find the operation and the tensor; if values only overflow during \
         computation, try `--cache-type f32`"
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
        assert!(hint(Error::failed("NaN")).is_some_and(|hint| hint.contains("apr check m.gguf")));
        assert_eq!(hint(Error::io("gone")), None);
    }
}
