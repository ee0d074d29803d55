//! Codes from 0: the scale takes the smallest element to 0 and the largest to the last code.

use super::{Packing, inverse};
use crate::extremes::range;
use crate::nibbles::{Blocks, ELEMENTS, lanes};
use crate::number::{half, low_byte};
use crate::search::{Steps, weighted};
use crate::simd::{Lanes, Task, run};
use crate::types::Rows;
use crate::weights::{mean_square, weights};
use apr_sdk::Result;
use std::marker::PhantomData;

/// A type of such blocks: the scale and the smallest element as halves, then the codes.
pub trait Affine<const BYTES: usize>: Packing<BYTES> {
    /// The last code.
    const MOST: u8;

    /// The scales that are tried where importance is known: [`steps`]. A constant, or they are not compiled in.
    const STEPS: Steps;
}

/// The scales that are tried for codes up to `most`.
pub const fn steps(most: i32) -> Steps {
    Steps { most, first: -0.9, step: 0.05, count: 36 }
}

/// Encodes whole rows.
///
/// # Errors
/// None.
pub fn encode<T: Affine<BYTES>, const BYTES: usize>(rows: &Rows<'_>, out: &mut [u8]) -> Result<()> {
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
fn search_rows<T: Affine<BYTES>, const BYTES: usize>(rows: &Rows<'_>, importance: &[f32], out: &mut [u8]) {
    let importance = importance.as_chunks::<ELEMENTS>().0;
    let of_row = rows.row_len / ELEMENTS * BYTES;
    for (row, out) in rows.values.chunks_exact(rows.row_len).zip(out.chunks_exact_mut(of_row)) {
        let variance = mean_square(row);
        let blocks = row.as_chunks::<ELEMENTS>().0.iter().zip(out.as_chunks_mut::<BYTES>().0);
        for ((values, block), importance) in blocks.zip(importance) {
            let weights = weights(values, importance, variance);
            let mut codes = [0; ELEMENTS];
            let found = weighted(&T::STEPS, values, &weights, &mut codes);
            write_scales(found.scale, -found.offset, block);
            T::pack(&codes, block);
        }
    }
}

#[inline(always)]
fn write_scales<const BYTES: usize>(scale: f32, least: f32, block: &mut [u8; BYTES]) {
    block[..2].copy_from_slice(&half(scale).to_le_bytes());
    block[2..4].copy_from_slice(&half(least).to_le_bytes());
}

fn plain<T: Affine<BYTES>, const BYTES: usize>(values: &[f32; ELEMENTS], block: &mut [u8; BYTES]) {
    let (least, most) = range(values);
    let scale = (most - least) / f32::from(T::MOST);
    let (inverse, last) = (inverse(scale), T::MOST.cast_signed());
    let code = |value: f32| low_byte((value - least) * inverse + 0.5).cast_signed().min(last).cast_unsigned();
    let codes = values.map(code);
    write_scales(scale, least, block);
    T::pack(&codes, block);
}

/// The same in vectors.
struct Plain<'a, T, const BYTES: usize> {
    blocks: &'a [[f32; ELEMENTS]],
    out: &'a mut [[u8; BYTES]],
    of: PhantomData<T>,
}

impl<T: Affine<BYTES>, const BYTES: usize> Task for Plain<'_, T, BYTES> {
    type Output = ();

    #[inline(always)]
    fn run<V: Lanes>(self, v: V) {
        for (values, block) in self.blocks.iter().zip(self.out) {
            let vectors = lanes::load(v, values);
            let (least, most) = lanes::range::<V>(values, &vectors);
            let scale = (most - least) / f32::from(T::MOST);
            write_scales(scale, least, block);
            let codes = lanes::codes(v, &vectors, (least, inverse(scale), 0.5), i32::from(T::MOST));
            T::pack_vectors(v, &codes, block);
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

impl<T: Affine<BYTES>, const BYTES: usize> Task for Search<'_, T, BYTES> {
    type Output = ();

    #[inline(always)]
    fn run<V: Lanes>(self, v: V) {
        let blocks = Blocks::new(v, self.rows, self.importance);
        let size = Blocks::group::<V>();
        let values = self.rows.values.as_chunks::<ELEMENTS>().0.chunks(size);
        let groups = values.zip(self.out.as_chunks_mut::<BYTES>().0.chunks_mut(size));
        for (group, (values, out)) in groups.enumerate() {
            let found = blocks.weighted(v, &T::STEPS, group * size);
            for (at, (values, block)) in values.iter().zip(out).enumerate() {
                let codes = found.weighted_codes(v, i32::from(T::MOST), at, values);
                write_scales(found.scales[at], -found.offsets[at], block);
                T::pack_vectors(v, &codes, block);
            }
        }
    }
}
