//! Questions answered by reading an expression before planning: does a narrower type hold every value, are
//! all zero, does the inverse restore all?

use super::super::{Expression, Granule};
use super::read::in_pieces;
use super::{Buffers, Evaluation};
use crate::crew::map;
use crate::engine::Engine;
use crate::open::OpenedModel;
use crate::values::usize_of;
use apr_sdk::{DType, DTypeKind, Result};
use std::ops::ControlFlow;

/// A question about the values of an expression.
#[derive(Clone, Debug)]
pub enum Measure<'e> {
    /// Asks whether every value is finite and exactly representable in a type.
    ExactIn(&'e Expression, DType),
    /// Asks whether every value is zero, of either sign.
    IsZero(&'e Expression),
    /// Asks whether the inverse restores every stored value to the bit.
    IsUndone(&'e Expression),
}

/// The criterion by which the values of an expression are judged.
#[derive(Clone, Copy)]
enum Criterion {
    Exact,
    Zero,
    Undone,
}

/// Answers each question, on all threads; reads only up to the first decisive value.
///
/// Sequential payload is read completely, even if only part of it is needed.
///
/// # Errors
/// Any error from reading; Unsupported if there is no cast; Cancelled.
pub fn measure(engine: &Engine, source: &OpenedModel, wanted: &[Measure<'_>]) -> Result<Vec<bool>> {
    map(engine.crew.as_ref(), wanted.len(), &|_, number| {
        let (of, criterion) = match wanted[number] {
            Measure::ExactIn(of, dtype) => (of.clone().untyped().cast(dtype), Criterion::Exact),
            Measure::IsZero(of) => (of.clone().in_floats(), Criterion::Zero),
            Measure::IsUndone(of) => (of.clone(), Criterion::Undone),
        };
        for part in of.parts() {
            if !holds(engine, source, part, criterion)? {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

fn holds(engine: &Engine, source: &OpenedModel, part: &Expression, criterion: Criterion) -> Result<bool> {
    // Nothing changes, so every value is kept.
    if !matches!(criterion, Criterion::Zero) && part.is_leaf() {
        return Ok(true);
    }
    part.check_ways(&engine.registry)?;
    let granule = Granule::of(part)?;
    let leaf = part.leaf();
    let tensor = leaf.source_tensor().and_then(|n| source.model.tensors.get(n));
    let mut out = Vec::new();
    let mut buffers = Buffers::default();
    let mut holds = true;
    let mut at = 0;
    for whole in leaf.without_spool().parts() {
        let read = in_pieces(engine, source, whole.clone(), granule.before, &mut |bytes| {
            let mut of = Evaluation::new(granule, &engine.registry, bytes, at)?;
            of.counts_undone = matches!(criterion, Criterion::Undone);
            out.resize(usize_of(granule.after(bytes.len() as u64)), 0);
            let outcome = part.evaluate(&of, &mut buffers, &mut out)?;
            at += out.len() as u64;
            holds = match criterion {
                Criterion::Exact => outcome.changes.is_exact(),
                Criterion::Zero => is_zero(&out, part),
                Criterion::Undone => outcome.changes.is_undone(),
            };
            Ok(if holds { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        });
        read.map_err(|error| match tensor {
            Some(tensor) => source.files.show(error.tensor(&tensor.name)),
            None => source.files.show(error),
        })?;
    }
    Ok(holds)
}

/// Returns whether all values are zero, of either sign if they are F32.
fn is_zero(bytes: &[u8], part: &Expression) -> bool {
    let sign = if part.dtype() == DType::F32 { 0x7f } else { 0xff };
    bytes.chunks(4).all(|value| match value {
        [rest @ .., last] => last & sign == 0 && rest.iter().all(|byte| *byte == 0),
        [] => true,
    })
}

impl Expression {
    /// The expression in F32 if it is floats or blocks; otherwise unchanged.
    fn in_floats(self) -> Expression {
        let Some(info) = self.dtype().info() else { return self };
        match info.kind {
            DTypeKind::Float => self.untyped().cast(DType::F32),
            DTypeKind::Block => self.decoded(u64::from(info.block_elements)),
            _ => self,
        }
    }
}
