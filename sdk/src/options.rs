//! Options that a plugin's manifest declares. The host checks their values before the plugin sees them.

use crate::{Error, Result, escape};

/// The values an option accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionKind {
    /// On or off; without a value it is on.
    Flag,
    /// A whole number, at most 2^64 − 1.
    Integer,
    /// Any text.
    Text,
    /// One of the listed words.
    Choice(Vec<String>),
    /// A restriction, on or off: while it is on, the host refuses to read the format at all, even as a part.
    /// It is accepted for every input, whatever its format.
    Refuse,
}

impl OptionKind {
    /// The values it accepts, in words.
    pub fn takes(&self) -> String {
        match self {
            OptionKind::Flag | OptionKind::Refuse => "true or false".to_owned(),
            OptionKind::Integer => "an integer".to_owned(),
            OptionKind::Text => "text".to_owned(),
            OptionKind::Choice(words) => words.join(" or "),
        }
    }
}

/// One declared option: `FORMAT.option.NAME=WHEN KIND DEFAULT HELP` in the manifest, or of a compute backend
/// `BACKEND.option.NAME=open KIND DEFAULT HELP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionSpec {
    /// The name in `-O [format.]name=value`.
    pub name: String,
    /// True if it applies to reading.
    pub read: bool,
    /// True if it applies to writing.
    pub write: bool,
    /// The values it accepts.
    pub kind: OptionKind,
    /// The value if the user gives none; empty for no default.
    pub default: String,
    /// One line of help, imperative, without a full stop.
    pub help: String,
}

impl OptionSpec {
    /// Returns whether this option accepts `value`.
    pub fn accepts(&self, value: &str) -> bool {
        match &self.kind {
            OptionKind::Flag | OptionKind::Refuse => matches!(value, "true" | "false"),
            OptionKind::Integer => value.parse::<u64>().is_ok(),
            OptionKind::Text => true,
            OptionKind::Choice(words) => words.iter().any(|w| w == value),
        }
    }

    /// Refuses a value for this option of `of`, a format or a backend.
    ///
    /// # Errors
    /// InvalidArgument for a value that it does not accept.
    pub fn check(&self, of: &str, value: &str) -> Result<()> {
        if self.accepts(value) {
            return Ok(());
        }
        let message = format!("option `{of}.{}` cannot be `{}`", self.name, escape(value, 80));
        Err(Error::invalid_argument(message).hint(format!("pass {}: {}", self.kind.takes(), self.help)))
    }
}

/// Option names and values for one call; the host has filled in defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    values: Vec<(String, String)>,
}

impl Options {
    /// Set by the host when it opens a file as a part of a model: the reader describes this one file only and
    /// looks for no siblings. A writer asked for a part names its files after [`crate::LayoutRequest::stem`],
    /// whatever the model's files were called before.
    pub const PART: &'static str = "apr.part";

    /// Set by the host when a folder is opened by way of one of its files: the reader takes the payload from
    /// that file, or from the shard set it belongs to.
    pub const ONLY: &'static str = "apr.only";

    /// No options.
    pub fn new() -> Options {
        Options::default()
    }

    /// Sets `name`, replacing an earlier value.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let name = name.into();
        let value = value.into();
        match self.values.iter_mut().find(|(n, _)| *n == name) {
            Some(slot) => slot.1 = value,
            None => self.values.push((name, value)),
        }
    }

    /// These options with `name` set.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Options {
        self.set(name, value);
        self
    }

    /// The value of `name`, if it is set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Returns whether the flag `name` is on.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// The value of the whole-number option `name`, if it is set.
    pub fn integer(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// Returns whether the file is opened as a part (see [`Options::PART`]).
    pub fn is_part(&self) -> bool {
        self.flag(Options::PART)
    }

    /// Names and values, in the order they were first set.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }
}
