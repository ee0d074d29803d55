//! Blocks of 32 with one scale, and perhaps one minimum.
//!
//! ```text
//! product += (d * dx) * dot          for each block
//! product += m * (dx * sum)          if it has a minimum
//! ```

use super::{Band, Job, Kernel, Products, in_groups, unrolled};
use crate::matrix::lanes::Lanes;
use crate::matrix::layout::ROWS;
use std::marker::PhantomData;
use std::ops::Range;

/// A type of blocks of 32 elements, whose head is a half for the scale and perhaps one for the minimum.
///
/// # Safety
/// `codes` reads the block's bytes but its head, times 16, and gives codes of at most [`Small::MOST`].
pub unsafe trait Small: 'static {
    /// Bytes of a block.
    const BYTES: usize;
    /// Blocks of a group.
    const GROUP: usize;
    /// Whether it has a minimum.
    const MINIMUM: bool;
    /// The largest code; 255 for signed ones with 128 added.
    const MOST: i32;
    /// What is taken off each code: a multiple of 8, or 0.
    const ZERO: i32;

    /// Loads the codes.
    ///
    /// # Safety
    /// They are there; the level's instructions are enabled.
    unsafe fn codes<L: Lanes>(body: *const u8) -> [L::Bytes; 8];
}

/// The kernel of a type of blocks of 32.
pub struct Blocks<B>(PhantomData<B>);

/// Columns of a block.
const COLUMNS: usize = 32;
/// Blocks that are unpacked at once.
const BATCH: usize = 8;
/// Bytes of a block's record in activations.
const RECORD: usize = 16;

/// Blocks in the form in which many tokens take them.
pub struct Unpacked<L: Lanes> {
    codes: [[L::Bytes; 8]; BATCH],
    scales: [L::Floats; BATCH],
    minima: [L::Floats; BATCH],
}

impl<B: Small> Blocks<B> {
    const HEAD: usize = if B::MINIMUM { 4 } else { 2 };

    /// Where a block of a tile lies: its head and its body.
    ///
    /// # Safety
    /// The tile has `blocks` blocks, and `block` is one of them.
    #[inline(always)]
    unsafe fn place(tile: *const u8, block: usize, blocks: usize) -> (*const u8, *const u8) {
        let (within, first) = (block % B::GROUP, block - block % B::GROUP);
        let (head, body) = (Self::HEAD * ROWS, (B::BYTES - Self::HEAD) * ROWS);
        // SAFETY: heads and bodies of a group follow one another.
        unsafe {
            let group = tile.add(first * B::BYTES * ROWS);
            (group.add(within * head), group.add(B::GROUP.min(blocks - first) * head + within * body))
        }
    }

    /// The products of a tile with one token.
    ///
    /// # Safety
    /// As for [`Kernel::one`].
    #[inline(always)]
    unsafe fn tile<L: Lanes>(job: &Job<'_>, tile: *const u8, x: *const u8) -> L::Floats {
        let blocks = job.columns / COLUMNS;
        // SAFETY: as the caller says.
        unsafe {
            let mut sum = L::splat_float(0.0);
            for block in 0..blocks {
                let (head, body) = Self::place(tile, block, blocks);
                let codes = B::codes::<L>(body);
                let (dx, sum_x, offset) = Self::record(x, job.columns, block);
                let dot = L::settled(L::dot(offset, &codes, B::MOST, x.add(block * COLUMNS)));
                let scale = L::mul(L::load_halves(head), L::splat_float(dx));
                sum = L::mul_add(scale, L::to_floats(dot), sum);
                if B::MINIMUM {
                    sum = L::mul_add(L::load_halves(head.add(2 * ROWS)), L::splat_float(sum_x), sum);
                }
            }
            sum
        }
    }

