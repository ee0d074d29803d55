//! Options that a plugin's manifest declares, and their values, checked by the host before the plugin sees them.

/// What values an option takes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionKind {
    /// On or off; given without a value it is on.
    Flag,
    /// A whole number.
    Integer,
    /// Any text.
    Text,
    /// One of the listed words.
    Choice(Vec<String>),
    /// A restriction, on or off: while it is on, the host refuses to read the format at all, also as a part. It is
    /// accepted for every input, whatever its format.
    Refuse,
}

/// One declared option: `FORMAT.option.NAME=WHEN KIND DEFAULT HELP` in the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionSpec {
    /// Its name, given as `-O [format.]name=value`.
    pub name: String,
    /// Whether it concerns reading.
    pub read: bool,
    /// Whether it concerns writing.
    pub write: bool,
    /// What values it takes.
    pub kind: OptionKind,
    /// The value when none is given; empty for none.
    pub default: String,
    /// One line of help, imperative, without a full stop.
    pub help: String,
}

impl OptionSpec {
    /// Whether `value` is one this option takes.
    pub fn accepts(&self, value: &str) -> bool {
        match &self.kind {
            OptionKind::Flag | OptionKind::Refuse => matches!(value, "true" | "false"),
            OptionKind::Integer => value.parse::<u64>().is_ok(),
            OptionKind::Text => true,
            OptionKind::Choice(words) => words.iter().any(|w| w == value),
        }
    }
}

/// Names and values for one call; defaults are filled in by the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    values: Vec<(String, String)>,
}

impl Options {
    /// Set by the host when it opens a file as a part of a model: the reader describes this one file only and looks
    /// for no siblings. A writer that is asked for a part names its files after [`crate::LayoutRequest::stem`], whatever
    /// the model's files were called before.
    pub const PART: &'static str = "apr.part";

    /// Set by the host when a folder is opened by one of its files: the reader takes that file, or the shard set that
    /// it is of, for the payload.
    pub const ONLY: &'static str = "apr.only";

    /// No options.
    pub fn new() -> Options {
        Options::default()
    }

    /// Adds or replaces a value.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let (name, value) = (name.into(), value.into());
        match self.values.iter_mut().find(|(n, _)| *n == name) {
            Some(slot) => slot.1 = value,
            None => self.values.push((name, value)),
        }
    }

    /// These options and one more.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Options {
        self.set(name, value);
        self
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Whether a flag is on.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// The value of a whole-number option.
    pub fn integer(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// Whether the file is opened as a part (see [`Options::PART`]).
    pub fn is_part(&self) -> bool {
        self.flag(Options::PART)
    }

    /// All names and values, in the order they were set.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }
}
