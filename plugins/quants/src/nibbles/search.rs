//! The searches of the types of 32 elements where importance is known, in vectors: two for each lane at once. No closures
//! here: they would not be compiled for the level's instructions.

use super::ELEMENTS;
use super::lanes::Vectors;
use crate::search::{Error, Steps, lanes};
use crate::simd::{Floats, Ints, Lanes, Mask};
use crate::types::Rows;
use crate::weights::mean_square;

/// The most blocks that are searched at once.
const MOST: usize = 32;

/// Blocks in two vectors a column.
type Columns<F> = [[F; ELEMENTS]; 2];

/// The blocks of whole rows, and what weighs their elements.
pub struct Blocks<'a> {
    blocks: &'a [[f32; ELEMENTS]],
    importance: &'a [[f32; ELEMENTS]],
    /// Of each row.
    mean_squares: Vec<f32>,
}

/// What was found for each block of a group.
pub struct Found {
    /// The scale.
    pub scales: [f32; MOST],
    /// What is taken away.
    pub offsets: [f32; MOST],
    /// The codes are those of `inverse * (element - from)`.
    inverses: [f32; MOST],
    from: [f32; MOST],
    /// A bit for each block: its codes are all 0, or those of a first try, which are not guarded.
    special: u64,
}

impl<'a> Blocks<'a> {
    /// The blocks of rows, and the importance of a row.
    #[inline(always)]
    pub fn new<V: Lanes>(v: V, rows: &Rows<'a>, importance: &'a [f32]) -> Blocks<'a> {
        let mut mean_squares = Vec::with_capacity(rows.values.len() / rows.row_len);
        for rows_of_group in rows.values.chunks(rows.row_len * V::COUNT) {
            if rows_of_group.len() < rows.row_len * V::COUNT {
                mean_squares.extend(rows_of_group.chunks_exact(rows.row_len).map(mean_square));
                break;
            }
            let mut sum = v.floats(0.0);
            for start in (0..rows.row_len).step_by(ELEMENTS) {
                let mut columns = [sum; ELEMENTS];
                v.columns(&rows_of_group[start..], rows.row_len, &mut columns);
                for value in columns {
                    sum = sum + value * value;
                }
            }
            let mut sums = [0.0; MOST];
            sum.store(&mut sums);
            #[allow(clippy::cast_precision_loss, reason = "as ggml has it")]
            mean_squares.extend(sums[..V::COUNT].iter().map(|sum| sum / rows.row_len as f32));
        }
        let (blocks, importance) = (rows.values.as_chunks().0, importance.as_chunks().0);
        Blocks { blocks, importance, mean_squares }
    }

    /// How many blocks are searched at once.
    pub fn group<V: Lanes>() -> usize {
        2 * V::COUNT
    }

    /// Elements and weights of the group that starts at a block; zeros behind the last.
    #[inline(always)]
    fn columns<V: Lanes>(&self, v: V, start: usize) -> (Columns<V::Floats>, Columns<V::Floats>) {
        let (mut values, mut importance) = ([[0.0; ELEMENTS]; MOST], [[0.0; ELEMENTS]; MOST]);
        let mut mean_squares = [0.0; MOST];
        for (at, of_block) in self.blocks[start..].iter().enumerate().take(2 * V::COUNT) {
            let number = start + at;
            values[at] = *of_block;
            importance[at] = self.importance[number % self.importance.len()];
            mean_squares[at] = self.mean_squares[number / self.importance.len()];
        }
        let zeros = [[v.floats(0.0); ELEMENTS]; 2];
        let (mut columns, mut weights) = (zeros, zeros);
        for half in 0..2 {
            let first = half * V::COUNT;
            v.columns(values[first..].as_flattened(), ELEMENTS, &mut columns[half]);
            v.columns(importance[first..].as_flattened(), ELEMENTS, &mut weights[half]);
            let mean_square = v.load(&mean_squares[first..]);
            for (weight, value) in weights[half].iter_mut().zip(&columns[half]) {
                *weight = *weight * (mean_square + *value * *value).sqrt();
            }
        }
        (columns, weights)
    }

    /// `search::symmetric` of the group that starts at a block.
    #[inline(always)]
    pub fn symmetric<V: Lanes>(&self, v: V, most: i32, start: usize) -> Found {
        let (values, weights) = self.columns(v, start);
        let halves = lanes::symmetric::<V, ELEMENTS, 2>(v, most, values, &weights);
        let mut found = Found::new();
        for (half, of_half) in halves.iter().enumerate() {
            let first = half * V::COUNT;
            of_half.scale.store(&mut found.scales[first..]);
            of_half.inverse.store(&mut found.inverses[first..]);
            found.special |= u64::from(of_half.zero.bits()) << first;
        }
        found
    }

    /// `search::weighted` of the group that starts at a block.
    #[inline(always)]
    pub fn weighted<V: Lanes>(&self, v: V, steps: &Steps, start: usize) -> Found {
        let (values, weights) = self.columns(v, start);
        let halves = lanes::affine::<V, ELEMENTS, 2>(v, steps, Error::Square, true, &values, &weights);
        let mut found = Found::new();
        for (half, of_half) in halves.iter().enumerate() {
            let first = half * V::COUNT;
            of_half.scale.store(&mut found.scales[first..]);
            of_half.offset.store(&mut found.offsets[first..]);
            of_half.inverse.store(&mut found.inverses[first..]);
            of_half.from.store(&mut found.from[first..]);
            found.special |= u64::from(of_half.first.bits()) << first;
        }
        found
    }
}

impl Found {
    #[inline(always)]
    fn new() -> Found {
        let zeros = [0.0; MOST];
        Found { scales: zeros, offsets: zeros, inverses: zeros, from: zeros, special: 0 }
    }

    /// The codes of a block of the group after [`Blocks::symmetric`].
    #[inline(always)]
    pub fn symmetric_codes<V: Lanes>(
        &self,
        v: V,
        most: i32,
        at: usize,
        values: &[f32; ELEMENTS],
    ) -> Vectors<V::Ints> {
        let mut codes = [v.ints(0); 4];
        if self.special >> at & 1 == 1 {
            return codes;
        }
        let inverse = v.floats(self.inverses[at]);
        for (code, values) in codes.iter_mut().zip(values.chunks_exact(V::COUNT)) {
            let nearest = (inverse * v.load(values)).nearest_int();
            *code = nearest.min(v.ints(most - 1)).max(v.ints(-most)) + v.ints(most);
        }
        codes
    }

    /// The codes of a block of the group after [`Blocks::weighted`].
    #[inline(always)]
    pub fn weighted_codes<V: Lanes>(
        &self,
        v: V,
        most: i32,
        at: usize,
        values: &[f32; ELEMENTS],
    ) -> Vectors<V::Ints> {
        let (inverse, from) = (v.floats(self.inverses[at]), v.floats(self.from[at]));
        let guarded = self.special >> at & 1 == 0;
        let mut codes = [v.ints(0); 4];
        for (code, values) in codes.iter_mut().zip(values.chunks_exact(V::COUNT)) {
            let mut place = inverse * (v.load(values) - from);
            if guarded {
                // 0 also for what is no number.
                let above = place.more(v.floats(0.0));
                place = above.pick(place.min(v.ints(most).to_floats()), v.floats(0.0));
            }
            *code = place.nearest_int().min(v.ints(most)).max(v.ints(0));
        }
        codes
    }
}
