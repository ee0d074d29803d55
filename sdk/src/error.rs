//! Errors that carry their place: what is wrong, in which file, at which offset, in which tensor, and what to
//! do.

use crate::escape;
use std::fmt;

/// The result of every fallible call in the SDK.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an error. The host derives the exit code from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file breaks its own format's rules. Exit 4.
    Malformed,
    /// The file is valid, but this program or this target cannot hold or do that. Exit 4.
    Unsupported,
    /// A named cap of [`crate::Limits`] or the memory budget would be exceeded. Exit 4.
    LimitExceeded,
    /// The user asked for something impossible or contradictory. Exit 2.
    InvalidArgument,
    /// A file, folder or shard does not exist. Exit 3.
    NotFound,
    /// The machine failed: disk full, no permission, a file that changed while it was read. Exit 1.
    Io,
    /// A plugin was refused, panicked, or broke its contract. Exit 1.
    Plugin,
    /// A check failed: verification, validation, comparison. Exit 5.
    Failed,
    /// The user stopped the work. Exit 130.
    Cancelled,
}

impl ErrorKind {
    /// Every kind, once.
    pub const ALL: [ErrorKind; 9] = [
        ErrorKind::Malformed,
        ErrorKind::Unsupported,
        ErrorKind::LimitExceeded,
        ErrorKind::InvalidArgument,
        ErrorKind::NotFound,
        ErrorKind::Io,
        ErrorKind::Plugin,
        ErrorKind::Failed,
        ErrorKind::Cancelled,
    ];
}

/// An error with its place. Use the constructor named after its kind, then add what is known:
///
/// ```
/// use apr_sdk::Error;
/// let error = Error::malformed("tensor count 4000000000 needs at least 96 GB of index, 1.2 MB are left")
///     .at(8)
///     .hint("download the file again");
/// assert_eq!(error.offset(), Some(8));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Body>);

#[derive(Clone, PartialEq, Eq)]
struct Body {
    kind: ErrorKind,
    code: Option<String>,
    message: String,
    file: Option<String>,
    offset: Option<u64>,
    tensor: Option<String>,
    hint: Option<String>,
    causes: Vec<String>,
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $kind:ident;)*) => {
        impl Error {
            $($(#[$doc])* #[cold] pub fn $name(message: impl Into<String>) -> Error {
                Error::new(ErrorKind::$kind, message)
            })*
        }
    };
}

constructors! {
    /// The file breaks its own format's rules.
    malformed => Malformed;
    /// Valid, but not possible here or in this target.
    unsupported => Unsupported;
    /// A cap or the memory budget would be exceeded.
    limit => LimitExceeded;
    /// The user's request is impossible or contradictory.
    invalid_argument => InvalidArgument;
    /// A file, folder or shard does not exist.
    not_found => NotFound;
    /// The machine failed: disk full, no permission.
    io => Io;
    /// A plugin was refused, panicked, or broke its contract.
    plugin => Plugin;
    /// A check failed.
    failed => Failed;
    /// The user stopped the work.
    cancelled => Cancelled;
}

impl Error {
    /// An error of `kind`. Write `message` as one sentence, lower case, without a full stop.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Body {
            kind,
            code: None,
            message: message.into(),
            file: None,
            offset: None,
            tensor: None,
            hint: None,
            causes: Vec::new(),
        }))
    }

    /// Sets the absolute byte offset, unless one is set already (the innermost wins).
    pub fn at(mut self, offset: u64) -> Error {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Sets the file, unless one is set already.
    pub fn in_file(mut self, file: impl Into<String>) -> Error {
        self.0.file.get_or_insert_with(|| file.into());
        self
    }

    /// Replaces the file. The host does so to show the path as the user typed it.
    pub fn with_file(mut self, file: impl Into<String>) -> Error {
        self.0.file = Some(file.into());
        self
    }

    /// Sets the tensor's name, unless one is set already.
    pub fn tensor(mut self, name: impl Into<String>) -> Error {
        self.0.tensor.get_or_insert_with(|| name.into());
        self
    }

    /// Sets the hint, an imperative that ideally contains a working command, unless one is set already.
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.0.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// Replaces the message and keeps the rest, for a caller that knows more than whoever raised the error.
    pub fn with_message(mut self, message: impl Into<String>) -> Error {
        self.0.message = message.into();
        self
    }

    /// Replaces the hint, for a caller that knows more than whoever raised the error.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Error {
        self.0.hint = Some(hint.into());
        self
    }

    /// Sets the stable code (`E002`, `E_ABI_MAJOR`, ...), unless one is set already.
    pub fn code(mut self, code: impl Into<String>) -> Error {
        self.0.code.get_or_insert_with(|| code.into());
        self
    }

    /// Adds a cause, shown below the message with `-v`.
    pub fn cause(mut self, cause: impl Into<String>) -> Error {
        self.0.causes.push(cause.into());
        self
    }

    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The sentence that says what is wrong.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The stable code: the one that was set, or the one implied by the kind (malformed file, limit, failed
    /// machine).
    pub fn stable_code(&self) -> Option<&str> {
        if let Some(code) = &self.0.code {
            return Some(code);
        }
        match self.0.kind {
            ErrorKind::Malformed => Some("E002"),
            ErrorKind::LimitExceeded => Some("E008"),
            ErrorKind::Io => Some("E007"),
            _ => None,
        }
    }

    /// The file, as whoever raised the error named it.
    pub fn file(&self) -> Option<&str> {
        self.0.file.as_deref()
    }

    /// The absolute byte offset in the file.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The tensor's name, unescaped.
    pub fn tensor_name(&self) -> Option<&str> {
        self.0.tensor.as_deref()
    }

    /// The hint: what the user can do.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The causes, outermost first.
    pub fn causes(&self) -> &[String] {
        &self.0.causes
    }

    /// The code set with [`Error::code`], ignoring the one implied by the kind.
    pub fn explicit_code(&self) -> Option<&str> {
        self.0.code.as_deref()
    }
}

/// One line: `file: at offset 8: tensor x: message: hint`. The host's renderer uses the parts instead.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = &self.0;
        if let Some(code) = self.stable_code() {
            write!(f, "{code} ")?;
        }
        if let Some(file) = &body.file {
            write!(f, "{}: ", escape(file, 400))?;
        }
        if let Some(offset) = body.offset {
            write!(f, "at offset {offset}: ")?;
        }
        if let Some(tensor) = &body.tensor {
            write!(f, "tensor `{}`: ", escape(tensor, 120))?;
        }
        f.write_str(&body.message)?;
        match &body.hint {
            Some(hint) => write!(f, ": {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.0.kind)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn innermost_place_wins() {
        let error = Error::malformed("m").at(3).at(9).in_file("a").in_file("b").tensor("t").hint("h");
        assert_eq!(error.to_string(), "E002 a: at offset 3: tensor `t`: m: h");
    }
}
