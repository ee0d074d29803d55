//! Whether values would survive being made narrower, found out before anything is planned.

use crate::crew::map;
use crate::engine::Engine;
use crate::expression::compose::{compose, merged};
use crate::expression::making::{Making, Piece};
use crate::expression::payload::in_pieces;
use crate::expression::work::Work;
use crate::open::OpenedModel;
use crate::values::cast::Cast;
use apr_sdk::{DType, Result};
use std::ops::ControlFlow;

/// For each of these tensors to be made whether every value is finite and exactly one of a dtype. Reads them, side by side
/// on all threads, each as far as the first value that is not.
///
/// Of a tensor that can be read only in order, the whole is read, even if only some of it is wanted.
///
/// # Errors
/// What reading raises; Unsupported if there is no cast; Cancelled.
pub fn exact_in(engine: &Engine, source: &OpenedModel, wanted: &[(&Making, DType)]) -> Result<Vec<bool>> {
    map(engine.crew.as_ref(), wanted.len(), &|_, number| {
        let (making, dtype) = wanted[number];
        is_exact(engine, source, making, dtype)
    })
}

/// Whether every value of one is.
fn is_exact(engine: &Engine, source: &OpenedModel, making: &Making, dtype: DType) -> Result<bool> {
    let Some(cast) = Cast::new(making.source_dtype, dtype, making.add)? else { return Ok(true) };
    let (mut out, mut exact) = (Vec::new(), true);
    for piece in &making.pieces {
        let mut each = |bytes: &[u8]| {
            let len = usize::try_from(cast.after(bytes.len() as u64)).unwrap_or(usize::MAX);
            out.resize(len, 0);
            exact = cast.apply(bytes, &mut out).is_exact();
            Ok(if exact { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        };
        match piece {
            Piece::Bytes(bytes) => each(bytes).map(drop)?,
            Piece::Box { tensor: number, start, dims } => {
                let tensor = &source.model.tensors[*number];
                let mut read = || {
                    let work = match compose(tensor, *number, *start, &merged(dims))? {
                        Some(work) => (work, making.piece_len(piece)?),
                        None => (Work::new(tensor, *number)?, tensor.payload_len()?),
                    };
                    in_pieces(engine, source, work.1, &work.0, &mut each)
                };
                read().map_err(|e| source.files.show(e.tensor(&tensor.name)))?;
            }
        }
        if !exact {
            break;
        }
    }
    Ok(exact)
}
