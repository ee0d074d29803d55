//! Floats to blocks, one by one. What is done to each element is plain code, of which the compiler makes vectors.

use crate::simd::{Body, compiled};
use crate::types::Rows;
use apr_sdk::Result;
use std::marker::PhantomData;

/// A type whose blocks are encoded each on its own, without importance.
pub trait Encode<const BYTES: usize, const ELEMENTS: usize> {
    /// Encodes a block. It must be inlined, or it is not compiled for the level's instructions.
    fn block(values: &[f32; ELEMENTS], block: &mut [u8; BYTES]);
}

/// Encodes whole rows of a type.
///
/// # Errors
/// None.
pub fn encode_each_block<T: Encode<BYTES, ELEMENTS>, const BYTES: usize, const ELEMENTS: usize>(
    rows: &Rows<'_>,
    out: &mut [u8],
) -> Result<()> {
    let (values, out) = (rows.values.as_chunks().0, out.as_chunks_mut().0);
    compiled(rows.level, EachBlock::<T, BYTES, ELEMENTS> { values, out, of: PhantomData });
    Ok(())
}

struct EachBlock<'a, T, const BYTES: usize, const ELEMENTS: usize> {
    values: &'a [[f32; ELEMENTS]],
    out: &'a mut [[u8; BYTES]],
    of: PhantomData<T>,
}

impl<T: Encode<BYTES, ELEMENTS>, const BYTES: usize, const ELEMENTS: usize> Body
    for EachBlock<'_, T, BYTES, ELEMENTS>
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (values, block) in self.values.iter().zip(self.out) {
            T::block(values, block);
        }
    }
}
