//! Codes and scales that do not lie row after row: where those of some rows are, and how they are put into rows.
//!
//! ```text
//! tiles    scales [rows, columns] in tiles of 128 by 4, filled up, tile after tile along the rows; in a tile, the place of
//!          row r and column c is r % 32 * 16 + r / 32 * 4 + c
//! upper first  the same, and pairs of codes with the upper bits of a byte first
//! columns  codes and scales of each matrix column after column: [bytes of a row, rows], [scales of a row, rows]
//! blocks   ggml's NVFP4, one part: four scales and 32 bytes of codes for each 64 elements; byte 8 * s + j has elements j and
//!          j + 8 of the 16 that share scale s
//! ```
//!
//! Sources: "1D block scaling factors layout" in the manual of cuBLAS, `to_blocked` in `prototype/mx_formats/utils.py` of torchao
//! 0.18; `pack_uint4` and `to_blocked` in `float_utils.py` of comfy-kitchen 0.2; `maybe_transpose_expert_weight_dimensions` in `modelopt/torch/export/quant_utils.py` of Model Optimizer.

use super::Grid;
use crate::blocks::NVFP4_BYTES;
use crate::layout::{index, too_short};
use apr_sdk::{DType, HeldRows, PartBox, PartRange, Result};
use std::borrow::Cow;
use std::ops::Range;

/// How codes and scales lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arranged {
    /// Row after row.
    Rows,
    /// Scales in tiles, codes row after row.
    Tiles,
    /// Likewise, and of two codes in a byte the upper bits are the first.
    UpperFirst,
    /// Both column after column.
    Columns,
    /// Both in one part, as blocks of NVFP4.
    Blocks,
}

/// All of them, in the order of the numbers that stand for them.
const ALL: [Arranged; 5] =
    [Arranged::Rows, Arranged::Tiles, Arranged::Columns, Arranged::Blocks, Arranged::UpperFirst];

impl Arranged {
    /// The number that stands for it.
    pub fn number(self) -> u64 {
        ALL.iter().position(|one| *one == self).map_or(0, |at| at as u64)
    }

    /// What a number stands for.
    pub fn of_number(number: u64) -> Arranged {
        usize::try_from(number).ok().and_then(|at| ALL.get(at)).copied().unwrap_or(Arranged::Rows)
    }

    /// Whether scales lie in tiles.
    fn is_tiled(self) -> bool {
        matches!(self, Arranged::Tiles | Arranged::UpperFirst)
    }
}

/// Elements of a block of NVFP4.
const OF_BLOCK: u64 = 64;

/// Rows and columns of a tile, and its scales.
const TILE: (u64, u64, u64) = (128, 4, 512);

/// Tiles that cover so many rows and columns of scales.
pub fn tiles(rows: u64, columns: u64) -> u64 {
    rows.div_ceil(TILE.0).saturating_mul(columns.div_ceil(TILE.1))
}

/// Scales in tiles that cover so many rows and columns of scales.
pub fn tiled(rows: u64, columns: u64) -> u64 {
    tiles(rows, columns).saturating_mul(TILE.2)
}

/// The sides of a matrix that is as large as the tiles which cover so many rows and columns of scales.
pub fn tile_sides(rows: u64, columns: u64) -> [u64; 2] {
    [rows.next_multiple_of(TILE.0), columns.next_multiple_of(TILE.1)]
}

impl Grid {
    /// Where the codes of rows are.
    pub(super) fn place_of_codes(&self, rows: &Range<u64>) -> PartRange {
        let bytes = self.code_bytes();
        let n = rows.end.saturating_sub(rows.start);
        match self.arranged {
            Arranged::Columns => return self.in_columns(rows, bytes),
            Arranged::Blocks => {
                let blocks = self.row_len / OF_BLOCK;
                return PartRange::Boxes(vec![PartBox::run(rows.start * blocks, n * blocks)]);
            }
            Arranged::Rows | Arranged::Tiles | Arranged::UpperFirst => {}
        }
        PartRange::Boxes(vec![PartBox::run(rows.start * bytes / self.unit, n * bytes / self.unit)])
    }

    /// Where the scales of rows are.
    pub(super) fn place_of_scales(&self, rows: &Range<u64>) -> PartRange {
        let columns = self.scale_columns();
        let run = |start: u64, len: u64| PartRange::Boxes(vec![PartBox::run(start, len)]);
        if self.are_scales_turned() {
            return self.in_columns(rows, columns);
        }
        let scale_rows = self.scale_rows_of(rows);
        if self.arranged.is_tiled() {
            let (first, last) = (scale_rows.start / TILE.0, scale_rows.end.div_ceil(TILE.0));
            let of_row = tiled(1, columns);
            return run(first * of_row, last.saturating_sub(first) * of_row);
        }
        run(scale_rows.start * columns, (scale_rows.end - scale_rows.start) * columns)
    }

