//! Super-blocks of 256 with a code for each scale, and perhaps for each minimum, of their sub-blocks.
//!
//! ```text
//! product += (d * dx) * sum over sub-blocks of scale * dot           for each super-block
//! product -= (dmin * dx) * sum over sub-blocks of minimum * sum x    if it has minima
//! ```
//!
//! Both sums are integers.

use super::{Band, Job, Kernel, Products, in_groups, unrolled};
use crate::matrix::lanes::Lanes;
use crate::matrix::layout::ROWS;
use std::marker::PhantomData;
use std::ops::Range;

/// A type of super-blocks, whose head begins with a half for the scale, and perhaps one for that of the minima.
///
/// # Safety
/// The functions read the block's bytes, times 16, and give codes of at most [`Super::MOST`].
pub unsafe trait Super: 'static {
    /// Bytes of a block.
    const BYTES: usize;
    /// Bytes of it that are its head.
    const HEAD: usize;
    /// Blocks of a group.
    const GROUP: usize;
    /// Columns of a sub-block: 16 or 32.
    const SUB: usize;
    /// Whether each 32 columns have a minimum.
    const MINIMA: bool;
    /// The largest code; 255 for signed ones with 128 added.
    const MOST: i32;
    /// What is taken off each code; 0 if sub-blocks have 32 columns.
    const ZERO: i32;

    /// The codes of scales and minima.
    type Scales<L: Lanes>: Copy;

    /// Loads them.
    ///
    /// # Safety
    /// They are there; the level's instructions are enabled.
    unsafe fn scales<L: Lanes>(head: *const u8, body: *const u8) -> Self::Scales<L>;

    /// The minima, four in each lane: of 16 columns in four registers, of 32 in two.
    fn minima<L: Lanes>(scales: &Self::Scales<L>) -> [L::Bytes; 4];

    /// The scale of a sub-block.
    ///
    /// # Safety
    /// The level's instructions are enabled.
    unsafe fn scale<L: Lanes>(scales: &Self::Scales<L>, sub: usize) -> L::Ints;

    /// Hands over the codes of a quarter of the sub-blocks, one after the other.
    ///
    /// # Safety
    /// As for [`Super::scales`].
    unsafe fn quarter<L: Lanes, T: Take<L>, const QUARTER: usize>(body: *const u8, take: &mut T);
}

/// Takes the codes of sub-blocks.
pub trait Take<L: Lanes> {
    /// Takes those of a sub-block: 4 or 8 registers.
    ///
    /// # Safety
    /// The level's instructions are enabled.
    unsafe fn take(&mut self, sub: usize, codes: &[L::Bytes]);
}

/// The kernel of a type of super-blocks.
pub struct Blocks<B>(PhantomData<B>);

/// Columns of a block.
const COLUMNS: usize = 256;

/// The bytes of a block's record in activations, and where in it what lies.
const RECORD: usize = 128;
const LOW_OF_32: usize = 96;
const HIGH_OF_32: usize = 104;
const SCALE: usize = 112;

/// A block in the form in which many tokens take it.
pub struct Unpacked<L: Lanes> {
    codes: [L::Bytes; COLUMNS / 4],
    scales: [L::Ints; 16],
}

impl<L: Lanes> Take<L> for Unpacked<L> {
    #[inline(always)]
    unsafe fn take(&mut self, sub: usize, codes: &[L::Bytes]) {
        let first = sub * codes.len();
        self.codes[first..first + codes.len()].copy_from_slice(codes);
    }
}

/// The sum of one token, as sub-blocks come.
struct Sum<'a, L: Lanes, B: Super> {
    sum: L::Ints,
    scales: &'a B::Scales<L>,
    x: *const u8,
    record: *const u8,
}

impl<L: Lanes, B: Super> Take<L> for Sum<'_, L, B> {
    #[inline(always)]
    unsafe fn take(&mut self, sub: usize, codes: &[L::Bytes]) {
        // SAFETY: a block has 256 columns and a record.
        unsafe {
            let scale = B::scale::<L>(self.scales, sub);
            let offset = offset::<B>(self.record, sub);
            let x = self.x.add(sub * B::SUB);
            self.sum = L::settled(L::dot_scaled(self.sum, offset, codes, B::MOST, x, scale));
        }
    }
}

