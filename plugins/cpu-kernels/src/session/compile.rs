//! From a program to tasks: every number, width and type is checked here once, so that steps need not.

use super::cache::Cache;
use super::step::{Task, index};
use super::values::{Place, Values};
use crate::matrix::{Matrix, Rounding};
use crate::operations::{self, attention::Attention, linear::Linear};
use apr_sdk::{Error, Operation, Program, Result, RowsOf, Slice, State};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Room for rows of activations in one rounding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// How they are rounded.
    pub(crate) rounding: Rounding,
    /// How many columns they have.
    pub(crate) columns: usize,
    /// How many there are for each row of a value.
    pub(crate) per_row: usize,
    /// What it holds at this place in the program: a part of a value, cut into so many rows.
    holds: Option<(Place, usize)>,
}

/// The angles of one rope: what turns with which frequency, in order.
#[derive(Clone, Debug)]
pub(crate) struct Angles {
    /// Radians per position.
    pub(crate) frequencies: Vec<f32>,
    /// Multiplies sine and cosine.
    pub(crate) magnitude: f32,
}

/// A compiled program.
pub(crate) struct Plan {
    /// Its tasks in order, each with the place of its operation.
    pub(crate) tasks: Vec<(usize, Box<dyn Task>)>,
    /// How many operations there are.
    pub(crate) operations: usize,
    /// The activations that it needs.
    pub(crate) slots: Vec<Slot>,
    /// The tables of angles that it needs.
    pub(crate) angles: Vec<Angles>,
    /// The tasks of matrices in order.
    pub(crate) linears: Vec<Arc<Linear>>,
    /// How many lists of chosen experts it needs.
    pub(crate) assignments: usize,
    /// Whether outputs are the batch's sequences, for they were pooled.
    pub(crate) pooled: bool,
    /// What is given to the sink at the end.
    pub(crate) logits: Option<Place>,
    /// Whether keys are stored.
    pub(crate) cached: bool,
    /// The attentions, for each needs memory for its work.
    pub(crate) attentions: Vec<Arc<Attention>>,
}

/// A program on its way to a [`Plan`].
pub(crate) struct Compiler<'c> {
    pub(crate) plan: Plan,
    pub(crate) values: &'c Values,
    pub(crate) caches: &'c mut [Cache],
    weights: &'c [Arc<Matrix>],
    /// The weights that were asked for as floats.
    floats: BTreeMap<u32, Arc<[f32]>>,
    /// Indices of the tables of angles, keyed by the bits of their parameters.
    turning: BTreeMap<Vec<u32>, usize>,
    operation: usize,
    /// Whether outputs are the rows that want output.
    by_row: bool,
}

/// Makes a program's values, caches and tasks.
///
/// # Errors
/// Unsupported or InvalidArgument, naming the operation.
pub(crate) fn compile(program: &Program, weights: &[Arc<Matrix>]) -> Result<(Values, Vec<Cache>, Plan)> {
    let values = Values::new(&program.values)?;
    let caches = program.states.iter().enumerate().map(|(number, state)| {
        let made = match state {
            State::Paged(state) => Cache::new(state),
            _ => Err(Error::unsupported("a state of this kind is kept by no operation here")),
        };
        made.map_err(|error| prefixed(&error, &format!("state {number}")))
    });
    let mut caches = caches.collect::<Result<Vec<_>>>()?;
    let plan = Plan {
        tasks: Vec::new(),
        operations: program.operations.len(),
        slots: Vec::new(),
        angles: Vec::new(),
        linears: Vec::new(),
        assignments: 0,
        pooled: false,
        logits: None,
        cached: false,
        attentions: Vec::new(),
    };
    let mut compiler = Compiler {
        plan,
        values: &values,
        caches: &mut caches,
        weights,
        floats: BTreeMap::new(),
        turning: BTreeMap::new(),
        operation: 0,
        by_row: false,
    };
    for (number, operation) in program.operations.iter().enumerate() {
        compiler.operation = number;
        compiler.add(operation).map_err(|error| {
            prefixed(&error, &format!("operation {number} ({})", operation.code().0.name()))
        })?;
    }
    let plan = compiler.plan;
    Ok((values, caches, plan))
}

/// The error with its place in front.
fn prefixed(error: &Error, place: &str) -> Error {
    error.clone().with_message(format!("{place}: {}", error.message()))
}

