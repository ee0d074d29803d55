//! An answer on its way to stdout, piece by piece: one of a million rows is never held as text.

use std::fmt;
use std::io::{self, BufWriter, Write};

/// Passes text on, with what a terminal could take amiss escaped by `escaped`, which leaves printable ASCII as it is.
pub struct Escaping<W: Write> {
    out: BufWriter<W>,
    escaped: fn(&str) -> String,
    failed: Option<io::Error>,
}

impl<W: Write> Escaping<W> {
    /// Writes to `out`.
    pub fn new(out: W, escaped: fn(&str) -> String) -> Escaping<W> {
        Escaping { out: BufWriter::with_capacity(1 << 16, out), escaped, failed: None }
    }

    /// Writes what `answer` shows.
    ///
    /// # Errors
    /// Whatever writing raised.
    pub fn show(&mut self, answer: &impl fmt::Display) -> io::Result<()> {
        // `fmt::Error` says nothing; what `out` said is kept.
        fmt::Write::write_fmt(self, format_args!("{answer}"))
            .map_err(|error| self.failed.take().unwrap_or_else(|| io::Error::other(error)))
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
            return self.out.write_all(text.as_bytes());
        }
        self.out.write_all((self.escaped)(text).as_bytes())
    }
}

impl<W: Write> fmt::Write for Escaping<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text(text).map_err(|error| {
            self.failed = Some(error);
            fmt::Error
        })
    }
}

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // `serde_json` never cuts a character in two.
        let text = std::str::from_utf8(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        self.text(text)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::{escape_json, escape_lines};

    #[test]
    fn pieces_are_escaped_as_the_whole_is() {
        let text = "plain\nü\u{1b}[31m\u{7f}\u{202e}\u{1f600}";
        let mut shown = Vec::new();
        let mut out = Escaping::new(&mut shown, escape_lines);
        out.show(&text).unwrap();
        out.show(&"more").unwrap();
        drop(out);
        assert_eq!(String::from_utf8(shown).unwrap(), escape_lines(text) + "more");
        let mut written = Vec::new();
        serde_json::to_writer(Escaping::new(&mut written, escape_json), text).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), escape_json(&serde_json::to_string(text).unwrap()));
    }

    #[test]
    fn what_writing_raised_is_told() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = Escaping::new(Full, escape_lines).show(&"x".repeat(1 << 17)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
