//! The source of a chat's lines: a line editor on a terminal, else stdin.

use crate::cli::folders::{process_env, state_home};
use crate::cli::output::terminal::Terminal;
use apr_sdk::{Error, Result, escape};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use std::io::{self, BufRead, IsTerminal, Read};
use std::path::PathBuf;

/// Lines that are remembered. 1000: as shells do.
const REMEMBERED: usize = 1000;

/// Bytes of a line from a pipe. 16 MiB: more than any context holds.
const MAX_LINE: u64 = 16 << 20;

/// A line of input.
pub enum Line {
    /// Some text.
    Text(String),
    /// Ctrl-C was pressed at the prompt.
    Interrupted,
    /// There is no more.
    End,
}

/// The source of lines.
pub enum Input {
    /// A terminal.
    Editor(Box<LineEditor>),
    /// A pipe or a file.
    Stdin,
}

/// A line editor and its history.
pub struct LineEditor {
    editor: Editor<(), FileHistory>,
    /// The path of the history, if it is kept.
    history: Option<PathBuf>,
}

impl Input {
    /// The lines of stdin, with an editor if it is a terminal. Without a history that can be read or kept, there is none.
    ///
    /// # Errors
    /// Io if the terminal cannot be used.
    pub fn open(keep: bool, terminal: &Terminal) -> Result<Input> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Ok(Input::Stdin);
        }
        let config = Config::builder()
            .max_history_size(REMEMBERED)
            .and_then(|config| config.history_ignore_dups(true));
        let editor = config.and_then(|config| Editor::with_config(config.auto_add_history(false).build()));
        let mut editor = editor.map_err(|error| failed(&error))?;
        let history = keep.then(|| state_home(&process_env)).flatten();
        let history = history.map(|state| state.join("apr").join("chat-history"));
        if let Some(path) = history.as_ref().filter(|path| path.is_file())
            && let Err(error) = editor.load_history(path)
        {
            let shown = path.display();
            terminal.warn(&format!(
                "cannot read the chat history in {shown}: {}",
                escape(&error.to_string(), 200)
            ));
        }
        Ok(Input::Editor(Box::new(LineEditor { editor, history })))
    }

    /// Returns whether a person types.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Input::Editor(_))
    }

    /// The next line; `prompt` is shown on a terminal.
    ///
    /// # Errors
    /// Io if it cannot be read; Malformed if it is not UTF-8; LimitExceeded for a line without end.
    pub fn line(&mut self, prompt: &str) -> Result<Line> {
        match self {
            Input::Editor(editor) => match editor.editor.readline(prompt) {
                Ok(line) => Ok(Line::Text(line)),
                Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
                Err(ReadlineError::Eof) => Ok(Line::End),
                Err(error) => Err(failed(&error)),
            },
            Input::Stdin => piped_line(&mut io::stdin().lock()),
        }
    }

    /// Remembers what was typed, so that the arrow keys bring it back.
    pub fn remember(&mut self, typed: &str) {
        let Input::Editor(editor) = self else { return };
        let _ = editor.editor.add_history_entry(typed);
        let Some(path) = &editor.history else { return };
        // A history that cannot be kept is no reason to end a conversation.
        if let Some(folder) = path.parent() {
            let _ = std::fs::create_dir_all(folder);
        }
        let _ = editor.editor.append_history(path);
    }
}

/// The next line of a pipe or a file.
fn piped_line(from: &mut dyn BufRead) -> Result<Line> {
    let mut line = String::new();
    match from.take(MAX_LINE + 1).read_line(&mut line) {
        Ok(0) => Ok(Line::End),
        Ok(n) if u64::try_from(n).is_ok_and(|n| n > MAX_LINE) => Err(Error::limit(format!(
            "an input line is longer than the limit of {MAX_LINE} bytes"
        ))
        .hint("send shorter messages, one per line; `apr run MODEL -f FILE` accepts a text of many lines")),
        Ok(_) => Ok(Line::Text(line.trim_end_matches(['\n', '\r']).to_owned())),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(Error::malformed("the input is not valid UTF-8"))
        }
        Err(error) => Err(Error::io(format!("cannot read the input: {error}"))),
    }
}

fn failed(error: &ReadlineError) -> Error {
    Error::io(format!("cannot use the terminal: {}", escape(&error.to_string(), 200)))
        .hint("pipe the messages to stdin instead")
}
