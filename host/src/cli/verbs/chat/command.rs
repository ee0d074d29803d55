//! Input typed in a chat: a message, or a command.

use apr_sdk::{Error, Result, escape};

/// A line, or several between `"""`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    /// Nothing.
    Nothing,
    /// A message of the user.
    Message(String),
    /// `/exit`, `/bye` or `/quit`.
    Exit,
    /// `/clear`: forget the conversation.
    Clear,
    /// `/system TEXT`: instructions for the model, from an empty conversation on; without a text, none.
    System(String),
    /// `/help`.
    Help,
}

/// The text that `/help` prints.
pub const HELP: &str = "/system TEXT  set instructions for the model and start again
/clear        forget the conversation
/help         show this
/exit         leave (also /bye and Ctrl-D)
\"\"\"           begin and end a message of several lines
Ctrl-C        end the answer; at the prompt, press twice to leave
";

/// Separator between a message of several lines and what is around it.
const FENCE: &str = "\"\"\"";

/// Puts lines together.
#[derive(Debug, Default)]
pub struct Lines {
    /// The lines of a message that has not ended.
    open: Option<String>,
}

impl Lines {
    /// Returns whether a message has begun and not ended.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Forgets the message that has begun.
    pub fn abandon(&mut self) {
        self.open = None;
    }

    /// Takes a line; `None` if the message goes on.
    ///
    /// # Errors
    /// InvalidArgument for a command that there is not.
    pub fn push(&mut self, line: &str) -> Result<Option<Typed>> {
        if let Some(mut message) = self.open.take() {
            return Ok(match line.trim_end().strip_suffix(FENCE) {
                Some(last) => {
                    message.push_str(last);
                    Some(Typed::Message(message.trim_end_matches('\n').to_owned()))
                }
                None => {
                    message.push_str(line);
                    message.push('\n');
                    self.open = Some(message);
                    None
                }
            });
        }
        let trimmed = line.trim();
        if let Some(first) = trimmed.strip_prefix(FENCE) {
            if let Some(only) = first.strip_suffix(FENCE) {
                return Ok(Some(Typed::Message(only.to_owned())));
            }
            let begun = if first.is_empty() { String::new() } else { format!("{first}\n") };
            self.open = Some(begun);
            return Ok(None);
        }
        typed(trimmed).map(Some)
    }
}

fn typed(line: &str) -> Result<Typed> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    Ok(match word {
        "" => Typed::Nothing,
        "/exit" | "/bye" | "/quit" => Typed::Exit,
        "/clear" | "/reset" => Typed::Clear,
        "/system" => Typed::System(rest.trim().to_owned()),
        "/help" | "/?" => Typed::Help,
        // A path may be a message.
        _ if word.starts_with('/') && word.chars().skip(1).all(|c| c.is_ascii_lowercase()) => {
            let error = format!("unknown command `{}`", escape(word, 40));
            return Err(Error::invalid_argument(error).hint("type /help to list the commands"));
        }
        _ => Typed::Message(line.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lines: &[&str]) -> Vec<Option<Typed>> {
        let mut together = Lines::default();
        lines.iter().map(|line| together.push(line).unwrap()).collect()
    }

    fn message(text: &str) -> Option<Typed> {
        Some(Typed::Message(text.to_owned()))
    }

    #[test]
    fn commands_begin_with_a_slash() {
        assert_eq!(all(&["/exit", " /bye ", "/clear"]), [Typed::Exit, Typed::Exit, Typed::Clear].map(Some));
        assert_eq!(all(&["/system  Be short. "]), [Some(Typed::System("Be short.".to_owned()))]);
        assert_eq!(
            all(&["", "/home/ada is my home"]),
            [Some(Typed::Nothing), message("/home/ada is my home")]
        );
        let error = Lines::default().push("/sytem x").unwrap_err();
        assert!(error.message().contains("/sytem"), "{error}");
    }

    #[test]
    fn fences_hold_several_lines() {
        assert_eq!(all(&["\"\"\"", "one", "  /exit", "\"\"\""]), [None, None, None, message("one\n  /exit")]);
        assert_eq!(all(&["\"\"\"one", "two\"\"\"", "x"]), [None, message("one\ntwo"), message("x")]);
        assert_eq!(all(&["\"\"\"one\"\"\""]), [message("one")]);
    }
}
