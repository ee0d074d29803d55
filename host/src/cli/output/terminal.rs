//! The one place where a report or an error becomes stdout, stderr and an exit code.

use crate::cli::flags::globals::ColorWhen;
use crate::cli::output::exit_code::exit_code;
use crate::cli::output::hints_told::Told;
use crate::cli::output::stream::Escaping;
use crate::cli::output::verb_report::{Report, Streamed};
use apr_sdk::{Error, ErrorKind, Result, escape, escape_json, escape_lines};
use serde_json::{Value as Json, json};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

/// Settings for the use of the streams.
#[derive(Clone, Debug)]
pub struct Terminal {
    /// True if stdout gets a JSON document and errors are JSON objects.
    pub json: bool,
    /// True if everything but the result is left out.
    pub quiet: bool,
    /// Level of additional detail.
    pub verbose: u8,
    /// True if stderr gets colors.
    pub color: bool,
    /// Warnings that wait for the answer's document; shared by everything that speaks to this terminal.
    pub waiting: Arc<Mutex<Vec<String>>>,
    /// Hints that were told; shared likewise.
    pub told: Arc<Mutex<Told>>,
}

/// The longest path, message or hint that is shown, in characters: longer ones are a file's attempt to flood a screen.
const LONGEST: usize = 2000;

impl Terminal {
    /// The settings known before the arguments are understood, so that complaints about them obey `--json` and `--color`.
    pub fn before_parsing(args: &[OsString]) -> Terminal {
        let words: Vec<_> = args.iter().skip(1).map_while(|a| a.to_str().filter(|a| *a != "--")).collect();
        let when = words.iter().enumerate().find_map(|(n, word)| {
            let value = word.strip_prefix("--color=");
            value.or_else(|| (*word == "--color").then(|| words.get(n + 1).copied()).flatten())
        });
        let when =
            when.and_then(ColorWhen::from_word).or_else(|| ColorWhen::from_env(&|n| std::env::var(n).ok()));
        Terminal {
            json: words.contains(&"--json"),
            quiet: false,
            verbose: 0,
            color: color_wanted(when.unwrap_or(ColorWhen::Auto)),
            waiting: Arc::default(),
            told: Arc::default(),
        }
    }

    /// Prints help, a version, or another text that is no verb's result.
    pub fn text(&self, text: &str) -> ExitCode {
        self.code(write_out(text.as_bytes()).map(|()| 0))
    }

    /// Prints help on stderr for someone who typed nothing that could be done.
    pub fn usage(&self, text: &str) -> ExitCode {
        if self.json {
            return self.fail(
                &Error::invalid_argument("missing command").hint("run `apr --help` to list the commands"),
            );
        }
        let _ = io::stderr().lock().write_all(text.as_bytes());
        ExitCode::from(exit_code(ErrorKind::InvalidArgument))
    }

