//! The mistake that explains a departure: of a parameter, of a weight, or of what a weight is.

use super::distance::{distance, size};
use super::matrices::{Resemblance, Weights, resemblance};
use super::order::Order;
use super::parameters::Difference;
use super::rows::Errors;
use super::{Both, Departure, Flow};
use crate::program::WeightOf;
use crate::tapped::{Rows, Tapped};
use apr_sdk::{Operation, Result};

/// The most elements of a weight that are looked at; its first rows, if it has more.
const MOST: u64 = 1 << 24;
/// Relative distance of weights that are the same but for rounding.
const SAME: f64 = 1e-5;

/// Explains why the operation's `part`-th result departs.
pub(super) fn explain(
    both: &mut Both<'_, '_>,
    flow: &Flow,
    results: &[Rows],
    part: usize,
    step: usize,
    parameters: &[Difference],
) -> Result<Departure> {
    let mut departure = Departure { step, tensor: None, words: None, explained: 0.0 };
    let whole = error_of(both, flow, results, part);
    for parameter in parameters {
        let changed = both.local.run(both.reference, &parameter.hybrid, flow.stored.as_ref(), &flow.inputs);
        let Ok(changed) = changed else { continue };
        let explained = 1.0 - error_of(both, flow, &changed, part) / whole;
        if explained > departure.explained || departure.words.is_none() && explained > 0.5 {
            departure.words = Some(parameter.words.clone());
            departure.explained = explained.clamp(0.0, 1.0);
        }
    }
    if departure.explained > 0.9 {
        return Ok(departure);
    }
    if let Some(words) = heads(both) {
        return Ok(Departure { step, tensor: None, words: Some(words), explained: 1.0 });
    }
    if let Some((tensor, words)) = head(both) {
        return Ok(Departure { step, tensor: Some(tensor), words: Some(words), explained: 1.0 });
    }
    let of_weights = weights(both, part)?;
    match of_weights {
        Some((tensor, words, explained)) if explained >= departure.explained => {
            Ok(Departure { step, tensor: Some(tensor), words, explained })
        }
        _ => Ok(departure),
    }
}

/// Median error of a result; that of the worst row if the median is none.
fn error_of(both: &Both<'_, '_>, flow: &Flow, results: &[Rows], part: usize) -> f64 {
    let errors: Vec<Errors> = both.errors(flow, results);
    let Some(errors) = errors.get(part) else { return 0.0 };
    if errors.median > 0.0 { errors.median } else { errors.worst }
}

/// The first weight of the operation's part that differs: its tensor, the words for it, and the share that they explain.
fn weights(both: &Both<'_, '_>, part: usize) -> Result<Option<(String, Option<String>, f64)>> {
    let own = weights_of(both.operation, part);
    let other = weights_of(both.other, part);
    for (own, other) in own.into_iter().zip(other) {
        let tensor = both.suspect.tensor(own).unwrap_or_default().to_owned();
        let Some(matrices) = Matrices::read(both, own, other)? else { continue };
        if distance(&matrices.suspect, &matrices.reference) <= SAME * size(&matrices.reference) {
            continue;
        }
        let looked = Weights {
            suspect: &matrices.suspect,
            reference: &matrices.reference,
            columns: matrices.columns,
            head_rows: head_rows(both, part),
            head_columns: head_columns(both),
        };
        let broken = |elements: &[f32]| elements.iter().filter(|element| !element.is_finite()).count();
        // What is broken in the reference alone is the reference's fault.
        let of_reference = broken(&matrices.reference) > broken(&matrices.suspect);
        let found = match of_reference {
            true => None,
            false => another_tensor(both, &matrices, own, other)?.or_else(|| resemblance(&looked)),
        };
        let turned = Weights {
            suspect: &matrices.reference,
            reference: &matrices.suspect,
            columns: matrices.columns,
            ..looked
        };
        let (whose, found) = match found {
            Some(found) => ("", Some(found)),
            None => ("the reference's ", resemblance(&turned)),
        };
        let Some(Resemblance { words, left }) = found else { return Ok(Some((tensor, None, 0.0))) };
        let words = format!("{whose}`{tensor}` {words}");
        return Ok(Some((tensor, Some(words), (1.0 - left).clamp(0.0, 1.0))));
    }
    Ok(None)
}

