//! Numbers that are found by reading an expression before anything is planned of it: whether a narrower type holds every
//! value, whether all are zero.

use super::super::{Expression, Granule};
use super::read::in_pieces;
use super::{Buffers, Evaluation};
use crate::crew::map;
use crate::engine::Engine;
use crate::open::OpenedModel;
use apr_sdk::{DType, Error, Extent, Result};
use std::ops::ControlFlow;

/// What is asked of the values of an expression.
#[derive(Clone, Debug)]
pub enum Measure<'e> {
    /// Whether every value is finite, and exactly one of a type.
    ExactIn(&'e Expression, DType),
    /// Whether every value is zero, of either sign.
    IsZero(&'e Expression),
}

/// Answers each, side by side on all threads; reads each as far as the first value that decides.
///
/// Of what can be read only in order, the whole is read, even if only some of it is wanted.
///
/// # Errors
/// What reading raises; Unsupported if there is no cast; Cancelled.
pub fn measure(engine: &Engine, source: &OpenedModel, wanted: &[Measure<'_>]) -> Result<Vec<bool>> {
    map(engine.crew.as_ref(), wanted.len(), &|_, number| {
        let (of, is_exact) = match wanted[number] {
            Measure::ExactIn(of, dtype) => (of.clone().cast(dtype), true),
            Measure::IsZero(of) => (of.clone(), false),
        };
        for part in of.parts() {
            if !holds(engine, source, part, is_exact)? {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

fn holds(engine: &Engine, source: &OpenedModel, part: &Expression, is_exact: bool) -> Result<bool> {
    // Nothing was done to it, or it is as it was.
    if is_exact && part.is_leaf() {
        return Ok(true);
    }
    part.check_ways(&engine.registry)?;
    let granule = Granule::of(part)?;
    let read = |e: Extent, out: &mut [u8]| source.files.read_at(e.file, e.offset, out);
    let (mut out, mut buffers, mut holds, mut at) = (Vec::new(), Buffers::default(), true, 0);
    let mut each = |bytes: &[u8]| {
        let of = Evaluation::new(part, (&engine.registry, &read), bytes, at)?;
        out.resize(usize::try_from(granule.after(bytes.len() as u64)).unwrap_or(usize::MAX), 0);
        let made = part.evaluate(&of, &mut buffers, &mut out)?;
        at += out.len() as u64;
        holds = if is_exact { made.changes.is_exact() } else { is_zero(&out, part.dtype()) };
        Ok(if holds { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    };
    let leaf = part.leaf();
    let shown = |e: Error| match leaf.source_tensor().and_then(|n| source.model.tensors.get(n)) {
        Some(tensor) => source.files.show(e.tensor(&tensor.name)),
        None => source.files.show(e),
    };
    for whole in leaf.without_spool().parts() {
        in_pieces(engine, source, whole.clone(), granule.before, &mut each).map_err(shown)?;
    }
    Ok(holds)
}

/// Whether the bytes of values are all zeros.
fn is_zero(bytes: &[u8], dtype: DType) -> bool {
    // The sign of a float is the highest bit of its last byte.
    let width =
        dtype.info().filter(|info| info.kind == apr_sdk::DTypeKind::Float).map_or(0, |info| info.block_bytes);
    match usize::try_from(width) {
        Ok(width) if width > 0 => bytes.chunks_exact(width).all(|value| {
            value
                .split_last()
                .is_none_or(|(last, rest)| last & 0x7f == 0 && rest.iter().all(|byte| *byte == 0))
        }),
        _ => bytes.iter().all(|byte| *byte == 0),
    }
}
