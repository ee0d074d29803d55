//! The first operation in which a model departs from a reference, and the mistake that it looks like.
//!
//! Both models run the same tokens. Then each operation of the reference is run by itself on what the suspect gave its own: the
//! difference is that operation's alone, whatever went wrong before it. So the first one is where to look. What it looks like is
//! found by undoing one mistake after the other: a parameter takes the suspect's value, a weight's rows take another order. The
//! mistake that makes both equal is named.

mod alignment;
mod angles;
mod digits;
mod distance;
mod explanation;
mod local;
mod matrices;
mod order;
mod parameters;
mod rows;
mod slices;

pub use rows::Errors;

use crate::compare::Logits;
use crate::program::{layer_of, residual};
use crate::tapped::{Rows, Tapped};
use alignment::{Pair, align, result};
use apr_sdk::{Append, Error, Operation, PagedState, Result, State};
use local::{Local, Stored};

/// An operation of both models.
#[derive(Clone, Debug)]
pub struct Step {
    /// Name of its result, such as `layer.3.attention.query.rotated`.
    pub result: String,
    /// Its kind.
    pub operation: String,
    /// The tensors that it multiplies by, in the suspect.
    pub tensors: Vec<String>,
    /// Its own error, on the suspect's inputs; `None` if only one of the models has it.
    pub errors: Option<Errors>,
    /// True if it departs.
    pub departs: bool,
}

/// The first departure.
#[derive(Clone, Debug)]
pub struct Departure {
    /// Index of the step that departs first.
    pub step: usize,
    /// The tensor that is to blame, if it is one.
    pub tensor: Option<String>,
    /// The mistake that it looks like, in words; `None` if nothing that is known explains it.
    pub words: Option<String>,
    /// Share of the difference that the words explain, from 0 to 1.
    pub explained: f64,
}

/// The findings.
#[derive(Clone, Debug)]
pub struct Found {
    /// All steps, in the reference's order.
    pub steps: Vec<Step>,
    /// The first departure; `None` if no operation departs.
    pub first: Option<Departure>,
    /// Parameters that differ although no value shows it: the text is too short, or has nothing that they act on.
    pub unseen: Vec<String>,
    /// The logits of all tokens, the suspect's against the reference's.
    pub logits: Logits,
}

/// Runs tokens on both models and compares them. An operation whose error in every row is at most `bound`, relative to its result,
/// does not depart.
///
/// # Errors
/// InvalidArgument for no tokens, or more than a step takes, or a token that one of the models does not know; any error from the
/// backends, from reading weights, and from `stop`, which is asked between operations.
pub fn compare_models<'a>(
    suspect: &mut Tapped<'a>,
    reference: &mut Tapped<'a>,
    ids: &[u32],
    bound: f64,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Found> {
    if ids.is_empty() {
        return Err(Error::invalid_argument("the text has no tokens").hint("specify a longer text"));
    }
    let of_suspect = suspect.run(ids)?;
    let of_reference = reference.run(ids)?;
    let logits = logits(&of_suspect, &of_reference, ids);
    let mut local = Local::new(reference, ids);
    let mut found = Found { steps: Vec::new(), first: None, unseen: Vec::new(), logits };
    let layers = [layers(suspect), layers(reference)];
    for pair in align(suspect, reference) {
        stop()?;
        match pair {
            Pair::Missing(number) => lone(&mut found, reference, number, false, layers),
            Pair::Extra(number) => lone(&mut found, suspect, number, true, layers),
            Pair::Both(of_suspect, of_reference) => {
                let operation = &suspect.built.program.operations[of_suspect];
                let other = &reference.built.program.operations[of_reference];
                let mut both = Both { suspect, reference, local: &mut local, operation, other, bound };
                both.compare(&mut found)?;
            }
        }
    }
    Ok(found)
}

