//! What only values can say of an operation: the levels that those of a matrix become.

use super::tensors::expression_of;
use crate::architecture::translate::Made;
use crate::engine::Engine;
use crate::expression::{Expression, Map, concat, measure_levels};
use crate::open::OpenedModel;
use apr_sdk::{Result, Tensor};

/// Reads the tensors whose values become one of three levels, and states the levels. `sources` are the tensors that boxes refer
/// to, numbered as in the opened model if `selected` is `None`, which otherwise has their numbers there.
///
/// # Errors
/// Any error from reading; Unsupported for values that are no floats.
pub(in crate::architecture) fn state_levels(
    engine: &Engine,
    opened: &OpenedModel,
    sources: &[Tensor],
    selected: Option<&[usize]>,
    tensors: &mut [Made],
) -> Result<()> {
    let mut asked = Vec::new();
    let mut values = Vec::new();
    for (number, made) in tensors.iter().enumerate() {
        let boxes = made.boxes.iter().filter(|part| part.change.map == Some(Map::Ternary(None)));
        let parts = boxes.map(|part| expression_of(part, made.dtype, sources));
        let parts = parts.collect::<Result<Vec<Expression>>>().map_err(|e| e.tensor(&made.name))?;
        if parts.is_empty() {
            continue;
        }
        let mut of = concat(parts);
        if let Some(selected) = selected {
            of.renumber(selected);
        }
        asked.push(number);
        values.push(of);
    }
    let levels = measure_levels(engine, opened, &values)?;
    for (number, levels) in asked.into_iter().zip(levels) {
        for part in &mut tensors[number].boxes {
            if part.change.map == Some(Map::Ternary(None)) {
                part.change.map = Some(Map::Ternary(Some(levels)));
            }
        }
    }
    Ok(())
}
