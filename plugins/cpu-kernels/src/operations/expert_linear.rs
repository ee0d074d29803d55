//! The matrices of each row's chosen experts. Rows are ordered by expert first, so that each matrix is read once for all
//! rows that chose it.

use super::linear::{Divided, runs};
use super::route::expert;
use crate::matrix::Matrix;
use crate::session::compile::{Compiler, shape};
use crate::session::step::{Division, Step, Task, index};
use apr_sdk::{Columns, Error, Result, RowsOf};
use std::sync::{Arc, PoisonError};

/// Orders the choices by expert: (expert, row · used + choice).
struct Order {
    route: Columns,
    experts: usize,
    used: usize,
    list: usize,
}

/// Rounds each choice's input, in that order.
struct Fill {
    x: Columns,
    used: usize,
    shared: bool,
    list: usize,
    slot: usize,
}

/// Multiplies.
struct Multiply {
    matrix: Arc<Matrix>,
    /// Rows of an expert in the matrix.
    stride: usize,
    /// The first of them.
    first: usize,
    /// How many.
    width: usize,
    /// A row for each expert.
    bias: Option<Arc<[f32]>>,
    out: Columns,
    rows: RowsOf,
    used: usize,
    list: usize,
    slot: usize,
}

pub(super) fn compile(operation: &apr_sdk::ExpertLinear, compiler: &mut Compiler<'_>) {
    let (experts, used) = (index(operation.experts), index(operation.used));
    let (x, route) = (compiler.columns(&operation.x), compiler.columns(&operation.route));
    let shared = operation.shared_input;
    let given = if shared { x.width } else { x.width / used };
    let list = compiler.plan.assignments;
    compiler.plan.assignments += 1;
    compiler.push(Order { route, experts, used, list });
    let mut filled: Vec<(crate::matrix::Rounding, usize)> = Vec::new();
    for part in &operation.parts {
        let out = compiler.columns(&part.out);
        let matrix = compiler.matrix(part.weight);
        let (stride, first) = (shape(&matrix).rows / experts, index(part.first_row));
        let bias = part.bias.map(|bias| compiler.floats(bias));
        let rounding = matrix.rounding();
        let known = filled.iter().find(|(known, _)| *known == rounding).map(|(_, slot)| *slot);
        let slot = known.unwrap_or_else(|| {
            let slot = compiler.slot(given, used, rounding);
            compiler.push(Fill { x, used, shared, list, slot });
            filled.push((rounding, slot));
            slot
        });
        let width = out.width / used;
        compiler.push(Multiply { matrix, stride, first, width, bias, out, rows: x.rows, used, list, slot });
    }
    for part in &operation.parts {
        let out = compiler.columns(&part.out);
        compiler.written(&out);
    }
}

/// Checks that the indices of a step's expert choices fit a `u32`.
///
/// # Errors
/// LimitExceeded if there are too many.
fn countable(rows: usize, used: usize) -> Result<()> {
    if rows.checked_mul(used).is_some_and(|choices| u32::try_from(choices).is_ok()) {
        return Ok(());
    }
    Err(Error::limit(format!("{rows} rows with {used} chosen experts each are too many for one step")))
}

/// A number as it is kept in a list of choices.
fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl Task for Order {
    fn division(&self) -> Division {
        Division::Other
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        if worker > 0 {
            return Ok(());
        }
        let mut list = step.assignments[self.list].write().unwrap_or_else(PoisonError::into_inner);
        list.clear();
        countable(step.count(self.route.rows), self.used)?;
        for row in 0..step.count(self.route.rows) {
            // SAFETY: nothing writes the route in this task.
            let route = unsafe { step.values.read(&self.route, row) };
            for (choice, number) in route[..self.used].iter().enumerate() {
                list.push((short(expert(*number, self.experts)), short(row * self.used + choice)));
            }
        }
        list.sort_unstable();
        Ok(())
    }
}

impl Task for Fill {
    fn division(&self) -> Division {
        Division::Other
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        let list = step.list(self.list);
        let width = if self.shared { self.x.width } else { self.x.width / self.used };
        for place in step.share(list.len(), worker) {
            let choice = index(list[place].1);
            let (row, choice) = (choice / self.used, choice % self.used);
            let x = if self.shared { self.x } else { self.x.part(choice * width, width) };
            // SAFETY: this worker has its choices to itself, and nothing writes the input in this task.
            unsafe {
                step.activations[self.slot].fill(step.level, place, step.values.read(&x, row));
            }
        }
        Ok(())
    }
}

impl Task for Multiply {
    fn division(&self) -> Division {
        Division::Other
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        let list = step.list(self.list);
        let groups = || list.chunk_by(|a, b| a.0 == b.0);
        let first = |group: &[(u32, u32)]| index(group[0].0) * self.stride + self.first;
        let pieces = groups().map(|group| {
            // Up to some rows the matrix's bytes are what costs, beyond that the products.
            let (rows, times) = (first(group)..first(group) + self.width, group.len().div_ceil(4));
            Divided::new(&self.matrix, rows, times, step.workers)
        });
        let mut tokens = 0;
        for (group, run) in groups().zip(runs(pieces, worker, step.workers)) {
            let places = tokens..tokens + group.len();
            tokens = places.end;
            if run.is_empty() {
                continue;
            }
            let mut give = |place: usize, row: usize, products: &[f32]| {
                let choice = index(list[place].1);
                let at = row - first(group);
                let part = self.out.part(choice % self.used * self.width + at, products.len());
                // SAFETY: this worker has these rows of this expert to itself, and with them the results' elements.
                let out = unsafe { step.values.write(&part, choice / self.used) };
                out.copy_from_slice(products);
                if let Some(bias) = &self.bias {
                    let bias = &bias[index(list[place].0) * self.width + at..];
                    out.iter_mut().zip(bias).for_each(|(out, bias)| *out += bias);
                }
            };
            self.matrix.multiply(step.level, run, &step.activations[self.slot], places, None, &mut give);
        }
        debug_assert_eq!(tokens, step.count(self.rows) * self.used);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_that_lists_cannot_number_are_refused() {
        countable(1 << 16, 0xffff).unwrap();
        assert!(countable(1 << 16, 1 << 16).is_err());
        assert!(countable(usize::MAX, 2).is_err());
    }
}
