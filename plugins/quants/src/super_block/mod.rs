//! What the K types share: super-blocks of 256 elements, each of sub-blocks with scales of their own.
//!
//! ```text
//! mod.rs       rows to super-blocks, one by one or as many at once as there are lanes
//! affine.rs    Q2_K, Q4_K, Q5_K: a scale and a minimum per sub-block
//! six_bits.rs  Q4_K, Q5_K: their coded scales and minima
//! symmetric.rs Q3_K, Q6_K: a scale per sub-block
//! codes.rs     the last rounding, and codes to bits
//! ```
//!
//! The vector forms run one search per lane, on as many sub-blocks at once, in the scalar form's order; two vectors side by
//! side keep the adders busy. The scales of the super-blocks are then searched with one super-block per lane.

pub mod affine;
pub mod codes;
pub mod six_bits;
pub mod symmetric;

use crate::simd::{Floats, Lanes, Task, run};
use crate::types::Rows;
use apr_sdk::Result;
use std::marker::PhantomData;

/// Elements of a super-block.
pub const ELEMENTS: usize = 256;
/// The most lanes of any level.
pub const MOST_LANES: usize = 16;

/// Super-blocks, one per lane.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    /// Their elements, one after another.
    pub values: &'a [f32],
    /// The importance of each.
    pub importance: Option<&'a [f32]>,
}

/// How a type is encoded.
pub trait SuperBlock {
    /// Bytes of a super-block.
    const BYTES: usize;

    /// Encodes one.
    fn encode(values: &[f32; ELEMENTS], importance: Option<&[f32; ELEMENTS]>, out: &mut [u8]);

    /// Encodes one per lane.
    fn encode_lanes<V: Lanes>(lanes: V, batch: Batch<'_>, out: &mut [u8]);
}

/// Encodes rows of a type, by lanes where the level has some.
pub fn encode<T: SuperBlock>(rows: &Rows<'_>, out: &mut [u8]) -> Result<()> {
    if run(rows.level, Batches::<T> { rows, out: &mut *out, of: PhantomData }).is_some() {
        return Ok(());
    }
    let blocks_of_row = rows.row_len / ELEMENTS;
    let importance = rows.importance.map(|importance| importance.as_chunks::<ELEMENTS>().0);
    for (number, (values, out)) in
        rows.values.as_chunks::<ELEMENTS>().0.iter().zip(out.chunks_exact_mut(T::BYTES)).enumerate()
    {
        T::encode(values, importance.map(|importance| &importance[number % blocks_of_row]), out);
    }
    Ok(())
}

/// All super-blocks of rows.
struct Batches<'a, T> {
    rows: &'a Rows<'a>,
    out: &'a mut [u8],
    of: PhantomData<T>,
}

impl<T: SuperBlock> Task for Batches<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Lanes>(self, v: V) {
        let size = V::COUNT * ELEMENTS;
        let mut importance = self.rows.importance.map(|_| vec![0.0f32; size]);
        let mut padded = Vec::new();
        let mut column = 0;
        for (values, out) in self.rows.values.chunks(size).zip(self.out.chunks_mut(V::COUNT * T::BYTES)) {
            if let (Some(to), Some(from)) = (&mut importance, self.rows.importance) {
                for to in to.chunks_exact_mut(ELEMENTS).take(values.len() / ELEMENTS) {
                    to.copy_from_slice(&from[column..column + ELEMENTS]);
                    column = (column + ELEMENTS) % self.rows.row_len;
                }
            }
            if values.len() == size {
                T::encode_lanes(v, Batch { values, importance: importance.as_deref() }, out);
            } else {
                // The last, which is not full: zeros in the lanes that are left, and their blocks thrown away.
                padded.extend_from_slice(values);
                padded.resize(size, 0.0);
                let mut blocks = vec![0; V::COUNT * T::BYTES];
                let batch = Batch { values: &padded, importance: importance.as_deref() };
                T::encode_lanes(v, batch, &mut blocks);
                out.copy_from_slice(&blocks[..out.len()]);
            }
        }
    }
}

/// The sum of the squares of a super-block.
pub fn sum_of_squares(values: &[f32; ELEMENTS]) -> f32 {
    values.iter().fold(0.0, |sum, value| sum + value * value)
}

/// The sum of the squares of each super-block of a batch, in its lane.
#[inline(always)]
pub fn sums_of_squares<V: Lanes>(v: V, values: &[f32]) -> V::Floats {
    let mut sum = v.floats(0.0);
    for start in (0..ELEMENTS).step_by(16) {
        let mut columns = [v.floats(0.0); 16];
        v.columns(&values[start..], ELEMENTS, &mut columns);
        for value in columns {
            sum = sum + value * value;
        }
    }
    sum
}

/// The importance of an element as a weight: more of it where the element is large beside its super-block.
///
/// `sigma2` is the mean square of the super-block, or twice that.
pub fn weigh(importance: &[f32], values: &[f32], sigma2: f32, weights: &mut [f32]) {
    for ((weight, importance), value) in weights.iter_mut().zip(importance).zip(values) {
        *weight = importance * (sigma2 + value * value).sqrt();
    }
}

/// [`weigh`] for sub-blocks in lanes; makes weights of what is importance.
#[inline(always)]
pub fn weigh_lanes<V: Lanes, const N: usize>(
    weights: &mut [V::Floats; N],
    values: &[V::Floats; N],
    sigma2: V::Floats,
) {
    for (weight, value) in weights.iter_mut().zip(values) {
        *weight = *weight * (sigma2 + *value * *value).sqrt();
    }
}
