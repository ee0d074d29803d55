//! The nearest point of a group, with candidates side by side: one lane runs the sum of one candidate, in order.

use crate::simd::{Floats, Ints, Lanes, Mask};

/// Levels of all coordinates: eight of three, with room for four, or four of eight.
pub const TERMS: usize = 32;

/// A value of each coordinate, as often as a coordinate has levels, or room for them.
#[inline(always)]
pub fn spread_out<const D: usize>(values: &[f32; D]) -> [f32; TERMS] {
    let mut out = [0.0; TERMS];
    for (out, value) in out.chunks_exact_mut(TERMS / D).zip(values) {
        out.fill(*value);
    }
    out
}

/// Finds nearest points.
pub struct Finder<'a, V: Lanes> {
    lanes: V,
    /// All codes: more behind the last that is used than any vector has lanes.
    codes: &'a [u16],
    /// What each lane's level is worth.
    worths: [V::Floats; TERMS / 8],
}

impl<'a, V: Lanes> Finder<'a, V> {
    /// A finder among codes of points.
    #[inline(always)]
    pub fn new<const D: usize>(lanes: V, codes: &'a [u16]) -> Self {
        let mut worths = [lanes.floats(0.0); TERMS / 8];
        for (part, worth) in worths.iter_mut().enumerate() {
            // Numbers below 64.
            let number = lanes.ints(i32::from((part * V::COUNT).to_le_bytes()[0])) + lanes.numbers();
            let level = number & lanes.ints(i32::from((TERMS / D - 1).to_le_bytes()[0]));
            *worth = (level + level + lanes.ints(1)).to_floats();
        }
        Finder { lanes, codes, worths }
    }

    /// The levels' worth at a scale, to be handed to [`Finder::terms`].
    #[inline(always)]
    pub fn scaled(&self, scale: f32) -> [V::Floats; TERMS / 8] {
        // A loop, not `map`: its closure would not be compiled for the level's instructions.
        let mut scaled = self.worths;
        for worth in &mut scaled {
            *worth = self.lanes.floats(scale) * *worth;
        }
        scaled
    }

    /// The same for three levels that are worth something else.
    #[inline(always)]
    pub fn scaled_steps(&self, scale: f32, steps: &[f32; 3]) -> [V::Floats; TERMS / 8] {
        let [low, middle, high] = *steps;
        [self.lanes.floats(scale) * self.lanes.four(&[low, middle, high, 0.0]); TERMS / 8]
    }

    /// The code of the nearest of the candidates from `start` to `end`, if these are no more than [`Finder::at_once`] looks
    /// at; and whether they are more, or all are infinitely far. Without a branch: none could be foretold.
    #[inline(always)]
    pub fn at_once<const D: usize>(&self, (start, end): (usize, usize), terms: &[f32; TERMS]) -> (u16, bool) {
        // Most cells of three levels have less than 16 candidates, most of eight less than 8.
        let vectors = (2 * D / V::COUNT).max(1);
        let mut distances = [self.lanes.floats(f32::MAX); 2];
        for (n, distance) in distances.iter_mut().enumerate().take(vectors) {
            *distance = self.distances::<D>(start + n * V::COUNT, end, terms);
        }
        let least = if vectors > 1 { distances[0].min(distances[1]).least() } else { distances[0].least() };
        let hits = |n: usize| distances[n].equals(self.lanes.floats(least)).bits();
        let hits = if vectors > 1 { hits(0) | hits(1) << V::COUNT } else { hits(0) };
        let code = self.codes[start + hits.trailing_zeros() as usize];
        (code, (end - start > vectors * V::COUNT) | (least >= f32::MAX))
    }

    /// The code of the nearest of the candidates from `start` to `end`; none if all are infinitely far.
    #[inline(always)]
    pub fn in_turn<const D: usize>(&self, (start, end): (usize, usize), terms: &[f32; TERMS]) -> Option<u16> {
        let mut best = (f32::MAX, None);
        for at in (start..end).step_by(V::COUNT) {
            let distances = self.distances::<D>(at, end, terms);
            let least = distances.least();
            if least < best.0 {
                let first = distances.equals(self.lanes.floats(least)).first();
                best = (least, first.map(|first| self.codes[at + first]));
            }
        }
        best.1
    }

    /// What each level of each coordinate adds to a distance, from [`spread_out`] values and roots.
    #[inline(always)]
    pub fn terms(
        &self,
        scaled: &[V::Floats; TERMS / 8],
        values: &[f32; TERMS],
        roots: &[f32; TERMS],
    ) -> [f32; TERMS] {
        let mut terms = [0.0; TERMS];
        for (at, scaled) in (0..TERMS).step_by(V::COUNT).zip(scaled) {
            let difference = *scaled - self.lanes.load(&values[at..]);
            (self.lanes.load(&roots[at..]) * difference * difference).store(&mut terms[at..]);
        }
        terms
    }

    /// The distances of as many candidates as there are lanes, from `at`; from `end` on the greatest number.
    #[inline(always)]
    fn distances<const D: usize>(&self, at: usize, end: usize, terms: &[f32; TERMS]) -> V::Floats {
        let lanes = self.lanes;
        let codes = lanes.load_halves(&self.codes[at..]);
        let mut distance = self.term::<D>(terms, codes, 0);
        for coordinate in 1..D {
            distance = distance + self.term::<D>(terms, codes, coordinate);
        }
        // Below 2 to the 24th both: the cells of a codebook have some million codes.
        let int = |at: usize| {
            let [a, b, c, d, ..] = at.to_le_bytes();
            i32::from_le_bytes([a, b, c, d])
        };
        lanes.ints(int(end) - int(at)).more(lanes.numbers()).pick(distance, lanes.floats(f32::MAX))
    }

    /// The terms of a coordinate for the levels that codes have there.
    #[inline(always)]
    fn term<const D: usize>(&self, terms: &[f32; TERMS], codes: V::Ints, coordinate: usize) -> V::Floats {
        let coordinate_u32 = u32::from(coordinate.to_le_bytes()[0]);
        if D == 8 {
            let four = &terms.as_chunks::<4>().0[coordinate];
            self.lanes.of_four(self.lanes.four(four), codes.shift_right(2 * coordinate_u32))
        } else {
            let eight = &terms.as_chunks::<8>().0[coordinate];
            self.lanes.of_eight(self.lanes.eight(eight), codes.shift_right(3 * coordinate_u32))
        }
    }
}
