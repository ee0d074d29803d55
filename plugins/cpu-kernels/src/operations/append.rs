//! Rows into a cache.

use crate::session::compile::Compiler;
use crate::session::step::{Division, Step, Task, index};
use apr_sdk::{Columns, Result, RowsOf};

struct Append {
    cache: usize,
    key: Columns,
    value: Option<Columns>,
}

pub(super) fn compile(operation: &apr_sdk::Append, compiler: &mut Compiler<'_>) {
    let key = compiler.columns(&operation.key);
    let value = operation.value.as_ref().map(|value| compiler.columns(value));
    compiler.plan.cached = true;
    compiler.push(Append { cache: index(operation.state), key, value });
}

impl Task for Append {
    fn division(&self) -> Division {
        Division::Rows(RowsOf::BATCH)
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        for row in step.rows(RowsOf::BATCH, worker) {
            let (sequence, position) = (step.sequence(row), step.position(row));
            // SAFETY: this worker has its rows to itself, and no two rows have the same position of a sequence.
            unsafe {
                let key = step.values.read(&self.key, row);
                let value = self.value.as_ref().map(|value| step.values.read(value, row));
                step.caches[self.cache].store(sequence, position, key, value);
            }
        }
        Ok(())
    }
}