    /// The record of a block.
    ///
    /// # Safety
    /// `x` has as many columns, and the block.
    #[inline(always)]
    unsafe fn record(x: *const u8, columns: usize, block: usize) -> (f32, f32, i32) {
        // SAFETY: codes are followed by records; a token begins on a line, so that they are aligned to 16 bytes.
        unsafe {
            let record = x.add(columns + block * RECORD);
            let offset = if B::ZERO == 0 { 0 } else { record.add(8).cast::<i32>().read() * (B::ZERO / 8) };
            (record.cast::<f32>().read(), record.add(4).cast::<f32>().read(), offset)
        }
    }
}

// SAFETY: a tile has `columns / 32` blocks, and so has each token, codes and records; the loops end there.
unsafe impl<B: Small> Kernel for Blocks<B> {
    type Unpacked<L: Lanes> = Unpacked<L>;

    fn room<L: Lanes>() -> Unpacked<L> {
        // SAFETY: registers are plain bytes, for which zero is a value.
        unsafe { std::mem::zeroed() }
    }

    #[inline(always)]
    unsafe fn one<L: Lanes>(
        job: &Job<'_>,
        band: Band,
        _tiles: Range<usize>,
        x: *const u8,
        products: &mut [Products],
    ) {
        // SAFETY: as above; a band is one tile.
        unsafe { L::store_floats(products[0].as_mut_ptr(), Self::tile::<L>(job, band.bytes, x)) };
    }

    #[inline(always)]
    unsafe fn many<L: Lanes>(
        job: &Job<'_>,
        band: Band,
        _tile: usize,
        x: *const u8,
        products: &mut [Products],
        room: &mut Unpacked<L>,
    ) {
        let blocks = job.columns / COLUMNS;
        for first in (0..blocks).step_by(BATCH) {
            let count = BATCH.min(blocks - first);
            // SAFETY: as above.
            unsafe {
                for n in 0..count {
                    let (head, body) = Self::place(band.bytes, first + n, blocks);
                    room.codes[n] = B::codes::<L>(body);
                    room.scales[n] = L::load_halves(head);
                    if B::MINIMUM {
                        room.minima[n] = L::load_halves(head.add(2 * ROWS));
                    }
                }
            }
            in_groups!(L, products.len(), |token, GROUP| {
                // SAFETY: as above; the group's tokens are among those that there are products for.
                unsafe {
                    let x = x.add(token * job.stride);
                    group::<L, B, GROUP>(
                        job,
                        x,
                        first..first + count,
                        room,
                        &mut products[token..token + GROUP],
                    );
                }
            });
        }
    }
}

/// Adds the products of unpacked blocks with `T` tokens.
///
/// # Safety
/// As for [`Kernel::many`].
#[inline(always)]
unsafe fn group<L: Lanes, B: Small, const T: usize>(
    job: &Job<'_>,
    x: *const u8,
    blocks: std::ops::Range<usize>,
    room: &Unpacked<L>,
    products: &mut [Products],
) {
    // SAFETY: as for `one`, for each of the tokens.
    unsafe {
        let mut sums = [L::splat_float(0.0); T];
        unrolled!(t < T, {
            sums[t] = L::load_floats(products[t].as_ptr());
        });
        for (n, block) in blocks.enumerate() {
            let codes = room.codes[n];
            unrolled!(t < T, {
                let x = x.add(t * job.stride);
                let (dx, sum_x, offset) = Blocks::<B>::record(x, job.columns, block);
                let dot = L::dot(offset, &codes, B::MOST, x.add(block * COLUMNS));
                let scale = L::mul(room.scales[n], L::splat_float(dx));
                sums[t] = L::mul_add(scale, L::to_floats(dot), sums[t]);
                if B::MINIMUM {
                    sums[t] = L::mul_add(room.minima[n], L::splat_float(sum_x), sums[t]);
                }
            });
        }
        unrolled!(t < T, {
            L::store_floats(products[t].as_mut_ptr(), sums[t]);
        });
    }
}