/// Figures of the logits over the tokens that both models have.
fn logits(suspect: &Rows, reference: &Rows, ids: &[u32]) -> Logits {
    let mut figures = Logits::default();
    let width = suspect.width.min(reference.width);
    let next = ids.iter().copied().map(Some).skip(1).chain([None]);
    for ((a, b), next) in suspect.iter().zip(reference.iter()).zip(next) {
        figures.add([&a[..width], &b[..width]], next);
    }
    figures
}

/// Number of layers of a model.
fn layers(model: &Tapped<'_>) -> usize {
    let numbers = model.built.taps.iter().filter_map(|(name, _)| layer_of(name));
    numbers.max().map_or(0, |last| last + 1)
}

/// Adds an operation that only one of the models has; `layers` are how many the suspect and the reference have.
fn lone(found: &mut Found, model: &Tapped<'_>, number: usize, is_extra: bool, layers: [usize; 2]) {
    let operation = &model.built.program.operations[number];
    let step = step_of(model, operation, None, true);
    if found.first.is_none() {
        let what = purpose(&step.result, &step.operation);
        let [own, wanted] = layers;
        let is_of_more = layer_of(&step.result).is_some_and(|layer| layer >= own.min(wanted));
        let words = match is_extra {
            _ if is_of_more => format!("the model has {own} layers, not {wanted}"),
            true => format!("the reference has no {what}"),
            false => format!("{what} is missing"),
        };
        let tensor = step.tensors.first().cloned();
        let at = found.steps.len();
        found.first = Some(Departure { step: at, tensor, words: Some(words), explained: 1.0 });
    }
    found.steps.push(step);
}

/// An operation's purpose: `norm of attention.query`.
fn purpose(result: &str, operation: &str) -> String {
    let inner = match result.strip_prefix("layer.") {
        Some(rest) => rest.split_once('.').map_or(rest, |(_, inner)| inner),
        None => result,
    };
    match (operation, inner.strip_suffix(".norm")) {
        ("norm", Some(of)) => format!("norm of {}", of.replace('.', " ")),
        _ => format!("`{operation}` for {}", inner.replace('.', " ")),
    }
}

fn step_of(model: &Tapped<'_>, operation: &Operation, errors: Option<Errors>, departs: bool) -> Step {
    let weights = operation.weights();
    Step {
        result: result(model, operation).unwrap_or_default(),
        operation: operation.code().0.name(),
        tensors: weights.into_iter().filter_map(|weight| model.tensor(weight)).map(str::to_owned).collect(),
        errors,
        departs,
    }
}

/// An operation of both models.
struct Both<'x, 'a> {
    suspect: &'x mut Tapped<'a>,
    reference: &'x mut Tapped<'a>,
    local: &'x mut Local,
    operation: &'x Operation,
    other: &'x Operation,
    bound: f64,
}

/// What goes into an operation of the suspect and comes out of it.
struct Flow {
    inputs: Vec<Rows>,
    stored: Option<Stored>,
    outputs: Vec<Rows>,
}

impl Both<'_, '_> {
    /// Compares the operation, and explains it if it is the first that departs.
    fn compare(&mut self, found: &mut Found) -> Result<()> {
        let parameters = parameters::differences(self.operation, self.other);
        let mut step = step_of(self.suspect, self.operation, None, false);
        let at = found.steps.len();
        if !self.fits() {
            step.departs = true;
            if found.first.is_none() {
                let words = Some(self.misfit());
                let tensor = step.tensors.first().cloned();
                found.first = Some(Departure { step: at, tensor, words, explained: 1.0 });
            }
            found.steps.push(step);
            return Ok(());
        }
        let flow = self.flow()?;
        let results = self.local.run(self.reference, self.other, flow.stored.as_ref(), &flow.inputs)?;
        let errors = self.errors(&flow, &results);
        let worst = errors.iter().position(|errors| errors.worst > self.bound);
        step.departs = worst.is_some();
        step.errors = Some(errors[worst.unwrap_or(0)].clone());
        if let (Some(part), None) = (worst, &found.first) {
            found.first = Some(explanation::explain(self, &flow, &results, part, at, &parameters)?);
        } else if worst.is_none() {
            let result = &step.result;
            found.unseen.extend(parameters.iter().map(|one| format!("`{result}`: {}", one.words)));
        }
        found.steps.push(step);
        Ok(())
    }