impl Compiler<'_> {
    fn add(&mut self, operation: &Operation) -> Result<()> {
        if self.plan.logits.is_some() {
            return Err(Error::invalid_argument("nothing may follow the choice of tokens"));
        }
        operations::compile(operation, self)
    }

    /// Appends a task.
    pub(crate) fn push(&mut self, task: impl Task + 'static) {
        self.plan.tasks.push((self.operation, Box::new(task)));
    }

    /// A checked slice.
    ///
    /// # Errors
    /// InvalidArgument if it is empty or not within a value.
    pub(crate) fn place(&self, slice: &Slice) -> Result<Place> {
        let (value, first, width) = (index(slice.value), index(slice.first), index(slice.width));
        let Some((whole, rows)) = self.values.shape(value) else {
            return Err(Error::invalid_argument(format!("there is no value {value}")));
        };
        if width == 0 || first.checked_add(width).is_none_or(|end| end > whole) {
            return Err(Error::invalid_argument(format!(
                "elements {first} to {first} + {width} are not within value {value} of {whole} elements"
            )));
        }
        Ok(Place { value, first, width, rows })
    }

    /// A checked slice of a given width.
    ///
    /// # Errors
    /// As [`Compiler::place`], and InvalidArgument for another width.
    pub(crate) fn place_of(&self, slice: &Slice, width: usize, what: &str) -> Result<Place> {
        let place = self.place(slice)?;
        if place.width != width {
            let is = place.width;
            return Err(Error::invalid_argument(format!("{what} has {is} elements instead of {width}")));
        }
        Ok(place)
    }

    /// Takes note that an operation writes a place.
    pub(crate) fn written(&mut self, place: &Place) {
        for slot in &mut self.plan.slots {
            if slot.holds.is_some_and(|(held, _)| held.meets(place)) {
                slot.holds = None;
            }
        }
    }

    /// A weight.
    ///
    /// # Errors
    /// InvalidArgument if there is none of this number.
    pub(crate) fn matrix(&self, weight: u32) -> Result<Arc<Matrix>> {
        self.weights
            .get(index(weight))
            .cloned()
            .ok_or_else(|| Error::invalid_argument(format!("there is no weight {weight}")))
    }

    /// A vector as floats.
    ///
    /// # Errors
    /// InvalidArgument if the weight is no vector, or its length is none of those allowed.
    pub(crate) fn vector(&mut self, weight: u32, lengths: &[usize], what: &str) -> Result<Arc<[f32]>> {
        let matrix = self.matrix(weight)?;
        let (rows, columns) = shape(&matrix);
        if rows != 1 || !lengths.contains(&columns) {
            let wanted: Vec<String> = lengths.iter().map(ToString::to_string).collect();
            return Err(Error::invalid_argument(format!(
                "{what} is a matrix of {rows} x {columns} instead of a vector of {} elements",
                wanted.join(" or ")
            )));
        }
        self.floats(weight)
    }

    /// A weight's rows as floats, one after the other. They are kept once, however many operations name them.
    ///
    /// # Errors
    /// As [`Compiler::matrix`].
    pub(crate) fn floats(&mut self, weight: u32) -> Result<Arc<[f32]>> {
        if let Some(known) = self.floats.get(&weight) {
            return Ok(Arc::clone(known));
        }
        let matrix = self.matrix(weight)?;
        let (rows, columns) = shape(&matrix);
        let mut floats = vec![0.0; rows * columns];
        floats.chunks_exact_mut(columns).enumerate().for_each(|(row, out)| matrix.row(row, out));
        let floats = Arc::<[f32]>::from(floats);
        self.floats.insert(weight, Arc::clone(&floats));
        Ok(floats)
    }

    /// The slot with `x`, cut into `parts` rows, in a rounding; the task that fills it is added if it is not there yet.
    pub(crate) fn rounded(&mut self, x: &Place, parts: usize, rounding: Rounding) -> usize {
        let columns = x.width / parts;
        let slots = &mut self.plan.slots;
        let of = |slot: &Slot| slot.rounding == rounding && slot.columns == columns;
        let slot = slots.iter().position(of).unwrap_or_else(|| {
            slots.push(Slot { rounding, columns, per_row: 0, holds: None });
            slots.len() - 1
        });
        slots[slot].per_row = slots[slot].per_row.max(parts);
        if slots[slot].holds != Some((*x, parts)) {
            slots[slot].holds = Some((*x, parts));
            self.push(operations::linear::Fill { slot, x: *x, parts });
        }
        slot
    }

    /// A slot for rows that the caller fills.
    pub(crate) fn slot(&mut self, columns: usize, per_row: usize, rounding: Rounding) -> usize {
        let slots = &mut self.plan.slots;
        let of = |slot: &Slot| slot.rounding == rounding && slot.columns == columns;
        let slot = slots.iter().position(of).unwrap_or_else(|| {
            slots.push(Slot { rounding, columns, per_row: 0, holds: None });
            slots.len() - 1
        });
        slots[slot].per_row = slots[slot].per_row.max(per_row);
        slots[slot].holds = None;
        slot
    }

    /// A table of angles.
    pub(crate) fn angles(&mut self, angles: Angles) -> usize {
        let bits = angles.frequencies.iter().chain([&angles.magnitude]).map(|x| x.to_bits()).collect();
        if let Some(known) = self.turning.get(&bits) {
            return *known;
        }
        let table = self.plan.angles.len();
        self.turning.insert(bits, table);
        self.plan.angles.push(angles.clone());
        self.push(operations::rope::Turn { table, angles });
        table
    }

    /// Takes note of what the rows of outputs are: those that want output, or the batch's sequences.
    ///
    /// # Errors
    /// Unsupported if both are asked for.
    pub(crate) fn outputs(&mut self, by_row: bool) -> Result<()> {
        self.by_row |= by_row;
        self.plan.pooled |= !by_row;
        if self.by_row && self.plan.pooled {
            return Err(Error::unsupported("outputs by row and by sequence in one program"));
        }
        Ok(())
    }

    /// The number of a cache.
    ///
    /// # Errors
    /// InvalidArgument if there is none.
    pub(crate) fn cache(&self, state: u32) -> Result<usize> {
        let state = index(state);
        if state >= self.caches.len() {
            return Err(Error::invalid_argument(format!("there is no state {state}")));
        }
        Ok(state)
    }
}

