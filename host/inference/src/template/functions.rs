//! Functions that transformers offers templates beyond Jinja itself: `raise_exception`, `strftime_now`, and its own `tojson`.

use super::{json, strftime};
use apr_sdk::{Error, escape};
use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, ErrorKind, State};
use std::fmt;

/// The reason why a template ended its rendering on purpose.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// It called `raise_exception` with this message.
    Raised(String),
    /// It asked for the date, but none was given.
    NoDate,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Raised(message) => f.write_str(message),
            Refusal::NoDate => f.write_str("no date"),
        }
    }
}

impl std::error::Error for Refusal {}

impl Refusal {
    /// The refusal inside an error of the library.
    pub fn of(error: &minijinja::Error) -> Option<&Refusal> {
        let mut at: &dyn std::error::Error = error;
        // An error that passes through macros is wrapped once for each; recursion is bounded.
        loop {
            at = at.source()?;
            if let Some(refusal) = at.downcast_ref::<Refusal>() {
                return Some(refusal);
            }
        }
    }

    fn wrapped(self) -> minijinja::Error {
        minijinja::Error::new(ErrorKind::InvalidOperation, "the template raised an exception")
            .with_source(self)
    }

    /// The error for the user.
    pub fn error(&self) -> Error {
        match self {
            Refusal::Raised(message) => {
                let message = escape(message, 300);
                Error::invalid_argument(format!("the chat template refuses these messages: {message}"))
                    .hint("change the messages as the template requires")
            }
            Refusal::NoDate => Error::invalid_argument(
                "the chat template uses today's date, so the text \
                 would differ from day to day",
            )
            .hint(
                "set SOURCE_DATE_EPOCH to a date in seconds since 1970, for example the current one: \
                 SOURCE_DATE_EPOCH=$(date +%s)",
            ),
        }
    }
}

/// Adds these functions; `now` is the current time for them.
pub fn add(environment: &mut Environment<'_>, now: Option<i64>) {
    environment.add_function("raise_exception", |message: Value| -> Result<Value, minijinja::Error> {
        Err(Refusal::Raised(message.to_string()).wrapped())
    });
    environment.add_function("strftime_now", move |format: String| -> Result<String, minijinja::Error> {
        let now = now.ok_or_else(|| Refusal::NoDate.wrapped())?;
        strftime::strftime(now, &format)
            .map_err(|why| minijinja::Error::new(ErrorKind::InvalidOperation, why))
    });
    environment.add_filter("tojson", tojson);
}

fn tojson(
    state: &State<'_, '_>,
    value: Value,
    indent: Option<Value>,
    kwargs: Kwargs,
) -> Result<Value, minijinja::Error> {
    let ascii = flag(&kwargs, "ensure_ascii")?;
    let sorted = flag(&kwargs, "sort_keys")?;
    let indent = match indent.or(kwargs.get::<Option<Value>>("indent")?).filter(|value| !value.is_none()) {
        Some(value) => Some(usize::try_from(value)?),
        None => None,
    };
    let separators = kwargs.get::<Option<Value>>("separators")?;
    let separators = match separators.filter(|value| !value.is_none()) {
        Some(pair) => Some((text(&pair, 0)?, text(&pair, 1)?)),
        None => None,
    };
    kwargs.assert_all_used()?;
    let style = json::Style::new(indent, separators, ascii, sorted);
    json::write(state, &value, &style).map(Value::from)
}

fn flag(kwargs: &Kwargs, key: &str) -> Result<bool, minijinja::Error> {
    Ok(kwargs.get::<Option<Value>>(key)?.is_some_and(|value| value.is_true()))
}

fn text(pair: &Value, n: usize) -> Result<String, minijinja::Error> {
    match pair.get_item_by_index(n)?.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, "separators must be a pair of strings"))
        }
    }
}
