//! A super-block of the IQ2 and IQ3 types: blocks with a scale of four bits each, groups with a point and signs.

use super::bundle::Encode;
use super::{ELEMENTS, Search};
use crate::number::{half, nearest_int};
use crate::simd::{Level, run};
use crate::types::Rows;
use apr_sdk::Result;

/// A scale for magnitudes and weights.
type FirstScale = fn(&[f32], &[f32]) -> f32;

/// How a type makes its super-blocks, in blocks of `G` groups of `D` elements.
pub struct Lattice<const D: usize, const G: usize> {
    /// How points and scale of a block are found.
    pub search: Search<D>,
    /// Whether the number of negative signs in eight elements must be even: then the element that matters least is flipped.
    pub even: bool,
    /// The mean square that is added under the root of a weight is multiplied by this.
    pub spread: f32,
    /// The weight of an element without importance is its square and so much of that mean square.
    pub floor: f32,
    /// Blocks whose greatest magnitude is lower than this are zero.
    pub least: f32,
    /// Finds the scale that the tries start from, of magnitudes and weights; where there is none, the tries start from the
    /// greatest magnitude.
    pub first_scale: Option<FirstScale>,
    /// What the stored scale is multiplied by.
    pub factor: f32,
    /// Writes a super-block.
    pub pack: fn(&Packed, &mut [u8]),
}

/// A super-block as numbers.
pub struct Packed {
    /// The scale.
    pub d: u16,
    /// The point of each group.
    pub points: [u16; 64],
    /// The signs of each eight elements.
    pub signs: [u8; ELEMENTS / 8],
    /// The scale of each block: `d * (2 * scale + 1)`.
    pub scales: [u8; 16],
    /// Whether no block has a scale: some types keep points and signs even then.
    pub is_zero: bool,
}

impl Packed {
    /// Nothing but zeros.
    pub const ZERO: Packed =
        Packed { d: 0, points: [0; 64], signs: [0; ELEMENTS / 8], scales: [0; 16], is_zero: true };
}

impl<const D: usize, const G: usize> Lattice<D, G> {
    /// Encodes rows into super-blocks of `bytes` bytes.
    ///
    /// # Errors
    /// Where ggml ends the process.
    pub fn encode(&self, rows: &Rows<'_>, bytes: usize, out: &mut [u8]) -> Result<()> {
        if rows.level != Level::Scalar {
            let encode = Encode { lattice: self, rows, bytes, out: &mut *out };
            if let Some(result) = run(rows.level, encode) {
                return result;
            }
        }
        let super_blocks = rows.values.as_chunks::<ELEMENTS>().0;
        let of_row = rows.row_len / ELEMENTS;
        for (n, (values, out)) in super_blocks.iter().zip(out.chunks_exact_mut(bytes)).enumerate() {
            let column = n % of_row * ELEMENTS;
            let importance = rows.importance.map(|all| &all[column..column + ELEMENTS]);
            (self.pack)(&self.super_block(values, importance)?, out);
        }
        Ok(())
    }

    fn super_block(&self, values: &[f32; ELEMENTS], importance: Option<&[f32]>) -> Result<Packed> {
        let squares = values.iter().fold(0.0, |sum, value| sum + value * value);
        let spread = self.spread * squares / 256.0;
        let mut packed = Packed::ZERO;
        let mut scales = [0.0; 16];
        let elements = D * G;
        for (block, scale) in scales.iter_mut().enumerate().take(ELEMENTS / elements) {
            let start = block * elements;
            let (points, signs) =
                (&mut packed.points[block * G..][..G], &mut packed.signs[start / 8..][..elements / 8]);
            let importance = importance.map(|all| &all[start..start + elements]);
            *scale = self.block(&values[start..start + elements], importance, spread, points, signs)?;
        }
        self.finish(&mut packed, &scales);
        Ok(packed)
    }

    /// Rounds the scales of blocks.
    pub fn finish(&self, packed: &mut Packed, scales: &[f32; 16]) {
        let most = scales.iter().fold(0.0, |most, scale| if *scale > most { *scale } else { most });
        if most != 0.0 {
            let d = most / 31.0;
            let inverse = 1.0 / d;
            packed.d = half(d * self.factor);
            packed.is_zero = false;
            for (code, scale) in packed.scales.iter_mut().zip(scales).take(ELEMENTS / (D * G)) {
                *code = nearest_int(0.5 * (inverse * scale - 1.0)).clamp(0, 15).to_le_bytes()[0];
            }
        }
    }

    /// Encodes a block; gives its scale.
    fn block(
        &self,
        values: &[f32],
        importance: Option<&[f32]>,
        spread: f32,
        points: &mut [u16],
        signs: &mut [u8],
    ) -> Result<f32> {
        let (mut magnitudes, mut weights) = ([[0.0; D]; G], [[0.0; D]; G]);
        for (i, (weight, value)) in weights.as_flattened_mut().iter_mut().zip(values).enumerate() {
            *weight = match importance {
                Some(importance) => importance[i] * (spread + value * value).sqrt(),
                None if self.floor == 0.0 => value * value,
                None => self.floor * spread + value * value,
            };
        }
        let mut found = [0; 4];
        let eights = magnitudes.as_flattened_mut().chunks_exact_mut(8).zip(values.chunks_exact(8));
        for (k, (magnitudes, values)) in eights.enumerate() {
            let weights = &weights.as_flattened()[8 * k..8 * k + 8];
            found[k] = self.split_signs(values, weights, magnitudes);
        }
        let flat = magnitudes.as_flattened();
        let max = flat.iter().fold(flat[0], |max, value| if max > *value { max } else { *value });
        if max < self.least || max == 0.0 {
            return Ok(0.0);
        }
        let (max, scale) = match self.first_scale {
            None => (max, max / self.search.highest()),
            Some(first_scale) => {
                let scale = first_scale(flat, weights.as_flattened());
                // What the highest level but half a step stands for.
                (scale * 3.0, scale)
            }
        };
        if max <= 0.0 {
            return Ok(0.0);
        }
        let fitted = self.search.fit(&magnitudes, &weights, max, scale)?;
        points.copy_from_slice(&fitted.points);
        for (sign, found) in signs.iter_mut().zip(found) {
            *sign = if fitted.scale < 0.0 { !found } else { found };
        }
        Ok(fitted.scale.abs())
    }

    /// Takes the signs off eight values.
    fn split_signs(&self, values: &[f32], weights: &[f32], magnitudes: &mut [f32]) -> u8 {
        let mut signs = 0;
        for (i, (magnitude, value)) in magnitudes.iter_mut().zip(values).enumerate() {
            let negative = *value < 0.0 || value.is_nan();
            *magnitude = if negative { -value } else { *value };
            signs |= u8::from(negative) << i;
        }
        if self.even && signs.count_ones() % 2 == 1 {
            let cost = |i: usize| weights[i] * values[i] * values[i];
            let flipped = (1..8).fold(0, |least, i| if cost(i) < cost(least) { i } else { least });
            magnitudes[flipped] = -magnitudes[flipped];
            signs ^= 1 << flipped;
        }
        signs
    }
}
