//! Rows of a table.

use crate::device::Matrix;
use crate::driver::Launch;
use crate::parameters;
use crate::session::compile::Compiler;
use crate::session::step::{self, List, Node, Step, index, short};
use apr_sdk::{Batch, Columns, Error, Result, RowIndex};
use std::sync::Arc;

struct Embed {
    table: Arc<Matrix>,
    index: RowIndex,
    offset: u32,
    scale: f32,
    out: Columns,
}

pub(super) fn compile(operation: &apr_sdk::Embed, compiler: &mut Compiler<'_>) {
    let table = compiler.matrix(operation.table);
    let out = compiler.columns(&operation.out);
    compiler.written(&out);
    let (index, offset, scale) = (operation.index, operation.offset, operation.scale);
    compiler.push(Embed { table, index, offset, scale, out });
}

/// The kernel that takes rows of a table: of a list of indices, or always the one at the offset.
pub(crate) fn launch(
    table: &Matrix,
    (index, offset): (u64, u32),
    out: parameters::Place,
    scale: f32,
    rows: usize,
) -> Launch {
    let layout = &table.layout;
    let parameters = parameters::Embed {
        table: table.at(),
        index,
        out,
        kind: layout.of.number,
        row_bytes: short(layout.row),
        columns: short(layout.columns),
        offset,
        scale,
        pad: 0,
    };
    let blocks = layout.columns.div_ceil(16).div_ceil(128);
    step::launch(("rows", "embed"), [blocks, rows, 1], 128, &parameters)
}

impl Node for Embed {
    fn check(&self, batch: &Batch<'_>) -> Result<()> {
        let count = batch.ids().len();
        if let Some(given) = batch.rows().filter(|_| self.index == RowIndex::TOKEN) {
            if Some(given.len()) == self.out.width.checked_mul(count) {
                return Ok(());
            }
            return Err(Error::invalid_argument(format!(
                "the batch has {} elements, expected {count} rows of {}",
                given.len(),
                self.out.width
            )));
        }
        let rows = self.table.layout.rows;
        for row in 0..count {
            let at = match self.index {
                RowIndex::TOKEN => index(batch.ids()[row]),
                RowIndex::POSITION => index(batch.positions()[row]),
                _ => 0,
            };
            let wanted = at.saturating_add(index(self.offset));
            if wanted >= rows {
                let of = self.index.name();
                return Err(Error::invalid_argument(format!(
                    "the {of} of batch row {row} refers to row {wanted} of a table of {rows} rows"
                )));
            }
        }
        Ok(())
    }

    fn launch(&self, step: &Step<'_>, out: &mut Vec<Launch>) {
        let to = step.place(&self.out);
        if step.is_given && self.index == RowIndex::TOKEN {
            let x = parameters::Place { at: step.given, stride: to.width, width: to.width };
            let grid = [self.out.width.div_ceil(super::THREADS), step.batch, 1];
            out.push(step::launch(
                ("rows", "copy_rows"),
                grid,
                super::THREADS,
                &parameters::Copy { x, out: to },
            ));
            return;
        }
        let list = match self.index {
            RowIndex::TOKEN => step.list(List::Ids),
            RowIndex::POSITION => step.list(List::Positions),
            _ => 0,
        };
        out.push(launch(&self.table, (list, self.offset), to, self.scale, step.batch));
    }
}
