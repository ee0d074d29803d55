//! Filters that run over a value: they fail for what Python does not iterate, where the library takes none for an empty list.

use crate::template::python::objects::View;
use crate::template::python::values::{name_of, order, text};
use crate::template::python::{is_iterable, not_iterable, pay};
use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, State, filters};

type Answer = Result<Value, Error>;

/// Adds them to an environment.
pub fn add(environment: &mut Environment<'_>) {
    environment
        .add_filter("list", |state: &State<'_, '_>, value: Value| filters::list(state, iterated(value)?));
    environment.add_filter("max", |state: &State<'_, '_>, value: Value, named: Kwargs| {
        filters::max(state, ordered(value, &named)?, named)
    });
    environment.add_filter("min", |state: &State<'_, '_>, value: Value, named: Kwargs| {
        filters::min(state, ordered(value, &named)?, named)
    });
    environment.add_filter("sort", |state: &State<'_, '_>, value: Value, named: Kwargs| {
        filters::sort(state, ordered(value, &named)?, named)
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
    let value = iterated(value)?;
    if attribute.is_some() || named.has("attribute") || value.as_str().is_some() {
        return filters::join(state, &value, joiner, attribute, named);
    }
    let mut items = Vec::new();
    for item in value.try_iter()? {
        items.push(if item.as_str().is_some() { item } else { Value::from(text(&item)?) });
    }
    filters::join(state, &Value::from(items), joiner, attribute, named)
}

/// The items of a value, if Python orders them.
fn ordered(value: Value, named: &Kwargs) -> Answer {
    let items: Vec<Value> = iterated(value)?.try_iter()?.collect();
    let attribute: Option<Value> = named.peek("attribute").ok();
    let attribute = attribute.as_ref().and_then(Value::as_str);
    if let Some((first, others)) = items.split_first() {
        let first = key(first, attribute)?;
        for other in others {
            order(&first, &key(other, attribute)?)?;
        }
    }
    Ok(Value::from(items))
}

/// What an item is ordered by.
fn key(item: &Value, attribute: Option<&str>) -> Answer {
    match attribute {
        Some(name) if !name.contains(['.', ',']) => match name.parse::<usize>() {
            Ok(place) => item.get_item_by_index(place),
            Err(_) => item.get_item(&Value::from(name)),
        },
        Some(_) => Ok(Value::from(0)),
        None => Ok(item.clone()),
    }
}

/// The value, if Python iterates it. What a loop has left is not iterated here.
pub fn iterated(value: Value) -> Answer {
    if is_iterable(&value) && name_of(&value) != "Loop" { Ok(value) } else { Err(not_iterable(&value)) }
}

/// What a loop runs over: the library must know how many items there are, or its last one would be like the others.
pub fn looped(state: &State<'_, '_>, value: Value) -> Answer {
    if let Some(text) = value.as_str() {
        pay(state, text.len().saturating_mul(size_of::<Value>()))?;
        return Ok(text.chars().map(|c| Value::from(c.to_string())).collect());
    }
    match value.downcast_object_ref::<View>() {
        Some(view) => Ok(Value::from(view.items.clone())),
        None => iterated(value),
    }
}
