//! How an image lies. It has the bytes of the plain rows in another order: the 2 or 4 bytes of a field of a block, for
//! 16 rows one after the other, so that a vector register holds a row in each lane.
//!
//! ```text
//! image      bands of tiles; the last may have fewer tiles
//! band       along the columns: a group of blocks of its first tile, of its second, ...; the next group of each, ...
//! tile       16 rows; rows beyond the last are zero
//! group      heads of all its blocks, field by field; then the bodies, block by block. The last may have fewer blocks
//! ```
//!
//! A row of activations is read once for each band. Reloading what has left the L1 cache disturbs the hardware's prefetching of
//! the image: with single tiles of 4096 columns, an eighth of the memory bandwidth is lost.

/// Rows of a tile.
pub const ROWS: usize = 16;

/// Tiles of a band of super-blocks.
pub const BAND: usize = 4;

/// The largest tile, in bytes, that leaves a row of activations in the L1 cache: such matrices have one tile per band.
const SHORT: usize = 20 << 10;

/// Units of a block that follow one another.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Where the first lies in a plain block.
    pub offset: usize,
    /// Bytes of a unit: 2 or 4.
    pub unit: usize,
    /// How many there are.
    pub count: usize,
}

impl Field {
    /// A field of `count` units of 2 bytes.
    pub const fn halves(offset: usize, count: usize) -> Field {
        Field { offset, unit: 2, count }
    }

    /// A field of `count` units of 4 bytes.
    pub const fn words(offset: usize, count: usize) -> Field {
        Field { offset, unit: 4, count }
    }
}

/// The order in which the bytes of a type lie.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Elements of a block.
    pub elements: usize,
    /// Bytes of a plain block.
    pub bytes: usize,
    /// Blocks of a group: so many that groups are whole lines of the cache.
    pub group: usize,
    /// Tiles of a band of long rows; a type whose kernel takes one tile at a time has bands of one.
    pub band: usize,
    /// The fields that lie together for all blocks of a group.
    pub heads: &'static [Field],
    /// The fields that lie block by block.
    pub body: &'static [Field],
}

impl Layout {
    /// Tiles of a band of a matrix with such rows.
    pub fn tiles_of_a_band(&self, row_bytes: usize) -> usize {
        if ROWS * row_bytes <= SHORT { 1 } else { self.band }
    }

    /// Copies the plain rows of a band, or fewer for the last, into their place.
    pub fn scatter(&self, rows: &[u8], row_bytes: usize, image: &mut [u8]) {
        let tiles = image.len() / (ROWS * row_bytes);
        for (tile, rows) in rows.chunks(ROWS * row_bytes).enumerate() {
            self.each_run(row_bytes / self.bytes, (tile, tiles), |run| match run.unit {
                2 => run.scatter::<2>(rows, row_bytes, image),
                _ => run.scatter::<4>(rows, row_bytes, image),
            });
        }
    }

    /// Copies a row of a band back.
    pub fn gather(&self, image: &[u8], row: usize, plain: &mut [u8]) {
        let tiles = image.len() / (ROWS * plain.len());
        self.each_run(plain.len() / self.bytes, (row / ROWS, tiles), |run| match run.unit {
            2 => run.gather::<2>(image, row % ROWS, plain),
            _ => run.gather::<4>(image, row % ROWS, plain),
        });
    }

    /// Calls with each run of units of a plain row of `blocks` blocks, in the order of the image of a tile of several.
    fn each_run(&self, blocks: usize, (tile, tiles): (usize, usize), mut call: impl FnMut(Run)) {
        if let ([], [Field { offset: 0, unit, count: 1 }], 1) = (self.heads, self.body, self.group) {
            // All blocks are one run.
            return call(Run { at: 0, unit: *unit, count: blocks, place: 0 });
        }
        for first in (0..blocks).step_by(self.group) {
            let group = first..blocks.min(first + self.group);
            let mut place = (first * tiles + group.len() * tile) * self.bytes * ROWS;
            let mut field = |block: usize, field: &Field| {
                let at = block * self.bytes + field.offset;
                call(Run { at, unit: field.unit, count: field.count, place });
                place += ROWS * field.unit * field.count;
            };
            for head in self.heads {
                group.clone().for_each(|block| field(block, head));
            }
            for block in group {
                self.body.iter().for_each(|body| field(block, body));
            }
        }
    }
}

/// Units that follow one another, in a plain row and, for 16 rows each, in an image.
struct Run {
    /// Where they begin in a plain row.
    at: usize,
    /// Bytes of one.
    unit: usize,
    /// How many there are.
    count: usize,
    /// Where they begin in the image.
    place: usize,
}

/// Units copied from each row in turn: few enough that their destination stays in the L1 cache.
const AT_ONCE: usize = 32;

impl Run {
    /// Copies units of `U` bytes of up to 16 rows into the image.
    fn scatter<const U: usize>(&self, rows: &[u8], row_bytes: usize, image: &mut [u8]) {
        let image = image[self.place..][..ROWS * U * self.count].as_chunks_mut::<U>().0;
        for (n, image) in image.chunks_mut(ROWS * AT_ONCE).enumerate() {
            let units = image.len() / ROWS;
            for (row, plain) in rows.chunks_exact(row_bytes).enumerate() {
                let plain = plain[self.at + n * AT_ONCE * U..][..units * U].as_chunks::<U>().0;
                for (to, from) in image[row..].iter_mut().step_by(ROWS).zip(plain) {
                    *to = *from;
                }
            }
        }
    }

    /// Copies units of `U` bytes of a row back.
    fn gather<const U: usize>(&self, image: &[u8], row: usize, plain: &mut [u8]) {
        let image = image[self.place..][..ROWS * U * self.count].as_chunks::<U>().0;
        let plain = plain[self.at..][..U * self.count].as_chunks_mut::<U>().0;
        for (to, from) in plain.iter_mut().zip(image[row..].iter().step_by(ROWS)) {
            *to = *from;
        }
    }
}