    /// Prints how a verb ended, and which hints were told.
    pub fn finish(&self, outcome: Result<Box<dyn Report>>) -> ExitCode {
        let code = self.end(outcome);
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).summary();
        if let Some(summary) = told.filter(|_| !self.json) {
            self.note(&summary);
        }
        code
    }

    fn end(&self, outcome: Result<Box<dyn Report>>) -> ExitCode {
        let mut report = match outcome {
            Ok(report) => report,
            Err(error) => {
                self.warn_of_waiting();
                return self.fail(&error);
            }
        };
        if let Some(warnings) = report.warnings_mut() {
            warnings.append(&mut self.take_waiting());
        }
        let printed = self.print(report.as_ref()).map_err(|error| match report.done() {
            Some(done) => error.hint(done),
            None => error,
        });
        self.code(printed.and_then(|()| report.verdict()).map(|()| 0))
    }

    /// Prints an error and gives its exit code.
    pub fn fail(&self, error: &Error) -> ExitCode {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).error(error.message());
        let code = exit_code(error.kind());
        let text = match self.json {
            true => json_line(&error_json(error, code)),
            false => self.error_text(error),
        };
        // Nobody is left to tell if stderr is gone.
        let _ = io::stderr().lock().write_all(text.as_bytes());
        ExitCode::from(code)
    }

    /// Says on stderr what the user should know though the work goes on.
    pub fn warn(&self, message: &str) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).warning(message);
        self.say("warning", "33", message);
    }

    /// Says what makes the answer doubtful: at once, or in the answer's document where that is JSON.
    pub fn warn_of_answer(&self, message: &str) {
        match self.json {
            true => self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(message.to_owned()),
            false => self.warn(message),
        }
    }

    fn take_waiting(&self) -> Vec<String> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Says on stderr what no document has a place for.
    fn warn_of_waiting(&self) {
        self.take_waiting().iter().for_each(|warning| self.warn(warning));
    }

    /// The same for what is only good to know.
    pub fn note(&self, message: &str) {
        self.say("note", "34", message);
    }

    /// Passes on what a process of ours said on stderr.
    pub fn relay(&self, said: &str) {
        let _ = io::stderr().lock().write_all(said.as_bytes());
    }

    fn say(&self, word: &str, style: &str, message: &str) {
        if self.quiet {
            return;
        }
        let text = if self.json {
            json_line(&json!({"schema": format!("apr.{word}/1"), "message": message}))
        } else {
            format!("{} {}\n", self.paint(style, &format!("{word}:")), escape(message, LONGEST))
        };
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    fn print(&self, report: &dyn Report) -> Result<()> {
        if !self.json {
            self.warn_of(report);
            if let Some(text) = report.exact().filter(|_| !io::stdout().is_terminal()) {
                return write_out(text.as_bytes());
            }
            // Reports escape what they quote; nothing that they overlook reaches the terminal either.
            if self.quiet {
                return write_out(escape_lines(&report.quiet()).as_bytes());
            }
            let mut out = Escaping::new(io::stdout().lock(), escape_lines);
            return ended(out.show(&report).and_then(|()| out.flush()));
        }
        let mut out = Escaping::new(io::stdout().lock(), escape_json);
        match report.write_json(&mut out).and_then(|streamed| out.flush().map(|()| streamed)) {
            Ok(Streamed::No) => {}
            Ok(Streamed::Document) => {
                self.warn_of_waiting();
                return Ok(());
            }
            Ok(Streamed::Rows) => {
                self.warn_of(report);
                self.warn_of_waiting();
                return Ok(());
            }
            Err(error) => return ended(Err(error)),
        }
        drop(out);
        let mut document = report.json()?;
        match &mut document {
            Json::Object(fields) => {
                let warnings = fields.entry("warnings").or_insert_with(|| Json::from(report.warnings()));
                if let Json::Array(warnings) = warnings {
                    warnings.extend(self.take_waiting().into_iter().map(Json::from));
                }
            }
            _ => self.warn_of(report),
        }
        self.warn_of_waiting();
        let text = document_text(&document)?;
        write_out(text.as_bytes())
    }

    fn warn_of(&self, report: &dyn Report) {
        report.warnings().iter().for_each(|warning| self.warn(warning));
    }

    fn code(&self, outcome: Result<u8>) -> ExitCode {
        outcome.map_or_else(|error| self.fail(&error), ExitCode::from)
    }

    fn paint(&self, style: &str, text: &str) -> String {
        if self.color { format!("\u{1b}[1;{style}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// `error[CODE]: what`, then `at` with the place, `caused by` with `-v`, and `help:` with the way out.
    fn error_text(&self, error: &Error) -> String {
        let head = error.stable_code().map_or("error:".to_owned(), |code| format!("error[{code}]:"));
        let mut text = format!("{} {}\n", self.paint("31", &head), escape(error.message(), LONGEST));
        let place: Vec<String> = [
            error.file().map(|file| escape(file, LONGEST)),
            error.offset().map(|offset| format!("offset {offset}")),
            error.tensor_name().map(|tensor| format!("tensor {}", escape(tensor, 200))),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !place.is_empty() {
            text.push_str(&format!("  {} {}\n", self.paint("34", "at"), place.join(", ")));
        }
        for cause in error.causes().iter().filter(|_| self.verbose > 0) {
            text.push_str(&format!("  caused by {}\n", escape(cause, LONGEST)));
        }
        if let Some(hint) = error.hint_text() {
            text.push_str(&format!("  {} {}\n", self.paint("32", "help:"), escape(hint, LONGEST)));
        }
        text
    }
}

/// Returns whether stderr gets colors: what was wanted, else what the terminal is.
pub fn color_wanted(when: ColorWhen) -> bool {
    match when {
        ColorWhen::Always => true,
        ColorWhen::Never => false,
        ColorWhen::Auto => {
            io::stderr().is_terminal()
                && std::env::var("CLICOLOR").as_deref() != Ok("0")
                && std::env::var("TERM").as_deref() != Ok("dumb")
        }
    }
}

/// An error as the one JSON object that `--json` puts on stderr.
pub fn error_json(error: &Error, code: u8) -> Json {
    json!({
        "schema": "apr.error/1",
        "code": error.stable_code(),
        "kind": kind_word(error.kind()),
        "message": error.message(),
        "file": error.file(),
        "offset": error.offset(),
        "tensor": error.tensor_name(),
        "hint": error.hint_text(),
        "causes": error.causes(),
        "exit": code,
    })
}

/// A JSON object on a line of its own, safe on a terminal.
pub fn json_line(object: &Json) -> String {
    escape_json(&object.to_string()) + "\n"
}

/// A document as text.
fn document_text(document: &Json) -> Result<String> {
    serde_json::to_string_pretty(document)
        .map(|text| escape_json(&text) + "\n")
        .map_err(|error| Error::io(format!("cannot write the result as JSON: {error}")))
}

fn kind_word(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Malformed => "malformed",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::LimitExceeded => "limit_exceeded",
        ErrorKind::InvalidArgument => "invalid_argument",
        ErrorKind::NotFound => "not_found",
        ErrorKind::Io => "io",
        ErrorKind::Plugin => "plugin",
        ErrorKind::Failed => "failed",
        ErrorKind::Cancelled => "cancelled",
        _ => "other",
    }
}

/// Writes to stdout.
fn write_out(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    ended(out.write_all(bytes).and_then(|()| out.flush()))
}

/// The outcome of writing to stdout. A reader that went away (`apr tensors | head`) is a quiet end.
fn ended(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::io(format!("cannot write the result to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Terminal {
        Terminal {
            json: false,
            quiet: false,
            verbose: 0,
            color: false,
            waiting: Arc::default(),
            told: Arc::default(),
        }
    }

    #[test]
    fn an_error_has_what_where_and_a_way_out() {
        let error =
            Error::malformed("tensor data ends 12 bytes too early").in_file("m.x").at(40).tensor("a\0b");
        let error = error.hint("download the file again").cause("read 3 of 15 bytes");
        assert_eq!(
            plain().error_text(&error),
            "error[E002]: tensor data ends 12 bytes too early\n  at m.x, offset 40, tensor a\\u{0}b\n  help: download the file again\n"
        );
        let verbose = Terminal { verbose: 1, color: true, ..plain() };
        assert!(verbose.error_text(&error).starts_with("\u{1b}[1;31merror[E002]:\u{1b}[0m "));
        assert!(verbose.error_text(&error).contains("\n  caused by read 3 of 15 bytes\n"));
    }

    #[test]
    fn every_kind_has_its_word() {
        assert!(ErrorKind::ALL.iter().all(|kind| kind_word(*kind) != "other"));
    }

    #[test]
    fn flags_are_seen_before_parsing_but_not_behind_two_dashes() {
        let terminal =
            |args: &[&str]| Terminal::before_parsing(&args.iter().map(OsString::from).collect::<Vec<_>>());
        assert!(terminal(&["apr", "inspect", "--json", "--color", "always"]).json);
        assert!(terminal(&["apr", "--color=always"]).color);
        assert!(!terminal(&["apr", "--color", "never", "--", "--json"]).json);
    }
}