/// What the codes of a sub-block are too large by, times the activations.
///
/// # Safety
/// `record` is one.
#[inline(always)]
unsafe fn offset<B: Super>(record: *const u8, sub: usize) -> i32 {
    if B::ZERO == 0 {
        return 0;
    }
    // SAFETY: a record begins with 16 integers, aligned to 64 bytes: -32 times the sums of 16.
    let of_32 = unsafe { record.cast::<i32>().add(sub).read() };
    if B::ZERO >= 32 { of_32 * (B::ZERO / 32) } else { of_32 / (32 / B::ZERO) }
}

/// The sum of minima times sums of activations.
///
/// # Safety
/// `record` is one; the level's instructions are enabled.
#[inline(always)]
unsafe fn sum_of_minima<L: Lanes>(minima: &[L::Bytes; 4], record: *const u8) -> L::Ints {
    // SAFETY: a record has four bytes for each register of minima.
    unsafe {
        let low = L::dot(0, &minima[..2], 63, record.add(LOW_OF_32));
        let high = L::dot(0, &minima[..2], 63, record.add(HIGH_OF_32));
        L::add(low, L::times_128(high))
    }
}

impl<B: Super> Blocks<B> {
    /// Where a block of a tile of a band lies: its head and its body.
    ///
    /// # Safety
    /// The band has the tile, which has `blocks` blocks, and `block` is one of them.
    #[inline(always)]
    unsafe fn place(band: Band, tile: usize, block: usize, blocks: usize) -> (*const u8, *const u8) {
        let (within, first) = (block % B::GROUP, block - block % B::GROUP);
        let (head, body) = (B::HEAD * ROWS, (B::BYTES - B::HEAD) * ROWS);
        let group = B::GROUP.min(blocks - first);
        // SAFETY: groups follow one another, in each the tiles, and in these heads and bodies.
        unsafe {
            let tile = band.bytes.add((first * band.count + group * tile) * B::BYTES * ROWS);
            (tile.add(within * head), tile.add(group * head + within * body))
        }
    }

    /// Hands over all sub-blocks.
    #[inline(always)]
    unsafe fn quarters<L: Lanes, T: Take<L>>(body: *const u8, take: &mut T) {
        // SAFETY: as the caller says.
        unsafe {
            B::quarter::<L, T, 0>(body, take);
            B::quarter::<L, T, 1>(body, take);
            B::quarter::<L, T, 2>(body, take);
            B::quarter::<L, T, 3>(body, take);
        }
    }

    /// Adds a block's sums to a product.
    #[inline(always)]
    unsafe fn added<L: Lanes>(
        product: L::Floats,
        sum: L::Ints,
        minima: &[L::Bytes; 4],
        factors: [L::Floats; 2],
        record: *const u8,
    ) -> L::Floats {
        // SAFETY: as the caller says.
        unsafe {
            let dx = L::splat_float(record.add(SCALE).cast::<f32>().read());
            let product = L::mul_add(L::mul(factors[0], dx), L::to_floats(sum), product);
            if !B::MINIMA {
                return product;
            }
            let sum = sum_of_minima::<L>(minima, record);
            L::mul_sub_from(L::mul(factors[1], dx), L::to_floats(sum), product)
        }
    }

    /// The scales of a block, and of its minima.
    #[inline(always)]
    unsafe fn factors<L: Lanes>(head: *const u8) -> [L::Floats; 2] {
        // SAFETY: a head begins with one half for each of 16 rows, or two.
        unsafe {
            let d = L::load_halves(head);
            [d, if B::MINIMA { L::load_halves(head.add(2 * ROWS)) } else { d }]
        }
    }
}

// SAFETY: a tile has `columns / 256` blocks, and so has each token, codes and records; the loops end there.
unsafe impl<B: Super> Kernel for Blocks<B> {
    type Unpacked<L: Lanes> = Unpacked<L>;

    fn room<L: Lanes>() -> Unpacked<L> {
        // SAFETY: registers are plain bytes, for which zero is a value.
        unsafe { std::mem::zeroed() }
    }

