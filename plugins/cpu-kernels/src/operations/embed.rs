//! Rows of a table.

use super::vector;
use crate::matrix::Matrix;
use crate::session::compile::{Compiler, shape};
use crate::session::step::{Division, Step, Task, index};
use apr_sdk::{Columns, Error, Result, RowIndex, RowsOf};
use std::sync::Arc;

struct Embed {
    table: Arc<Matrix>,
    index: RowIndex,
    offset: usize,
    scale: f32,
    out: Columns,
}

pub(super) fn compile(operation: &apr_sdk::Embed, compiler: &mut Compiler<'_>) {
    let table = compiler.matrix(operation.table);
    let out = compiler.columns(&operation.out);
    compiler.written(&out);
    let (index, offset, scale) = (operation.index, index(operation.offset), operation.scale);
    compiler.push(Embed { table, index, offset, scale, out });
}

impl Task for Embed {
    fn division(&self) -> Division {
        Division::Rows(RowsOf::BATCH)
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        let given = step.batch.rows().filter(|_| self.index == RowIndex::TOKEN);
        if let Some(given) = given
            && Some(given.len()) != self.out.width.checked_mul(step.count(RowsOf::BATCH))
        {
            return Err(Error::invalid_argument(format!(
                "the batch has {} elements, expected {} rows of {}",
                given.len(),
                step.count(RowsOf::BATCH),
                self.out.width
            )));
        }
        for row in step.rows(RowsOf::BATCH, worker) {
            // SAFETY: this worker has its rows to itself.
            let out = unsafe { step.values.write(&self.out, row) };
            if let Some(given) = given {
                out.copy_from_slice(&given[row * self.out.width..][..self.out.width]);
                continue;
            }
            let at = match self.index {
                RowIndex::TOKEN => index(step.batch.ids()[row]),
                RowIndex::POSITION => step.position(row),
                _ => 0,
            };
            let (wanted, rows) = (at.saturating_add(self.offset), shape(&self.table).rows);
            if wanted >= rows {
                let of = self.index.name();
                return Err(Error::invalid_argument(format!(
                    "the {of} of batch row {row} refers to row {wanted} of a table of {rows} rows"
                )));
            }
            self.table.row(wanted, out);
            if self.scale.to_bits() != 1f32.to_bits() {
                vector::scale(step.level, out, self.scale);
            }
        }
        Ok(())
    }
}
