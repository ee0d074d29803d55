//! Reads two payloads side by side, piece by piece: memory is bounded whatever their length.

use crate::engine::Engine;
use crate::expression::evaluate::read::InPieces;
use crate::open::OpenedModel;
use apr_sdk::{Error, Result};

/// A tensor of an opened model, by its index.
type Side<'a> = (&'a OpenedModel, usize);

/// Receives corresponding pieces of a and b, with their index.
type Each<'a> = dyn FnMut(u64, &[u8], &[u8]) -> Result<()> + 'a;

/// Passes the payloads of two tensors to `each`, in order, in pieces of `sizes` bytes; the last may be
/// shorter. Both must have the same number of pieces.
///
/// # Errors
/// Any error from reading either, and from `each`; Malformed if one ends before the other.
pub fn side_by_side(
    engine: &Engine,
    a: Side<'_>,
    b: Side<'_>,
    sizes: [usize; 2],
    each: &mut Each<'_>,
) -> Result<()> {
    let mut of_a = InPieces::new(engine, a.0, a.1)?;
    let mut of_b = InPieces::new(engine, b.0, b.1)?;
    let mut number = 0;
    loop {
        match (of_a.next(sizes[0])?, of_b.next(sizes[1])?) {
            (Some(a), Some(b)) => each(number, a, b)?,
            (None, None) => return Ok(()),
            _ => return Err(Error::malformed("one payload is shorter than the other")),
        }
        number += 1;
    }
}

/// Reads a payload in order, in pieces of `size` bytes; the last may be shorter.
///
/// # Errors
/// Any error from reading, and from `each`.
pub fn in_pieces(
    engine: &Engine,
    (opened, tensor): Side<'_>,
    size: usize,
    each: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut pieces = InPieces::new(engine, opened, tensor)?;
    let mut number = 0;
    while let Some(bytes) = pieces.next(size)? {
        each(number, bytes)?;
        number += 1;
    }
    Ok(())
}