/// The numbers of heads of queries and keys, if they differ where queries are made.
fn heads(both: &Both<'_, '_>) -> Option<String> {
    let own = heads_behind(both.suspect, both.operation)?;
    let other = heads_behind(both.reference, both.other)?;
    if own == other {
        return None;
    }
    Some(format!("attention has {} heads over {} key heads, not {} over {}", own.0, own.1, other.0, other.1))
}

/// Number of heads and of key heads of the attention whose queries an operation makes.
fn heads_behind(model: &Tapped<'_>, operation: &Operation) -> Option<(u32, u32)> {
    let name = model.name(operation.writes().first()?.value);
    let layer = name.strip_suffix("attention.qkv")?;
    model.built.program.operations.iter().find_map(|operation| {
        let Operation::Attention(attention) = operation else { return None };
        let is_of_layer = model.name(attention.out.value) == format!("{layer}attention.heads");
        is_of_layer.then(|| (attention.heads, super::heads_of(model, attention.state)))
    })
}

/// The head and its words, where one model has a tensor of its own for it and the other takes its embedding.
fn head(both: &Both<'_, '_>) -> Option<(String, String)> {
    let (Operation::Linear(own), Operation::Linear(other)) = (both.operation, both.other) else {
        return None;
    };
    let own = own.parts.first()?.weight;
    let other = other.parts.first()?.weight;
    let tied = [is_embedding(both.suspect, own), is_embedding(both.reference, other)];
    let tensor = both.suspect.tensor(own)?.to_owned();
    let of_reference = both.reference.tensor(other)?;
    let words = match tied {
        [true, false] => format!("the head is the embedding, where the reference has `{of_reference}`"),
        [false, true] => {
            format!("the head is `{tensor}`, a tensor of its own, where the reference takes its embedding")
        }
        _ => return None,
    };
    Some((tensor, words))
}

/// True if a weight is the table of an embedding too.
fn is_embedding(model: &Tapped<'_>, weight: u32) -> bool {
    model.built.program.operations.iter().any(|operation| match operation {
        Operation::Embed(embed) => embed.table == weight,
        _ => false,
    })
}

/// The weights of an operation's part.
fn weights_of(operation: &Operation, part: usize) -> Vec<u32> {
    match operation {
        Operation::Linear(linear) => linear
            .parts
            .get(part)
            .map_or_else(Vec::new, |part| std::iter::once(part.weight).chain(part.bias).collect()),
        Operation::ExpertLinear(linear) => linear
            .parts
            .get(part)
            .map_or_else(Vec::new, |part| std::iter::once(part.weight).chain(part.bias).collect()),
        _ => operation.weights(),
    }
}

/// A weight in both models.
struct Matrices {
    suspect: Vec<f32>,
    reference: Vec<f32>,
    columns: usize,
    /// Number of rows that were read.
    rows: u64,
}

impl Matrices {
    /// Reads a weight of both; `None` if their sizes differ.
    fn read(both: &Both<'_, '_>, own: u32, other: u32) -> Result<Option<Matrices>> {
        let (suspect, reference) = (&*both.suspect, &*both.reference);
        let (Some(name), Some(other_name)) = (suspect.tensor(own), reference.tensor(other)) else {
            let [suspect, reference] = [literal(suspect, own), literal(reference, other)];
            let columns = suspect.len();
            return Ok((columns == reference.len() && columns > 0).then_some(Matrices {
                suspect,
                reference,
                columns,
                rows: 1,
            }));
        };
        let [spec, other_spec] = [suspect.values.matrix(name)?, reference.values.matrix(other_name)?];
        if (spec.rows(), spec.columns()) != (other_spec.rows(), other_spec.columns()) {
            return Ok(None);
        }
        let rows = spec.rows().min((MOST / spec.columns().max(1)).max(1));
        Ok(Some(Matrices {
            suspect: suspect.values.rows(name, 0, rows)?,
            reference: reference.values.rows(other_name, 0, rows)?,
            columns: usize::try_from(spec.columns()).unwrap_or(usize::MAX),
            rows,
        }))
    }
}

