//! Questions answered by reading an expression before planning: does a narrower type hold every value, are
//! all zero, does the inverse restore all, how far from zero are they?

use super::super::affine::{Distances, Levels};
use super::super::{Expression, Granule};
use super::read::in_pieces;
use super::{Buffers, Evaluation, Outcome};
use crate::crew::map;
use crate::engine::Engine;
use crate::open::OpenedModel;
use crate::values::usize_of;
use apr_sdk::{DType, DTypeKind, Error, Result};
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

/// The three levels that the values of each expression are nearest to, read on all threads.
///
/// # Errors
/// Any error from reading; Unsupported if they are no floats; Cancelled.
pub fn measure_levels(engine: &Engine, source: &OpenedModel, wanted: &[Expression]) -> Result<Vec<Levels>> {
    map(engine.crew.as_ref(), wanted.len(), &|_, number| {
        let floats = wanted[number].clone().in_floats();
        if floats.dtype() != DType::F32 {
            let message = format!("values of {} have no mean distance to zero", floats.dtype());
            return Err(Error::unsupported(message));
        }
        let mut distances = Distances::default();
        for part in floats.parts() {
            read_part(engine, source, part, false, &mut |bytes, _| {
                distances.add(bytemuck::cast_slice(bytes));
                ControlFlow::Continue(())
            })?;
        }
        Ok(distances.levels())
    })
}

fn holds(engine: &Engine, source: &OpenedModel, part: &Expression, criterion: Criterion) -> Result<bool> {
    // Nothing changes, so every value is kept.
    if !matches!(criterion, Criterion::Zero) && part.is_leaf() {
        return Ok(true);
    }
    let mut holds = true;
    let counts_undone = matches!(criterion, Criterion::Undone);
    read_part(engine, source, part, counts_undone, &mut |bytes, outcome| {
        holds = match criterion {
            Criterion::Exact => outcome.changes.is_exact(),
            Criterion::Zero => is_zero(bytes, part),
            Criterion::Undone => outcome.changes.is_undone(),
        };
        if holds { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(holds)
}

/// A function of a run of computed bytes, and of what computing them changed.
type EachRun<'f> = dyn FnMut(&[u8], Outcome) -> ControlFlow<()> + 'f;

/// Passes what a part gives to `each`, in order, until it breaks.
fn read_part(
    engine: &Engine,
    source: &OpenedModel,
    part: &Expression,
    counts_undone: bool,
    each: &mut EachRun<'_>,
) -> Result<()> {
    part.check_ways(&engine.registry)?;
    let granule = Granule::of(part)?;
    let leaf = part.leaf();
    let tensor = leaf.source_tensor().and_then(|n| source.model.tensors.get(n));
    let mut out: Vec<u32> = Vec::new();
    let mut buffers = Buffers::default();
    let mut at = 0;
    for whole in leaf.without_spool().parts() {
        let read = in_pieces(engine, source, whole.clone(), granule.before, &mut |bytes| {
            let mut of = Evaluation::new(granule, &engine.registry, bytes, at)?;
            of.counts_undone = counts_undone;
            let len = usize_of(granule.after(bytes.len() as u64));
            // Whole words, so that they may be read as floats.
            out.resize(len.div_ceil(4), 0);
            let out = &mut bytemuck::cast_slice_mut::<u32, u8>(&mut out)[..len];
            let outcome = part.evaluate(&of, &mut buffers, out)?;
            at += out.len() as u64;
            Ok(each(out, outcome))
        });
        read.map_err(|error| match tensor {
            Some(tensor) => source.files.show(error.tensor(&tensor.name)),
            None => source.files.show(error),
        })?;
    }
    Ok(())
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
