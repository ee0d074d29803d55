//! Stdout as an answer streams to it.

use apr_sdk::{Error, Result, escape_lines};
use std::cell::Cell;
use std::io::{self, IsTerminal, Write};

/// Writes an answer piece by piece: to the byte for a program, with what a terminal could take amiss escaped for one.
pub struct Stdout {
    is_terminal: bool,
    is_closed: Cell<bool>,
    /// True if the last piece ended a line.
    at_start: Cell<bool>,
}

impl Stdout {
    /// The process's.
    pub fn new() -> Stdout {
        Stdout {
            is_terminal: io::stdout().is_terminal(),
            is_closed: Cell::new(false),
            at_start: Cell::new(true),
        }
    }

    /// Returns whether the reader is gone, as in `apr run ... | head`.
    pub fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// Writes a piece of text at once. A reader that went away is no error.
    ///
    /// # Errors
    /// Io if it cannot be written.
    pub fn give(&self, text: &str) -> Result<()> {
        if self.is_closed.get() || text.is_empty() {
            return Ok(());
        }
        let shown = if self.is_terminal { escape_lines(text) } else { text.to_owned() };
        let mut out = io::stdout().lock();
        let written = out.write_all(shown.as_bytes()).and_then(|()| out.flush());
        self.at_start.set(text.ends_with('\n'));
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed.set(true);
                Ok(())
            }
            Err(error) => Err(Error::io(format!("cannot write the answer to stdout: {error}"))),
            Ok(()) => Ok(()),
        }
    }

    /// Ends the last line.
    ///
    /// # Errors
    /// As [`Stdout::give`].
    pub fn end_line(&self) -> Result<()> {
        if self.at_start.get() { Ok(()) } else { self.give("\n") }
    }
}