    #[inline(always)]
    unsafe fn one<L: Lanes>(
        job: &Job<'_>,
        band: Band,
        tiles: Range<usize>,
        x: *const u8,
        products: &mut [Products],
    ) {
        let blocks = job.columns / COLUMNS;
        // In the order of the bytes.
        for first in (0..blocks).step_by(B::GROUP) {
            for (tile, products) in tiles.clone().zip(&mut *products) {
                for block in first..blocks.min(first + B::GROUP) {
                    // SAFETY: as above.
                    unsafe {
                        let (head, body) = Self::place(band, tile, block, blocks);
                        let scales = B::scales::<L>(head, body);
                        let record = x.add(job.columns + block * RECORD);
                        let (sum, x) = (L::splat_int(0), x.add(block * COLUMNS));
                        let mut sum = Sum::<L, B> { sum, scales: &scales, x, record };
                        Self::quarters::<L, _>(body, &mut sum);
                        let (minima, factors) = (B::minima::<L>(&scales), Self::factors::<L>(head));
                        let product = L::load_floats(products.as_ptr());
                        let product = Self::added::<L>(product, sum.sum, &minima, factors, record);
                        L::store_floats(products.as_mut_ptr(), product);
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn many<L: Lanes>(
        job: &Job<'_>,
        band: Band,
        tile: usize,
        x: *const u8,
        products: &mut [Products],
        room: &mut Unpacked<L>,
    ) {
        let blocks = job.columns / COLUMNS;
        for block in 0..blocks {
            // SAFETY: as above.
            let (factors, minima) = unsafe {
                let (head, body) = Self::place(band, tile, block, blocks);
                let scales = B::scales::<L>(head, body);
                for sub in 0..COLUMNS / B::SUB {
                    room.scales[sub] = B::scale::<L>(&scales, sub);
                }
                Self::quarters::<L, _>(body, room);
                (Self::factors::<L>(head), B::minima::<L>(&scales))
            };
            in_groups!(L, products.len(), |token, GROUP| {
                let products = &mut products[token..token + GROUP];
                // SAFETY: as above; the group's tokens are among those that there are products for.
                unsafe {
                    let x = x.add(token * job.stride);
                    match B::SUB {
                        16 => group::<L, B, GROUP, 4>(job, x, block, room, &minima, factors, products),
                        _ => group::<L, B, GROUP, 8>(job, x, block, room, &minima, factors, products),
                    }
                }
            });
        }
    }
}

/// Adds the products of an unpacked block, of sub-blocks of `R` registers, with `T` tokens.
///
/// # Safety
/// As for [`Kernel::many`].
#[inline(always)]
unsafe fn group<L: Lanes, B: Super, const T: usize, const R: usize>(
    job: &Job<'_>,
    x: *const u8,
    block: usize,
    room: &Unpacked<L>,
    minima: &[L::Bytes; 4],
    factors: [L::Floats; 2],
    products: &mut [Products],
) {
    // SAFETY: as for `one`, for each of the tokens.
    unsafe {
        let mut sums = [L::splat_int(0); T];
        for sub in 0..COLUMNS / (4 * R) {
            let codes = room.codes.as_ptr().add(sub * R).cast::<[L::Bytes; R]>().read();
            let scale = room.scales[sub];
            unrolled!(t < T, {
                let x = x.add(t * job.stride);
                let offset = offset::<B>(x.add(job.columns + block * RECORD), sub);
                let x = x.add(block * COLUMNS + sub * 4 * R);
                let sum = L::dot_scaled(sums[t], offset, &codes, B::MOST, x, scale);
                // With many products per token, one token after the other: all at once would need too many registers.
                sums[t] = if R > 4 { L::settled(sum) } else { sum };
            });
        }
        unrolled!(t < T, {
            let record = x.add(t * job.stride + job.columns + block * RECORD);
            let product = L::load_floats(products[t].as_ptr());
            let product = Blocks::<B>::added::<L>(product, sums[t], minima, factors, record);
            L::store_floats(products[t].as_mut_ptr(), product);
        });
    }
}
