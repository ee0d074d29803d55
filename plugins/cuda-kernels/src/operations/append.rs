//! Rows into a cache.

use super::rope::{Heads, Rotate};
use crate::session::compile::Compiler;
use crate::session::step::index;

pub(super) fn compile(operation: &apr_sdk::Append, compiler: &mut Compiler<'_>) {
    let number = index(operation.state);
    let cache = compiler.plan.caches[number];
    let key = compiler.columns(&operation.key);
    let value = operation.value.as_ref().map(|value| (compiler.columns(value), cache.heads));
    compiler.plan.cached = true;
    let heads = cache.heads;
    let stored = Heads { x: key, out: None, heads, first: 0, pairs: 0, is_interleaved: false, table: 0 };
    let rotate = Rotate { query: None, key: Some(stored), value, cache: Some(number) };
    if !compiler.join(&rotate) {
        compiler.push(rotate);
    }
}
