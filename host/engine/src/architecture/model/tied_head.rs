//! A head that the configuration ties to the embedding, and that has values of its own: programs differ in which of both they take.

use crate::architecture::config::Config;
use crate::architecture::config::contradiction::{Denied, denied_head};
use crate::architecture::table::rule::images;
use crate::architecture::table::{Dialect, Table};
use crate::engine::Engine;
use crate::open::OpenedModel;
use apr_sdk::{Bytes, Extent, Payload, Result, Tensor, escape};

/// Bytes that are compared at once.
const PIECE: u64 = 1 << 20;

/// Warns of such a head among `tensors`, which have the table's own names.
///
/// # Errors
/// Any error from reading and from evaluating defaults.
pub(in crate::architecture) fn tell_of_tied_head(
    engine: &Engine,
    opened: &OpenedModel,
    table: &Table,
    from: &Dialect,
    config: &Config,
    tensors: &[Tensor],
) -> Result<()> {
    let Some(Denied { key, stated, tensor, .. }) = denied_head(table, from, config, tensors)? else {
        return Ok(());
    };
    let rule = table.rules.iter().find(|rule| rule.role.as_deref() == Some("embedding"));
    let Some(image) = rule.and_then(|rule| images(rule, &from.id).0.first()) else { return Ok(()) };
    let embedding = tensors.iter().find(|tensor| image.numbers(&tensor.name).is_some());
    let Some(embedding) = embedding.filter(|embedding| embedding.name != tensor.name) else { return Ok(()) };
    if is_same(opened, tensor, embedding)? != Some(false) {
        return Ok(());
    }
    let head = escape(&tensor.name, 120);
    let embedding = escape(&embedding.name, 120);
    engine.warn_once(&format!(
        "`{key}` is {stated}, but `{head}` and `{embedding}` have different values: `{head}` is used, as in \
         transformers 5; transformers 4 uses `{embedding}`"
    ));
    Ok(())
}

/// Returns whether two tensors have the same values; `None` for payload that does not lie in the same form.
fn is_same(opened: &OpenedModel, one: &Tensor, other: &Tensor) -> Result<Option<bool>> {
    let (Payload::Extent { extent: a, view: None }, Payload::Extent { extent: b, view: None }) =
        (&one.payload, &other.payload)
    else {
        return Ok(None);
    };
    if one.dtype != other.dtype {
        return Ok(None);
    }
    if (a.file, a.offset, a.len) == (b.file, b.offset, b.len) {
        return Ok(Some(true));
    }
    if one.shape != other.shape || a.len != b.len {
        return Ok(Some(false));
    }
    let mut at = 0;
    while at < a.len {
        let len = PIECE.min(a.len - at);
        let of_one = opened.fetch(&Bytes::Extent(Extent::new(a.file, a.offset + at, len)))?;
        let of_other = opened.fetch(&Bytes::Extent(Extent::new(b.file, b.offset + at, len)))?;
        if of_one.inline() != of_other.inline() {
            return Ok(Some(false));
        }
        at += len;
    }
    Ok(Some(true))
}
