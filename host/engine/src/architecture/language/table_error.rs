//! Errors of an architecture table, with the path of keys that leads to their cause: the TOML that is read is merged with the
//! base's, and has no positions of its own.

use apr_sdk::Error;

/// The result of reading a part of a table.
pub type Read<T> = std::result::Result<T, TableError>;

/// A step from a value of TOML to one inside of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To the value of a key.
    Key(String),
    /// To an item of an array, by its number.
    Item(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Step {
        Step::Key(key.to_owned())
    }
}

impl From<usize> for Step {
    fn from(at: usize) -> Step {
        Step::Item(at)
    }
}

/// An error in a table. Whoever reads a part adds the step that led there, so that the path grows from the inside out.
#[derive(Debug)]
pub struct TableError {
    error: Error,
    /// The steps, the innermost first.
    steps: Vec<Step>,
}

impl TableError {
    /// The error, and the path from the table's root to its cause.
    pub fn into_parts(mut self) -> (Error, Vec<Step>) {
        self.steps.reverse();
        (self.error, self.steps)
    }

    /// The error without its path.
    pub fn into_error(self) -> Error {
        self.error
    }

    /// Puts the name of what is read before the message.
    #[must_use]
    pub fn about(self, what: &str) -> TableError {
        let message = format!("{what}: {}", self.error.message());
        TableError { error: Error::invalid_argument(message), ..self }
    }
}

impl From<Error> for TableError {
    fn from(error: Error) -> TableError {
        TableError { error, steps: Vec::new() }
    }
}

/// Adds steps to the path of an error.
pub trait Within<T> {
    /// Says that the error lies within the value to which this step leads.
    ///
    /// # Errors
    /// The error, with a longer path.
    fn within(self, step: impl Into<Step>) -> Read<T>;
}

impl<T, E: Into<TableError>> Within<T> for std::result::Result<T, E> {
    fn within(self, step: impl Into<Step>) -> Read<T> {
        self.map_err(|error| {
            let mut error: TableError = error.into();
            error.steps.push(step.into());
            error
        })
    }
}
