//! Pairs of operations of two programs that compute the same.

use crate::tapped::Tapped;
use apr_sdk::Operation;
use std::collections::HashMap;

/// A place in the order of the reference's operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pair {
    /// Both have the operation: its numbers in the suspect and in the reference.
    Both(usize, usize),
    /// Only the reference has it.
    Missing(usize),
    /// Only the suspect has it.
    Extra(usize),
}

/// Pairs the operations of two programs by the names and kinds of their results. Those that only store have none and are left out.
pub(super) fn align(suspect: &Tapped<'_>, reference: &Tapped<'_>) -> Vec<Pair> {
    let of_suspect = keys(suspect);
    let of_reference = keys(reference);
    let places: HashMap<&Key, usize> =
        of_suspect.iter().enumerate().map(|(at, (key, _))| (key, at)).collect();
    let known: HashMap<&Key, usize> =
        of_reference.iter().enumerate().map(|(at, (key, _))| (key, at)).collect();
    let mut pairs = Vec::new();
    let mut next = 0;
    for (key, number) in &of_reference {
        let Some(place) = places.get(key).copied() else {
            pairs.push(Pair::Missing(*number));
            continue;
        };
        // What the suspect alone has comes where it has it.
        while next < place {
            let (key, number) = &of_suspect[next];
            if !known.contains_key(key) {
                pairs.push(Pair::Extra(*number));
            }
            next += 1;
        }
        next = next.max(place + 1);
        pairs.push(Pair::Both(of_suspect[place].1, *number));
    }
    for (key, number) in of_suspect.iter().skip(next) {
        if !known.contains_key(key) {
            pairs.push(Pair::Extra(*number));
        }
    }
    pairs
}

/// Name of the result, kind of the operation, and how many of the same came before.
type Key = (String, u32, usize);

fn keys(model: &Tapped<'_>) -> Vec<(Key, usize)> {
    let mut counts: HashMap<(String, u32), usize> = HashMap::new();
    let mut keys = Vec::new();
    for (number, operation) in model.built.program.operations.iter().enumerate() {
        let Some(name) = result(model, operation) else { continue };
        let kind = (name, operation.code().0.0);
        let count = counts.entry(kind.clone()).or_default();
        keys.push(((kind.0, kind.1, *count), number));
        *count += 1;
    }
    keys
}

/// The name of an operation's result.
pub(super) fn result(model: &Tapped<'_>, operation: &Operation) -> Option<String> {
    let first = operation.writes().first()?.value;
    Some(model.name(first).to_owned())
}
