//! Rows into a cache.

use super::rope::{Heads, Rotate};
use crate::session::compile::Compiler;
use apr_sdk::{Error, Result, RowsOf};

pub(super) fn compile(operation: &apr_sdk::Append, compiler: &mut Compiler<'_>) -> Result<()> {
    let number = compiler.cache(operation.state)?;
    let cache = compiler.plan.caches[number];
    let key = compiler.place_of(&operation.key, cache.heads * cache.key, "the key")?;
    let value = operation
        .value
        .as_ref()
        .map(|place| compiler.place_of(place, cache.heads * cache.value, "the value"));
    let value = value.transpose()?;
    if key.rows != RowsOf::BATCH || value.is_some_and(|value| value.rows != RowsOf::BATCH) {
        return Err(Error::invalid_argument("only the rows of a batch have positions"));
    }
    if cache.views.is_some() {
        return Err(Error::invalid_argument("another operation stores the keys of this state"));
    }
    compiler.plan.caches[number].views = Some(value.is_none());
    compiler.plan.cached = true;
    let (heads, value) = (cache.heads, value.map(|value| (value, cache.heads)));
    let stored = Heads { x: key, out: None, heads, first: 0, pairs: 0, is_interleaved: false, table: 0 };
    let rotate = Rotate { query: None, key: Some(stored), value, cache: Some(number) };
    if !compiler.join(&rotate) {
        compiler.push(rotate);
    }
    Ok(())
}
