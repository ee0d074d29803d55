//! Conditions on a model's keys that mark its architecture.

use crate::architecture::language::expression::Scalar;
use crate::architecture::language::value::{from_value, says_null};
use crate::architecture::table::dialect::Dialect;
use apr_sdk::Value;

/// A key, and the values that mark the architecture (`*` for any).
type Condition = (String, Vec<Scalar>);

/// Returns whether a condition on a key holds; on `!key`, if the key is not stated, or has another value.
fn holds(condition: &Condition, lookup: &dyn Fn(&str) -> Option<Value>) -> bool {
    let (key, wanted) = condition;
    if let Some(key) = key.strip_prefix('!') {
        return !holds(&(key.to_owned(), wanted.clone()), lookup);
    }
    let Some(value) = lookup(key).filter(|value| !says_null(value)) else { return false };
    let any = wanted.contains(&Scalar::Text("*".to_owned()));
    match from_value(&value) {
        Some(Scalar::List(items)) => any || items.iter().any(|item| wanted.contains(item)),
        Some(value) => any || wanted.contains(&value),
        None => any,
    }
}

/// The start of conditions that ask for a tensor instead of a key.
pub(in crate::architecture) const OF_TENSORS: &str = "tensor:";

/// The number of conditions that hold if a dialect's keys mark an architecture, or `None`.
pub fn marks(dialect: &Dialect, lookup: &dyn Fn(&str) -> Option<Value>) -> Option<usize> {
    let marks = dialect.detect.iter().filter(|all| !all.is_empty());
    marks.filter(|all| all.iter().all(|condition| holds(condition, lookup))).map(Vec::len).max()
}

/// The keys that a model would additionally have to state to mark the architecture: the fewest. `None` if it
/// states none of a condition's keys, or contradicts one.
pub fn unstated<'d>(dialect: &'d Dialect, lookup: &dyn Fn(&str) -> Option<Value>) -> Option<Vec<&'d str>> {
    let mut fewest: Option<Vec<&str>> = None;
    for all in &dialect.detect {
        let (stated, lacking): (Vec<_>, Vec<_>) =
            all.iter().partition(|(key, _)| !is_key(key) || lookup(key).is_some());
        // What a model has not says nothing alone.
        let is_marked = stated.iter().any(|(key, _)| is_key(key))
            && stated.into_iter().all(|condition| holds(condition, lookup));
        let is_fewer = fewest.as_ref().is_none_or(|fewest| lacking.len() < fewest.len());
        if is_marked && !lacking.is_empty() && is_fewer {
            fewest = Some(lacking.into_iter().map(|(key, _)| key.as_str()).collect());
        }
    }
    fewest
}

/// Returns whether a condition asks for a key that a model may state.
pub(in crate::architecture) fn is_key(asked: &str) -> bool {
    !asked.starts_with('!') && !asked.starts_with(OF_TENSORS)
}
