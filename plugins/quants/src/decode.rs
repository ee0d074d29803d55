//! Blocks to floats, one by one, in vectors where the level has some.

use crate::simd::{Lanes, Level, Task, run};
use std::marker::PhantomData;

/// A type whose blocks are decoded in vectors too.
pub trait Decode<const BYTES: usize, const ELEMENTS: usize> {
    /// Decodes a block.
    fn scalar(block: &[u8; BYTES], out: &mut [f32; ELEMENTS]);

    /// The same in vectors.
    fn vectors<V: Lanes>(v: V, block: &[u8; BYTES], out: &mut [f32; ELEMENTS]);
}

/// Decodes whole blocks of a type.
pub fn decode<T: Decode<BYTES, ELEMENTS>, const BYTES: usize, const ELEMENTS: usize>(
    level: Level,
    blocks: &[u8],
    out: &mut [f32],
) {
    let (blocks, out) = (blocks.as_chunks().0, out.as_chunks_mut().0);
    if run(level, InVectors::<T, BYTES, ELEMENTS> { blocks, out: &mut *out, of: PhantomData }).is_none() {
        blocks.iter().zip(out).for_each(|(block, out)| T::scalar(block, out));
    }
}

/// All blocks.
struct InVectors<'a, T, const BYTES: usize, const ELEMENTS: usize> {
    blocks: &'a [[u8; BYTES]],
    out: &'a mut [[f32; ELEMENTS]],
    of: PhantomData<T>,
}

impl<T: Decode<BYTES, ELEMENTS>, const BYTES: usize, const ELEMENTS: usize> Task
    for InVectors<'_, T, BYTES, ELEMENTS>
{
    type Output = ();

    #[inline(always)]
    fn run<V: Lanes>(self, v: V) {
        for (block, out) in self.blocks.iter().zip(self.out) {
            T::vectors(v, block, out);
        }
    }
}
