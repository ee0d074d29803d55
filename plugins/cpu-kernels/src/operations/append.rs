//! Rows into a cache.

use crate::session::compile::Compiler;
use crate::session::step::{Division, Step, Task};
use crate::session::values::Place;
use apr_sdk::{Error, Result, RowsOf};

struct Append {
    cache: usize,
    key: Place,
    value: Option<Place>,
}

pub(super) fn compile(operation: &apr_sdk::Append, compiler: &mut Compiler<'_>) -> Result<()> {
    let number = compiler.cache(operation.state)?;
    let cache = &compiler.caches[number];
    let (heads, key, value) = (cache.heads, cache.key, cache.value);
    let key = compiler.place_of(&operation.key, heads * key, "the key")?;
    let place = operation.value.as_ref().map(|place| compiler.place_of(place, heads * value, "the value"));
    let value = place.transpose()?;
    if key.rows != RowsOf::BATCH || value.is_some_and(|value| value.rows != RowsOf::BATCH) {
        return Err(Error::invalid_argument("only the rows of a batch have positions"));
    }
    if !compiler.caches[number].claim(value.is_none()) {
        return Err(Error::invalid_argument("another operation stores the keys of this state"));
    }
    compiler.plan.cached = true;
    compiler.push(Append { cache: number, key, value });
    Ok(())
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
