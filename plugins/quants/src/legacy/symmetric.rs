//! Codes around their middle: the scale takes the widest element to an end of the codes.

use super::{Packing, inverse};
use crate::extremes::widest;
use crate::nibbles::{Blocks, ELEMENTS, lanes};
use crate::number::{half, low_byte};
use crate::search;
use crate::simd::{Lanes, Task, run};
use crate::types::Rows;
use crate::weights::{mean_square, weights};
use apr_sdk::Result;
use std::marker::PhantomData;

/// Blocks whose scales are made at once.
const GROUP: usize = 16;

/// A type of such blocks: a half, then the codes.
pub trait Symmetric<const BYTES: usize>: Packing<BYTES> {
    /// The code of 0: half of as many codes as there are.
    const MIDDLE: u8;
}

/// Encodes whole rows.
///
/// # Errors
/// None.
pub fn encode<T: Symmetric<BYTES>, const BYTES: usize>(rows: &Rows<'_>, out: &mut [u8]) -> Result<()> {
    let of = PhantomData::<T>;
    let Some(importance) = rows.importance else {
        let (blocks, out) = (rows.values.as_chunks::<ELEMENTS>().0, out.as_chunks_mut::<BYTES>().0);
        if run(rows.level, Plain { blocks, out: &mut *out, of }).is_none() {
            blocks.iter().zip(out).for_each(|(values, block)| plain::<T, BYTES>(values, block));
        }
        return Ok(());
    };
    if run(rows.level, Search::<T, BYTES> { rows, importance, out: &mut *out, of }).is_none() {
        search_rows::<T, BYTES>(rows, importance, out);
    }
    Ok(())
}

/// Searches where importance is known.
fn search_rows<T: Symmetric<BYTES>, const BYTES: usize>(rows: &Rows<'_>, importance: &[f32], out: &mut [u8]) {
    let importance = importance.as_chunks::<ELEMENTS>().0;
    let of_row = rows.row_len / ELEMENTS * BYTES;
    for (row, out) in rows.values.chunks_exact(rows.row_len).zip(out.chunks_exact_mut(of_row)) {
        let variance = mean_square(row);
        let blocks = row.as_chunks::<ELEMENTS>().0.iter().zip(out.as_chunks_mut::<BYTES>().0);
        for ((values, block), importance) in blocks.zip(importance) {
            let weights = weights(values, importance, variance);
            let mut codes = [0; ELEMENTS];
            let scale = search::symmetric(i32::from(T::MIDDLE), values, Some(&weights), &mut codes);
            block[..2].copy_from_slice(&half(scale).to_le_bytes());
            T::pack(&codes, block);
        }
    }
}

fn plain<T: Symmetric<BYTES>, const BYTES: usize>(values: &[f32; ELEMENTS], block: &mut [u8; BYTES]) {
    let scale = widest(values) / -f32::from(T::MIDDLE);
    let inverse = inverse(scale);
    block[..2].copy_from_slice(&half(scale).to_le_bytes());
    let code = |value: f32| {
        let most = (2 * T::MIDDLE - 1).cast_signed();
        low_byte(value * inverse + (f32::from(T::MIDDLE) + 0.5)).cast_signed().min(most).cast_unsigned()
    };
    T::pack(&values.map(code), block);
}

/// The same in vectors.
struct Plain<'a, T, const BYTES: usize> {
    blocks: &'a [[f32; ELEMENTS]],
    out: &'a mut [[u8; BYTES]],
    of: PhantomData<T>,
}

impl<T: Symmetric<BYTES>, const BYTES: usize> Task for Plain<'_, T, BYTES> {
    type Output = ();

    #[inline(always)]
    fn run<V: Lanes>(self, v: V) {
        let (middle, most) = (f32::from(T::MIDDLE), i32::from(2 * T::MIDDLE - 1));
        // The scales of several blocks come together, so that the compiler makes vectors of them too.
        for (blocks, out) in self.blocks.chunks(GROUP).zip(self.out.chunks_mut(GROUP)) {
            let mut scales = [0.0; GROUP];
            for (scale, values) in scales.iter_mut().zip(blocks) {
                *scale = lanes::widest(v, values, &lanes::load(v, values)) / -middle;
            }
            let (mut inverses, mut halves) = ([0.0; GROUP], [0; GROUP]);
            for ((inverse_scale, half_scale), scale) in inverses.iter_mut().zip(&mut halves).zip(scales) {
                *inverse_scale = inverse(scale);
                *half_scale = half(scale);
            }
            let scales = inverses.into_iter().zip(halves);
            for ((values, block), (inverse, scale)) in blocks.iter().zip(out).zip(scales) {
                block[..2].copy_from_slice(&scale.to_le_bytes());
                let vectors = lanes::load(v, values);
                let codes = lanes::codes(v, &vectors, (0.0, inverse, middle + 0.5), most);
                T::pack_vectors(v, &codes, block);
            }
        }
    }
}

/// The searches in vectors.
struct Search<'a, T, const BYTES: usize> {
    rows: &'a Rows<'a>,
    importance: &'a [f32],
    out: &'a mut [u8],
    of: PhantomData<T>,
}

impl<T: Symmetric<BYTES>, const BYTES: usize> Task for Search<'_, T, BYTES> {
    type Output = ();

    #[inline(always)]
    fn run<V: Lanes>(self, v: V) {
        let middle = i32::from(T::MIDDLE);
        let blocks = Blocks::new(v, self.rows, self.importance);
        let size = Blocks::group::<V>();
        let values = self.rows.values.as_chunks::<ELEMENTS>().0.chunks(size);
        let groups = values.zip(self.out.as_chunks_mut::<BYTES>().0.chunks_mut(size));
        for (group, (values, out)) in groups.enumerate() {
            let found = blocks.symmetric(v, middle, group * size);
            for (at, (values, block)) in values.iter().zip(out).enumerate() {
                let codes = found.symmetric_codes(v, middle, at, values);
                block[..2].copy_from_slice(&half(found.scales[at]).to_le_bytes());
                T::pack_vectors(v, &codes, block);
            }
        }
    }
}
