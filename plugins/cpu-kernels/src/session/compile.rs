//! From a checked program to tasks.

use super::cache::Cache;
use super::step::{Task, index};
use super::values::Values;
use crate::matrix::{Matrix, Rounding};
use crate::operations::{self, attention::Attention, linear::Linear};
use apr_sdk::{CheckedProgram, Columns, Result, Slice, WeightShape};
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
    holds: Option<(Columns, usize)>,
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
    pub(crate) logits: Option<Columns>,
    /// Whether keys are stored.
    pub(crate) cached: bool,
    /// The attentions, for each needs memory for its work.
    pub(crate) attentions: Vec<Arc<Attention>>,
}

/// A program on its way to a [`Plan`].
pub(crate) struct Compiler<'c> {
    pub(crate) plan: Plan,
    program: &'c CheckedProgram,
    pub(crate) caches: &'c [Cache],
    weights: &'c [Arc<Matrix>],
    /// The weights that were asked for as floats.
    floats: BTreeMap<u32, Arc<[f32]>>,
    /// Indices of the tables of angles, keyed by the bits of their parameters.
    turning: BTreeMap<Vec<u32>, usize>,
    operation: usize,
}

/// Makes a program's values, caches and tasks.
///
/// # Errors
/// Unsupported for what this backend cannot run, naming the operation; Io if there is no memory left.
pub(crate) fn compile(
    program: &CheckedProgram,
    weights: &[Arc<Matrix>],
) -> Result<(Values, Vec<Cache>, Plan)> {
    let values = Values::new(program.values())?;
    let states = program.states().iter().enumerate();
    let caches = states.map(|(number, state)| Cache::new(state, program.values_are_views(number)));
    let caches: Vec<Cache> = caches.collect();
    let plan = Plan {
        tasks: Vec::new(),
        operations: program.operations().len(),
        slots: Vec::new(),
        angles: Vec::new(),
        linears: Vec::new(),
        assignments: 0,
        pooled: program.is_pooled(),
        logits: None,
        cached: false,
        attentions: Vec::new(),
    };
    let mut compiler = Compiler {
        plan,
        program,
        caches: &caches,
        weights,
        floats: BTreeMap::new(),
        turning: BTreeMap::new(),
        operation: 0,
    };
    program.for_each_operation(|number, operation| {
        compiler.operation = number;
        operations::compile(operation, &mut compiler)
    })?;
    let plan = compiler.plan;
    Ok((values, caches, plan))
}

impl Compiler<'_> {
    /// Appends a task.
    pub(crate) fn push(&mut self, task: impl Task + 'static) {
        self.plan.tasks.push((self.operation, Box::new(task)));
    }

    /// The columns of a slice of an operation.
    pub(crate) fn columns(&self, slice: &Slice) -> Columns {
        self.program.columns(slice)
    }

    /// Takes note that an operation writes these columns.
    pub(crate) fn written(&mut self, columns: &Columns) {
        for slot in &mut self.plan.slots {
            if slot.holds.is_some_and(|(held, _)| held.overlaps(columns)) {
                slot.holds = None;
            }
        }
    }

    /// A weight.
    pub(crate) fn matrix(&self, weight: u32) -> Arc<Matrix> {
        Arc::clone(&self.weights[index(weight)])
    }

    /// A weight's rows as floats, one after the other. They are kept once, however many operations name them.
    pub(crate) fn floats(&mut self, weight: u32) -> Arc<[f32]> {
        if let Some(known) = self.floats.get(&weight) {
            return Arc::clone(known);
        }
        let matrix = self.matrix(weight);
        let WeightShape { rows, columns } = shape(&matrix);
        let mut floats = vec![0.0; rows * columns];
        floats.chunks_exact_mut(columns).enumerate().for_each(|(row, out)| matrix.row(row, out));
        let floats = Arc::<[f32]>::from(floats);
        self.floats.insert(weight, Arc::clone(&floats));
        floats
    }

    /// The slot with `x`, cut into `parts` rows, in a rounding; the task that fills it is added if it is not there yet.
    pub(crate) fn rounded(&mut self, x: &Columns, parts: usize, rounding: Rounding) -> usize {
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
}

/// A matrix's dimensions.
pub(crate) fn shape(matrix: &Matrix) -> WeightShape {
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    WeightShape { rows: number(matrix.spec().rows()), columns: number(matrix.spec().columns()) }
}