    /// The rows of scales that rows need.
    pub(super) fn scale_rows_of(&self, rows: &Range<u64>) -> Range<u64> {
        let first = self.scale_row(rows.start);
        first..if rows.end <= rows.start { first } else { self.scale_row(rows.end - 1) + 1 }
    }

    /// The codes of some of the rows held, row after row.
    pub(super) fn codes_of<'a>(&self, held: &HeldRows<'a>, rows: &Range<u64>) -> Result<Cow<'a, [u8]>> {
        let part = held.parts.first().copied().unwrap_or_default();
        let bytes = self.code_bytes();
        match self.arranged {
            Arranged::Columns => self.turned(part, (&held.rows, rows), index(bytes), 1).map(Cow::Owned),
            Arranged::Blocks => self.blocks_of(held, rows).map(|blocks| Cow::Owned(codes_of_blocks(blocks))),
            Arranged::Rows | Arranged::Tiles => bytes_of(part, &held.rows, rows, bytes).map(Cow::Borrowed),
            Arranged::UpperFirst => {
                let pairs = bytes_of(part, &held.rows, rows, bytes)?;
                Ok(Cow::Owned(pairs.iter().map(|pair| pair.rotate_left(4)).collect()))
            }
        }
    }

    /// The scales of some of the rows held, row after row.
    pub(super) fn scales_of<'a>(&self, held: &HeldRows<'a>, rows: &Range<u64>) -> Result<Cow<'a, [u8]>> {
        let part = held.parts.get(1).copied().unwrap_or_default();
        let columns = self.scale_columns();
        if self.are_scales_turned() {
            let each = self.scales.require()?.block_bytes as usize;
            return self.turned(part, (&held.rows, rows), index(columns), each).map(Cow::Owned);
        }
        match self.arranged {
            Arranged::Tiles | Arranged::UpperFirst => {
                let (held, rows) = (self.scale_rows_of(&held.rows), self.scale_rows_of(rows));
                untiled(part, (&held, &rows), index(columns)).map(Cow::Owned)
            }
            Arranged::Blocks => self.blocks_of(held, rows).map(|blocks| Cow::Owned(scales_of_blocks(blocks))),
            Arranged::Rows | Arranged::Columns => {
                self.in_scale_rows(part, self.scales, &held.rows, rows).map(Cow::Borrowed)
            }
        }
    }

    /// What lies as scales do, such as zero points, of some of the rows held.
    pub(super) fn in_scale_rows<'a>(
        &self,
        part: &'a [u8],
        dtype: DType,
        held: &Range<u64>,
        rows: &Range<u64>,
    ) -> Result<&'a [u8]> {
        let bytes = self.scale_columns() * u64::from(dtype.require()?.block_bytes);
        bytes_of(part, &self.scale_rows_of(held), &self.scale_rows_of(rows), bytes)
    }

    /// The blocks of some of the rows held.
    fn blocks_of<'a>(&self, held: &HeldRows<'a>, rows: &Range<u64>) -> Result<&'a [u8]> {
        let part = held.parts.first().copied().unwrap_or_default();
        bytes_of(part, &held.rows, rows, self.row_len / OF_BLOCK * NVFP4_BYTES as u64)
    }

    /// Whether scales lie column after column: if each row has its own.
    fn are_scales_turned(&self) -> bool {
        self.arranged == Arranged::Columns && self.of_scale.0 == 1
    }

    /// Rows of one matrix after the other: the first one's number, and how many there are.
    fn by_matrix(&self, rows: &Range<u64>) -> impl Iterator<Item = (u64, u64)> + use<> {
        let (matrix_rows, end, mut at) = (self.matrix_rows, rows.end, rows.start);
        std::iter::from_fn(move || {
            let (first, n) = (at, (matrix_rows - at % matrix_rows).min(end.saturating_sub(at)));
            at += n;
            (n > 0).then_some((first, n))
        })
    }

    /// Where rows are that lie as columns of `height`.
    fn in_columns(&self, rows: &Range<u64>, height: u64) -> PartRange {
        let matrix_rows = self.matrix_rows;
        let of = |(first, n): (u64, u64)| {
            let start = first / matrix_rows * matrix_rows * height + first % matrix_rows;
            PartBox { start, dims: vec![(height, matrix_rows), (n, 1)] }
        };
        PartRange::Boxes(self.by_matrix(rows).map(of).collect())
    }

    /// Some of the rows held that lie as columns of `height` elements of `each` bytes, as rows.
    fn turned(
        &self,
        bytes: &[u8],
        (held, rows): (&Range<u64>, &Range<u64>),
        height: usize,
        each: usize,
    ) -> Result<Vec<u8>> {
        let row_bytes = height * each;
        let mut out = vec![0; index(rows.end.saturating_sub(rows.start)) * row_bytes];
        let (mut left, mut begun) = (bytes, 0);
        for (first, n) in self.by_matrix(held) {
            let (matrix, rest) = left.split_at_checked(index(n) * row_bytes).ok_or_else(too_short)?;
            left = rest;
            let (from, to) = (first.max(rows.start), (first + n).min(rows.end));
            if from >= to {
                continue;
            }
            let wanted = index(from - first) * each..index(to - first) * each;
            let out = &mut out[begun..][..index(to - from) * row_bytes];
            for (at, elements) in matrix.chunks_exact(index(n) * each).enumerate() {
                for (row, element) in elements[wanted.clone()].chunks_exact(each).enumerate() {
                    out[row * row_bytes + at * each..][..each].copy_from_slice(element);
                }
            }
            begun += out.len();
        }
        Ok(out)
    }
}