/// A matrix's rows and columns.
pub(crate) fn shape(matrix: &Matrix) -> (usize, usize) {
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    (number(matrix.spec().rows()), number(matrix.spec().columns()))
}

/// Checks that places have the same kind of rows.
///
/// # Errors
/// InvalidArgument if they do not.
pub(crate) fn same_rows(places: &[&Place]) -> Result<RowsOf> {
    let rows = places.first().map_or(RowsOf::BATCH, |place| place.rows);
    if places.iter().any(|place| place.rows != rows) {
        return Err(Error::invalid_argument("its values have different rows"));
    }
    Ok(rows)
}

/// Checks that a result has no element in common with an input.
///
/// # Errors
/// InvalidArgument if it has.
pub(crate) fn apart(out: &Place, input: &Place, what: &str) -> Result<()> {
    if out.meets(input) {
        return Err(Error::invalid_argument(format!("the result overlaps {what}")));
    }
    Ok(())
}

/// Checks that results have no element in common with each other.
///
/// # Errors
/// InvalidArgument if they have.
pub(crate) fn all_apart(results: &[Place]) -> Result<()> {
    // In order of where they begin: if any two meet, so do two neighbours.
    let mut sorted = results.to_vec();
    sorted.sort_unstable_by_key(|place| (place.value, place.first));
    if sorted.is_sorted_by(|a, b| !a.meets(b)) {
        return Ok(());
    }
    Err(Error::invalid_argument("the result overlaps another result"))
}

/// Checks that a result is an input itself, or has no element in common with it.
///
/// # Errors
/// InvalidArgument if it overlaps it in another way.
pub(crate) fn same_or_apart(out: &Place, input: &Place, what: &str) -> Result<()> {
    if out == input { Ok(()) } else { apart(out, input, what) }
}

/// Divides a width into equal parts.
///
/// # Errors
/// InvalidArgument if there are none, or they are not equal.
pub(crate) fn divided(width: usize, parts: u32, what: &str) -> Result<usize> {
    let parts = index(parts);
    if parts == 0 || !width.is_multiple_of(parts) {
        return Err(Error::invalid_argument(format!("{width} elements are not divided into {parts} {what}")));
    }
    Ok(width / parts)
}
