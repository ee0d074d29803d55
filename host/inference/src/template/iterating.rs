//! Filters that run over a value: they fail for what Python does not iterate, where the library takes none for an empty list.

use super::python::{is_iterable, not_iterable};
use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, State, filters};

type Answer = Result<Value, Error>;

/// Adds them to an environment.
pub fn add(environment: &mut Environment<'_>) {
    environment
        .add_filter("list", |state: &State<'_, '_>, value: Value| filters::list(state, iterated(value)?));
    environment.add_filter("max", |state: &State<'_, '_>, value: Value, named: Kwargs| {
        filters::max(state, iterated(value)?, named)
    });
    environment.add_filter("min", |state: &State<'_, '_>, value: Value, named: Kwargs| {
        filters::min(state, iterated(value)?, named)
    });
    environment.add_filter("sort", |state: &State<'_, '_>, value: Value, named: Kwargs| {
        filters::sort(state, iterated(value)?, named)
    });
    environment.add_filter("sum", sum);
    environment.add_filter("join", join);
}

fn sum(
    state: &State<'_, '_>,
    value: Value,
    attribute: Option<&str>,
    start: Option<Value>,
    named: Kwargs,
) -> Answer {
    filters::sum(state, iterated(value)?, attribute, start, named)
}

fn join(
    state: &mut State<'_, '_>,
    value: Value,
    joiner: Option<minijinja::value::StringInput<'_>>,
    attribute: Option<&str>,
    named: Kwargs,
) -> Answer {
    filters::join(state, &iterated(value)?, joiner, attribute, named)
}

/// The value, if Python iterates it.
pub fn iterated(value: Value) -> Answer {
    if is_iterable(&value) { Ok(value) } else { Err(not_iterable(&value)) }
}