/// The bytes of some of the rows held, which follow one another.
fn bytes_of<'a>(bytes: &'a [u8], held: &Range<u64>, rows: &Range<u64>, row_bytes: u64) -> Result<&'a [u8]> {
    let place = |row: u64| row.checked_sub(held.start).map(|before| index(before.saturating_mul(row_bytes)));
    let range = place(rows.start).zip(place(rows.end)).ok_or_else(too_short)?;
    bytes.get(range.0..range.1).ok_or_else(too_short)
}

/// Scales out of tiles: those of some of the rows whose tiles are held.
fn untiled(bytes: &[u8], (held, rows): (&Range<u64>, &Range<u64>), columns: usize) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(index(rows.end - rows.start) * columns);
    let of_row = index(tiled(1, columns as u64));
    for row in rows.clone() {
        let tile_row = index(row / TILE.0 - held.start / TILE.0);
        let tiles = bytes.get(tile_row * of_row..(tile_row + 1) * of_row).ok_or_else(too_short)?;
        let row = index(row % TILE.0);
        let place = row % 32 * 16 + row / 32 * 4;
        for (tile, left) in tiles.chunks_exact(index(TILE.2)).zip((1..=columns).rev().step_by(4)) {
            out.extend_from_slice(&tile[place..place + left.min(4)]);
        }
    }
    Ok(out)
}

/// The codes of blocks of NVFP4, in pairs with the lower bits first.
fn codes_of_blocks(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for block in bytes.as_chunks::<NVFP4_BYTES>().0 {
        for codes in block[4..].as_chunks::<8>().0 {
            out.extend(codes.as_chunks::<2>().0.iter().map(|[low, next]| low & 15 | next << 4));
            out.extend(codes.as_chunks::<2>().0.iter().map(|[low, next]| low >> 4 | next & 0xf0));
        }
    }
    out
}

/// The scales of blocks of NVFP4. They have no sign, and ggml takes 0x7f, which would be no number, for 0.
fn scales_of_blocks(bytes: &[u8]) -> Vec<u8> {
    let scales = bytes.as_chunks::<NVFP4_BYTES>().0.iter().flat_map(|block| &block[..4]);
    scales.map(|scale| if *scale == 0x7f { 0 } else { scale & 0x7f }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_give_back_the_codes_and_scales_that_they_were_made_of() {
        let codes: Vec<u8> = (0..64u8).map(|n| n.wrapping_mul(73)).collect();
        let scales = [1, 2, 0x7e, 0, 0x38, 5, 6, 7];
        let mut out = [0; 2 * NVFP4_BYTES];
        assert!(crate::blocks::nvfp4(&codes, &scales, &mut out).is_ok());
        assert_eq!((codes_of_blocks(&out), scales_of_blocks(&out)), (codes, scales.to_vec()));
    }

    #[test]
    fn scales_come_out_of_tiles_in_their_order() {
        // Scale of row r and column c, of 130 rows and 5 columns: r + 3 c.
        let (rows, columns) = (130, 5);
        let mut bytes = vec![0xee; index(tiled(rows, columns))];
        for row in 0..rows {
            for column in 0..columns {
                let tile = row / 128 * columns.div_ceil(4) + column / 4;
                let place = row % 32 * 16 + row % 128 / 32 * 4 + column % 4;
                bytes[index(tile * 512 + place)] = ((row + 3 * column) % 251) as u8;
            }
        }
        let want = |rows: Range<u64>| -> Vec<u8> {
            rows.flat_map(|row| (0..columns).map(move |column| ((row + 3 * column) % 251) as u8)).collect()
        };
        assert_eq!(untiled(&bytes, (&(0..rows), &(0..rows)), index(columns)).ok(), Some(want(0..rows)));
        let last = index(tiled(1, columns));
        assert_eq!(
            untiled(&bytes[last..], (&(128..130), &(129..130)), index(columns)).ok(),
            Some(want(129..130))
        );
        assert!(untiled(&bytes[..last], (&(0..rows), &(0..rows)), index(columns)).is_err());
    }
}
