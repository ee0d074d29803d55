//! A codebook: its points, what they stand for, and which points are near each place that is none.

use super::Cells;
use std::sync::OnceLock;

/// A set of points of `D` coordinates, each one of a few levels. A *place* is any combination of levels: the number with
/// these digits, the first coordinate lowest. The coordinate's value in a search is `2 * level + 1`.
pub struct Codebook<const D: usize> {
    /// Bit `p % 32` of word `p / 32`: whether place `p` is a point.
    set: &'static [u32],
    /// What a decoder makes of each level.
    values: &'static [u8],
    /// How many different distances a place's near points have.
    distances: usize,
    points: OnceLock<Points<D>>,
    near: OnceLock<Near>,
    cells: OnceLock<Cells>,
    near_codes: OnceLock<Vec<u16>>,
}

/// The points in ascending order.
struct Points<const D: usize> {
    /// The levels of each.
    levels: Vec<[u8; D]>,
    /// What a decoder makes of each.
    values: Vec<[u8; D]>,
}

/// The near points of every place.
struct Near {
    /// Where each place's begin in `indices`, and at the end where the last ones end.
    starts: Vec<u32>,
    /// Indices of points: the nearest first, and of those that are as near, the lower index.
    indices: Vec<u16>,
}

impl<const D: usize> Codebook<D> {
    /// A codebook of a set of places.
    pub const fn new(set: &'static [u32], values: &'static [u8], distances: usize) -> Codebook<D> {
        Codebook {
            set,
            values,
            distances,
            points: OnceLock::new(),
            near: OnceLock::new(),
            cells: OnceLock::new(),
            near_codes: OnceLock::new(),
        }
    }

    /// How many levels a coordinate has.
    pub fn levels(&self) -> usize {
        self.values.len()
    }

    /// How many places there are.
    fn places(&self) -> usize {
        (0..D).fold(1, |places, _| places * self.levels())
    }

    /// The highest level.
    pub fn top(&self) -> u8 {
        // At most eight levels.
        (self.values.len() - 1).to_le_bytes()[0]
    }

    /// The place of levels.
    pub fn place(&self, levels: &[u8; D]) -> usize {
        levels.iter().rev().fold(0, |place, level| place * self.levels() + usize::from(*level))
    }

    /// The bits of a level in a code.
    pub fn bits(&self) -> usize {
        if self.top() < 4 { 2 } else { 3 }
    }

    /// Levels as a number with some bits for each.
    pub fn code(&self, levels: &[u8; D]) -> u16 {
        levels.iter().rev().fold(0, |code, level| code << self.bits() | u16::from(*level))
    }

    /// The points that can win in each cell.
    pub fn cells(&self) -> &Cells {
        self.cells.get_or_init(|| Cells::of(self))
    }

    /// The levels of every point, in order.
    pub fn all(&self) -> &[[u8; D]] {
        &self.points().levels
    }

    /// The levels of a point.
    pub fn point(&self, index: u16) -> &[u8; D] {
        &self.points().levels[usize::from(index)]
    }

    /// What a decoder makes of every point, in order.
    pub fn values(&self) -> &[[u8; D]] {
        &self.points().values
    }

    /// The points near a place, in the order in which ggml compares them: only itself if it is a point.
    pub fn near(&self, place: usize) -> &[u16] {
        let (start, end) = self.near_range(place);
        &self.near.get_or_init(|| self.find_near()).indices[start..end]
    }

    /// The codes of the points near all places, and more behind the last than any vector has lanes.
    pub fn near_codes(&self) -> &[u16] {
        self.near_codes.get_or_init(|| {
            let near = &self.near.get_or_init(|| self.find_near()).indices;
            let codes = near.iter().map(|index| self.code(self.point(*index)));
            codes.chain([0; 64]).collect()
        })
    }

    /// Where in [`Codebook::near_codes`] those of a place begin and end.
    pub fn near_range(&self, place: usize) -> (usize, usize) {
        let near = self.near.get_or_init(|| self.find_near());
        (near.starts[place] as usize, near.starts[place + 1] as usize)
    }

    /// The index of the point with these levels.
    pub fn index(&self, code: u16) -> u16 {
        let mask = (1 << self.bits()) - 1;
        let levels = std::array::from_fn(|i| (code >> (self.bits() * i) & mask).to_le_bytes()[0]);
        self.near(self.place(&levels))[0]
    }

    /// The levels of a place.
    fn levels_of(&self, place: usize) -> [u8; D] {
        let mut rest = place;
        std::array::from_fn(|_| {
            let level = (rest % self.levels()).to_le_bytes()[0];
            rest /= self.levels();
            level
        })
    }

    fn points(&self) -> &Points<D> {
        self.points.get_or_init(|| {
            let is_point = |place: &usize| self.set[place / 32] >> (place % 32) & 1 == 1;
            let places = (0..self.places()).filter(is_point);
            let levels: Vec<_> = places.map(|place| self.levels_of(place)).collect();
            let values = levels.iter().map(|l| l.map(|l| self.values[usize::from(l)])).collect();
            Points { levels, values }
        })
    }

    /// Finds the points at the least few distances of each place: sums of squares of differences of levels.
    fn find_near(&self) -> Near {
        let points = &self.points().levels;
        let mut distance = vec![0u16; points.len()];
        let mut near = Near { starts: vec![0], indices: Vec::new() };
        for place in 0..self.places() {
            let levels = self.levels_of(place);
            for (distance, point) in distance.iter_mut().zip(points) {
                let squares = point
                    .iter()
                    .zip(&levels)
                    .map(|(a, b)| u16::from(a.abs_diff(*b)) * u16::from(a.abs_diff(*b)));
                *distance = squares.sum();
            }
            let mut least = None;
            for _ in 0..self.distances {
                let farther = distance.iter().copied().filter(|d| least.is_none_or(|least| *d > least));
                let Some(next) = farther.min() else { break };
                let indices = (0u16..).zip(&distance).filter(|(_, d)| **d == next).map(|(index, _)| index);
                near.indices.extend(indices);
                if next == 0 {
                    break;
                }
                least = Some(next);
            }
            // Some hundred thousand at most.
            near.starts.push(u32::try_from(near.indices.len()).unwrap_or(u32::MAX));
        }
        near
    }
}

#[cfg(test)]
mod tests {
    use crate::grids::{IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS};

    #[test]
    fn codebooks_have_as_many_points_as_their_formats_have_numbers() {
        let sizes = [&IQ1, &IQ2_XXS, &IQ2_XS, &IQ2_S].map(|codebook| codebook.all().len());
        assert_eq!(sizes, [2048, 256, 512, 1024]);
        assert_eq!([&IQ3_XXS, &IQ3_S].map(|codebook| codebook.all().len()), [256, 512]);
    }

    #[test]
    fn a_point_is_near_itself_alone_and_found_by_its_code() {
        for (index, levels) in (0..).zip(IQ2_XS.all()) {
            assert_eq!(IQ2_XS.near(IQ2_XS.place(levels)), [index]);
            assert_eq!(IQ2_XS.index(IQ2_XS.code(levels)), index);
            assert_eq!(IQ2_XS.cells().index(IQ2_XS.code(levels)), index);
        }
    }
}
