//! A program whose numbers, widths and kinds hold together, so that a backend need not look again.

use super::checks::Checks;
use super::columns::{Columns, index};
use super::matrix::WeightShape;
use super::numbers::RowsOf;
use super::operations::{Operation, Slice};
use super::program::{PagedState, Program, State, ValueSpec};
use crate::{DType, Error, Result};

/// Greatest number of elements that a row of all values has together: 1 GiB. No model comes near, and below it no
/// product of a width and a number of rows is beyond what can be counted.
const MOST_ELEMENTS: usize = 1 << 28;

/// A program that was checked against the weights that it runs over. What holds of each of its operations:
///
/// - every value, state and weight that it names is there, and every slice lies within its value;
/// - the widths of what it reads and writes fit each other and its matrices, and their rows are of one kind;
/// - a result is one of its inputs, where the operation allows that, or has no element in common with any of them;
/// - its numbers name kinds that this SDK knows;
/// - a state is stored by one operation, before all that read it;
/// - nothing follows [`super::Sample`].
///
/// Limits of a backend's own, such as the largest head, are the backend's to check.
#[derive(Clone, Debug)]
pub struct CheckedProgram {
    values: Vec<ValueSpec>,
    states: Vec<PagedState>,
    operations: Vec<Operation>,
    views: Vec<Option<bool>>,
    is_pooled: bool,
}

impl CheckedProgram {
    /// Reads a program and checks it against its weights.
    ///
    /// # Errors
    /// Unsupported for an operation, a version, a state or a kind that is not known; InvalidArgument for bytes that are
    /// no program and for a program that does not hold together; LimitExceeded if its values are larger than any
    /// model's. The message begins with the value, the state or the operation.
    pub fn from_bytes(program: &[u8], weights: &[WeightShape]) -> Result<CheckedProgram> {
        CheckedProgram::new(Program::from_bytes(program)?, weights)
    }

    /// Checks a program against its weights.
    ///
    /// # Errors
    /// As [`CheckedProgram::from_bytes`].
    pub fn new(program: Program, weights: &[WeightShape]) -> Result<CheckedProgram> {
        let Program { values, states, operations } = program;
        check_values(&values)?;
        let states = paged(states)?;
        let mut checks = Checks::new(&values, &states, weights);
        for (number, operation) in operations.iter().enumerate() {
            checks.operation(operation).map_err(|error| at_operation(&error, number, operation))?;
        }
        let is_pooled = checks.is_pooled();
        let views = checks.into_views();
        Ok(CheckedProgram { values, states, operations, views, is_pooled })
    }

    /// Its values, by number.
    pub fn values(&self) -> &[ValueSpec] {
        &self.values
    }

    /// Its states, by number.
    pub fn states(&self) -> &[PagedState] {
        &self.states
    }

    /// Its operations, in order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Returns whether a state's values are parts of its keys, so that only keys are kept; `None` if nothing is stored.
    ///
    /// # Panics
    /// If there is no such state.
    pub fn values_are_views(&self, state: usize) -> Option<bool> {
        self.views[state]
    }

    /// Returns whether outputs are the batch's sequences, for they were pooled, instead of the rows that want output.
    pub fn is_pooled(&self) -> bool {
        self.is_pooled
    }

    /// The columns of a slice of one of its operations.
    ///
    /// # Panics
    /// If there is no such value.
    pub fn columns(&self, slice: &Slice) -> Columns {
        let value = index(slice.value);
        let rows = self.values[value].rows;
        Columns { value, first: index(slice.first), width: index(slice.width), rows }
    }

    /// Calls `take` with each operation and its number, in order.
    ///
    /// # Errors
    /// The first error of `take`, with the operation in front of its message.
    pub fn for_each_operation(&self, mut take: impl FnMut(usize, &Operation) -> Result<()>) -> Result<()> {
        self.operations.iter().enumerate().try_for_each(|(number, operation)| {
            take(number, operation).map_err(|error| at_operation(&error, number, operation))
        })
    }
}

fn at_operation(error: &Error, number: usize, operation: &Operation) -> Error {
    let message = format!("operation {number} ({}): {}", operation.code().0.name(), error.message());
    error.clone().with_message(message)
}

fn check_values(values: &[ValueSpec]) -> Result<()> {
    let mut elements = 0usize;
    for (number, value) in values.iter().enumerate() {
        if ![RowsOf::BATCH, RowsOf::OUTPUTS].contains(&value.rows) {
            let rows = value.rows.name();
            return Err(Error::unsupported(format!("value {number} has unknown rows `{rows}`")));
        }
        if value.width == 0 {
            return Err(Error::invalid_argument(format!("value {number} has no elements")));
        }
        elements = elements.saturating_add(index(value.width));
        if elements > MOST_ELEMENTS {
            return Err(Error::limit(format!(
                "the values 0 to {number} have {elements} elements per row in total, more than the limit of \
                 {MOST_ELEMENTS}"
            )));
        }
    }
    Ok(())
}

fn paged(states: Vec<State>) -> Result<Vec<PagedState>> {
    let mut all = Vec::with_capacity(states.len());
    for (number, state) in states.into_iter().enumerate() {
        let State::Paged(state) = state else {
            return Err(Error::unsupported(format!(
                "state {number}: no supported operation uses a state of this kind"
            )));
        };
        if state.heads == 0 || state.key == 0 || state.value == 0 {
            return Err(Error::invalid_argument(format!(
                "state {number}: a cache requires heads, keys and values of at least one element"
            )));
        }
        if ![DType::F32, DType::F16, DType::Q8_0].contains(&state.dtype) {
            return Err(Error::unsupported(format!(
                "state {number}: a cache cannot hold {}, only F32, F16 or Q8_0",
                state.dtype
            )));
        }
        all.push(state);
    }
    Ok(all)
}
