//! The result of Jinja's filters such as `map` and `select`: a generator, which is true even if it is empty, has no
//! length, and runs once.

use crate::template::python::iterating::iterated;
use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Rest, Value, ValueOrKwargs};
use minijinja::{Environment, Error, State, filters};
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The items that have not been given.
#[derive(Debug)]
pub struct Generator(Mutex<Vec<Value>>);

impl Object for Generator {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        None
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<generator object>")
    }
}

type Answer = Result<Value, Error>;

/// Adds the filters that give one.
pub fn add(environment: &mut Environment<'_>) {
    environment.add_filter("map", |state: &mut State<'_, '_>, value: Value, rest: Rest<ValueOrKwargs>| {
        of(filters::map(state, items(value)?, rest)?)
    });
    environment.add_filter("select", select);
    environment.add_filter("reject", reject);
    environment.add_filter("selectattr", selectattr);
    environment.add_filter("rejectattr", rejectattr);
    environment.add_filter("unique", |state: &State<'_, '_>, value: Value, named: Kwargs| {
        of(filters::unique(state, iterated(value)?, named)?.try_iter()?.collect())
    });
    environment.add_filter(
        "batch",
        |state: &State<'_, '_>, value: Value, count: usize, fill: Option<Value>| {
            of(filters::batch(state, iterated(value)?, count, fill)?.try_iter()?.collect())
        },
    );
    environment.add_filter(
        "slice",
        |state: &State<'_, '_>, value: Value, count: usize, fill: Option<Value>| {
            of(filters::slice(state, iterated(value)?, count, fill)?.try_iter()?.collect())
        },
    );
}

fn select(
    state: &mut State<'_, '_>,
    value: Value,
    test: Option<Cow<'_, str>>,
    rest: Rest<ValueOrKwargs>,
) -> Answer {
    of(filters::select(state, items(value)?, test, rest)?)
}

fn reject(
    state: &mut State<'_, '_>,
    value: Value,
    test: Option<Cow<'_, str>>,
    rest: Rest<ValueOrKwargs>,
) -> Answer {
    of(filters::reject(state, items(value)?, test, rest)?)
}

fn selectattr(
    state: &mut State<'_, '_>,
    value: Value,
    name: Cow<'_, str>,
    test: Option<Cow<'_, str>>,
    rest: Rest<ValueOrKwargs>,
) -> Answer {
    of(filters::selectattr(state, items(value)?, name, test, rest)?)
}

fn rejectattr(
    state: &mut State<'_, '_>,
    value: Value,
    name: Cow<'_, str>,
    test: Option<Cow<'_, str>>,
    rest: Rest<ValueOrKwargs>,
) -> Answer {
    of(filters::rejectattr(state, items(value)?, name, test, rest)?)
}

fn of(items: Vec<Value>) -> Answer {
    Ok(Value::from_object(Generator(Mutex::new(items))))
}

/// The items that the filters run over: nothing in a value that is false, as Jinja asks that first.
fn items(value: Value) -> Answer {
    if value.is_true() { iterated(value) } else { Ok(Value::from(Vec::<Value>::new())) }
}