fn literal(model: &Tapped<'_>, weight: u32) -> Vec<f32> {
    let number = usize::try_from(weight).ok();
    match number.and_then(|number| model.built.weights.get(number)) {
        Some(WeightOf::Literal { values, .. }) => values.clone(),
        _ => Vec::new(),
    }
}

/// The other tensor of the reference that the suspect's weight is.
fn another_tensor(
    both: &Both<'_, '_>,
    matrices: &Matrices,
    own: u32,
    other: u32,
) -> Result<Option<Resemblance>> {
    let reference = &*both.reference;
    let whole = size(&matrices.suspect);
    if whole == 0.0 || !whole.is_finite() {
        return Ok(None);
    }
    let Some(this) = reference.tensor(other) else { return Ok(None) };
    let wanted = reference.values.matrix(this)?;
    for weight in &reference.built.weights {
        let WeightOf::Tensor(name) = weight else { continue };
        let spec = reference.values.matrix(name)?;
        if name == this || (spec.rows(), spec.columns()) != (wanted.rows(), wanted.columns()) {
            continue;
        }
        let rows = reference.values.rows(name, 0, matrices.rows)?;
        // Rows of queries and keys may have been put into another order for another tensor's place.
        let ordered = Order::find(&matrices.suspect, &rows, matrices.columns);
        let straight = distance(&matrices.suspect, &rows);
        let left = ordered.as_ref().map_or(straight, |order| order.distance.min(straight));
        let left = left / whole;
        if left > 0.05 {
            continue;
        }
        let mut words = format!("is the reference's `{name}`");
        if straight > 0.05 * whole {
            words.push_str(" with its rows in another order");
        }
        // Where the other one is this one, both are exchanged.
        let own_name = both.suspect.tensor(own).unwrap_or_default();
        if let Ok(spec) = both.suspect.values.matrix(name) {
            let same_shape = (spec.rows(), spec.columns()) == (wanted.rows(), wanted.columns());
            if same_shape && name != own_name {
                let back = both.suspect.values.rows(name, 0, matrices.rows)?;
                if distance(&back, &matrices.reference) <= 0.05 * size(&matrices.reference) {
                    words.push_str(": the two are swapped");
                }
            }
        }
        return Ok(Some(Resemblance { words, left }));
    }
    Ok(None)
}

/// Rows of a weight that belong to one head, for queries and keys.
fn head_rows(both: &Both<'_, '_>, part: usize) -> Option<usize> {
    let Operation::Linear(linear) = both.other else { return None };
    let slice = linear.parts.get(part)?.out;
    let operations = &both.reference.built.program.operations;
    let name = both.reference.name(slice.value);
    let layer = name.strip_suffix("attention.qkv")?;
    for operation in operations {
        let Operation::Attention(attention) = operation else { continue };
        let Some(out) = operation.writes().first().copied() else { continue };
        if both.reference.name(out.value) == format!("{layer}attention.heads") {
            return usize::try_from(attention.query.width / attention.heads.max(1)).ok();
        }
    }
    None
}

/// Columns of a weight that belong to one head, for what follows attention.
fn head_columns(both: &Both<'_, '_>) -> Option<usize> {
    let Operation::Linear(linear) = both.other else { return None };
    both.reference.built.program.operations.iter().find_map(|operation| match operation {
        Operation::Attention(attention) if attention.out == linear.x => {
            usize::try_from(attention.out.width / attention.heads.max(1)).ok()
        }
        _ => None,
    })
}
