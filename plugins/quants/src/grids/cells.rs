//! Which points of a codebook can be nearest, by where a group's magnitudes lie between the levels.
//!
//! A search compares the points near a place by sums of one term per coordinate, `root * (scale * q − x)²`. Where `x / scale`
//! lies between two neighbouring whole numbers, it is known which levels of this coordinate have lesser terms: the halves
//! between levels are whole. Rounding does not change that unless `x / scale` is next to a whole number. All operations are
//! monotonic, so a point whose level is nowhere farther than that of a later point has a sum that is not greater, and the
//! later one never wins. What is left is exactly what the published search can find: a sixth of the points, or less.
//!
//! A *cell* is the whole part of `x / scale − 1` of every coordinate, kept between the halves that matter: two bits each for
//! eight coordinates of three levels, four bits each for four coordinates of eight.

use super::Codebook;

/// The points that can win in each cell. A point's *code* is its levels: two bits each, or three.
pub struct Cells {
    /// Where each cell's begin in `codes`, and [`Cells::OFF`] if the place that it rounds to is no point.
    starts: Vec<u32>,
    /// Codes, in the order in which they are compared; more behind the last than any vector has lanes.
    codes: Vec<u16>,
    /// The index of the point of each code.
    indices: Vec<u16>,
}

impl Cells {
    /// The flag of cells that round to a place off the codebook.
    pub const OFF: u32 = 1 << 31;
    /// How many cells there are.
    pub const COUNT: usize = 1 << 16;

    /// The codes that can win in a cell begin here, end there; whether the cell is off the codebook.
    #[inline(always)]
    pub fn range(&self, cell: u16) -> (usize, usize, bool) {
        let cell = usize::from(cell);
        let (start, end) = (self.starts[cell], self.starts[cell + 1] & !Self::OFF);
        ((start & !Self::OFF) as usize, end as usize, start & Self::OFF != 0)
    }

    /// All codes.
    #[inline(always)]
    pub fn codes(&self) -> &[u16] {
        &self.codes
    }

    /// The index of the point of a code.
    #[inline(always)]
    pub fn index(&self, code: u16) -> u16 {
        self.indices[usize::from(code)]
    }

    /// The cells of a codebook.
    pub fn of<const D: usize>(codebook: &Codebook<D>) -> Cells {
        let mut cells = Cells {
            starts: Vec::with_capacity(Self::COUNT + 1),
            codes: Vec::new(),
            indices: vec![0; 1 << (D * codebook.bits())],
        };
        for (index, levels) in (0..).zip(codebook.all()) {
            cells.indices[usize::from(codebook.code(levels))] = index;
        }
        let bits = 16 / D;
        let most = 2 * usize::from(codebook.top()) - 1;
        let mut kept = Vec::new();
        for cell in 0..Self::COUNT {
            let digits: [usize; D] = std::array::from_fn(|i| cell >> (bits * i) & ((1 << bits) - 1));
            // A few million at most.
            let start = u32::try_from(cells.codes.len()).unwrap_or(u32::MAX);
            if digits.iter().any(|digit| *digit > most) {
                cells.starts.push(start);
                continue;
            }
            // Of three levels at most seven.
            let levels = digits.map(|digit| digit.div_ceil(2).to_le_bytes()[0]);
            let near = codebook.near(codebook.place(&levels));
            let off = *codebook.point(near[0]) != levels;
            kept.clear();
            for index in near {
                let point = codebook.point(*index);
                let ranks = ranks(&digits, point);
                // No byte of an earlier one's ranks is greater.
                const HIGH: u64 = 0x8080_8080_8080_8080;
                if kept.iter().all(|earlier| ((ranks | HIGH) - earlier) & HIGH != HIGH) {
                    kept.push(ranks);
                    cells.codes.push(codebook.code(point));
                }
            }
            cells.starts.push(if off { start | Self::OFF } else { start });
        }
        cells.starts.push(u32::try_from(cells.codes.len()).unwrap_or(u32::MAX));
        cells.codes.extend([0; 64]);
        cells
    }
}

/// In each byte how far a level is from the middle of the cell, in quarters.
fn ranks<const D: usize>(digits: &[usize; D], levels: &[u8; D]) -> u64 {
    let rank = |(digit, level): (&usize, &u8)| (4 * usize::from(*level)).abs_diff(2 * digit + 1) as u64;
    digits.iter().zip(levels).map(rank).rev().fold(0, |ranks, rank| ranks << 8 | rank)
}