    /// True if the reference's operation takes what the suspect's takes.
    fn fits(&self) -> bool {
        let widths = |operation: &Operation| -> Vec<u32> {
            operation.reads().iter().chain(&operation.writes()).map(|slice| slice.width).collect()
        };
        let states = match (self.operation.state(), self.other.state()) {
            (Some(a), Some(b)) => {
                let [a, b] = [state(self.suspect, a), state(self.reference, b)];
                a.map(|state| (state.heads, state.key, state.value))
                    == b.map(|state| (state.heads, state.key, state.value))
            }
            (a, b) => a.is_some() == b.is_some(),
        };
        states && widths(self.operation) == widths(self.other)
    }

    /// Sizes that differ, in words.
    fn misfit(&self) -> String {
        let widths = |operation: &Operation| -> String {
            let all: Vec<String> = operation.writes().iter().map(|slice| slice.width.to_string()).collect();
            all.join(" + ")
        };
        if let (Operation::Attention(a), Operation::Attention(b)) = (self.operation, self.other) {
            return format!(
                "attention has {} heads over {}, not {} over {}",
                a.heads,
                heads_of(self.suspect, a.state),
                b.heads,
                heads_of(self.reference, b.state)
            );
        }
        format!("it has {} elements, not {}", widths(self.operation), widths(self.other))
    }

    /// What the suspect's operation read and gave.
    fn flow(&mut self) -> Result<Flow> {
        let mut inputs = Vec::new();
        for slice in self.operation.reads() {
            inputs.push(self.suspect.read(&slice)?);
        }
        let mut stored = None;
        if let (Operation::Attention(_), Some(of_suspect), Some(of_reference)) =
            (self.operation, self.operation.state(), self.other.state())
        {
            if let Some(append) = append(self.suspect, of_suspect) {
                inputs.push(self.suspect.read(&append.key)?);
                if let Some(value) = &append.value {
                    inputs.push(self.suspect.read(value)?);
                }
            }
            stored = append(self.reference, of_reference)
                .zip(state(self.reference, of_reference))
                // All positions are kept: the mask alone decides which are seen.
                .map(|(append, state)| Stored {
                    state: PagedState { window: 0, ..state },
                    append: append.clone(),
                });
        }
        let mut outputs = Vec::new();
        for slice in self.operation.writes() {
            outputs.push(self.suspect.read(&slice)?);
        }
        Ok(Flow { inputs, stored, outputs })
    }

    /// The error of each result, relative to what the operation itself makes: what it adds to a residual may be small beside it.
    fn errors(&self, flow: &Flow, results: &[Rows]) -> Vec<Errors> {
        let reads = self.operation.reads();
        let residual = residual(self.operation);
        let beside = residual.and_then(|slice| reads.iter().rposition(|read| *read == slice));
        let beside = beside.and_then(|at| flow.inputs.get(at));
        flow.outputs.iter().zip(results).map(|(a, b)| Errors::of(a, b, beside)).collect()
    }
}

/// The paged state of a number.
fn state(model: &Tapped<'_>, number: u32) -> Option<PagedState> {
    match model.built.program.states.get(usize::try_from(number).ok()?)? {
        State::Paged(state) => Some(*state),
        _ => None,
    }
}

fn heads_of(model: &Tapped<'_>, number: u32) -> u32 {
    state(model, number).map_or(0, |state| state.heads)
}

/// The operation that stores into a state.
fn append<'a>(model: &Tapped<'a>, state: u32) -> Option<&'a Append> {
    model.built.program.operations.iter().find_map(|operation| match operation {
        Operation::Append(append) if append.state == state => Some(append),
        _ => None,
    })
}
