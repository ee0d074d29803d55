//! How an image lies. It has the bytes of the plain rows in another order: the 2 or 4 bytes of a field of a block, for
//! 16 rows one after the other, so that a vector register holds a row in each lane.
//!
//! ```text
//! image      16 rows, the next 16 rows, ...; rows beyond the last are zero
//! 16 rows    groups of blocks along the columns; the last group may have fewer blocks
//! group      heads of all its blocks, field by field; then the bodies, block by block
//! ```

/// Rows that lie together.
pub const ROWS: usize = 16;

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
    /// The fields that lie together for all blocks of a group.
    pub heads: &'static [Field],
    /// The fields that lie block by block.
    pub body: &'static [Field],
}

impl Layout {
    /// Copies 16 plain rows, or fewer, into their place.
    pub fn scatter(&self, rows: &[u8], row_bytes: usize, image: &mut [u8]) {
        self.each_unit(row_bytes / self.bytes, |at, unit, place| {
            for (row, plain) in rows.chunks_exact(row_bytes).enumerate() {
                let to = place + row * unit;
                image[to..to + unit].copy_from_slice(&plain[at..at + unit]);
            }
        });
    }

    /// Copies a row of the 16 back.
    pub fn gather(&self, image: &[u8], row: usize, plain: &mut [u8]) {
        self.each_unit(plain.len() / self.bytes, |at, unit, place| {
            let from = place + row * unit;
            plain[at..at + unit].copy_from_slice(&image[from..from + unit]);
        });
    }

    /// Calls with each unit's offset in a plain row of `blocks` blocks, its bytes, and the place of its 16 in the image.
    fn each_unit(&self, blocks: usize, mut call: impl FnMut(usize, usize, usize)) {
        let mut place = 0;
        let mut field = |block: usize, field: &Field| {
            for n in 0..field.count {
                call(block * self.bytes + field.offset + n * field.unit, field.unit, place);
                place += ROWS * field.unit;
            }
        };
        for first in (0..blocks).step_by(self.group) {
            let group = first..blocks.min(first + self.group);
            for head in self.heads {
                group.clone().for_each(|block| field(block, head));
            }
            for block in group {
                self.body.iter().for_each(|body| field(block, body));
            }
        }
    }
}
