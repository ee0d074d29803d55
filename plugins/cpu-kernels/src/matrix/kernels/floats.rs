//! Floats: no codes, and activations as they are. A tile is a line of 16 elements for each column.
//!
//! A product is the sum over even columns plus that over odd ones, each in order: two chains keep the unit for
//! multiplying and adding busy that one would leave waiting.

use super::{Band, Job, Kernel, Products, in_groups, unrolled};
use crate::matrix::lanes::Lanes;
use crate::matrix::layout::ROWS;
use std::marker::PhantomData;
use std::ops::Range;

/// A type of floats.
///
/// # Safety
/// `load` reads 16 elements of [`Float::BYTES`] bytes.
pub unsafe trait Float: 'static {
    /// Bytes of an element.
    const BYTES: usize;

    /// Loads 16 elements.
    ///
    /// # Safety
    /// They are there; the level's instructions are enabled.
    unsafe fn load<L: Lanes>(from: *const u8) -> L::Floats;
}

/// The kernel of a type of floats.
pub struct Floats<F>(PhantomData<F>);

impl<F: Float> Floats<F> {
    /// The products of a tile with one token.
    ///
    /// # Safety
    /// As for [`Kernel::one`].
    #[inline(always)]
    unsafe fn tile<L: Lanes>(job: &Job<'_>, tile: *const u8, x: *const u8) -> L::Floats {
        // SAFETY: as the caller says.
        unsafe {
            let (mut even, mut odd) = (L::splat_float(0.0), L::splat_float(0.0));
            let x = x.cast::<f32>();
            let bytes = ROWS * F::BYTES;
            let mut column = 0;
            while column + 8 <= job.columns {
                let (tile, x) = (tile.add(column * bytes), x.add(column));
                unrolled!(n < 4, {
                    let (first, second) = (tile.add(2 * n * bytes), tile.add((2 * n + 1) * bytes));
                    even = L::mul_add(F::load::<L>(first), L::splat_float(x.add(2 * n).read()), even);
                    odd = L::mul_add(F::load::<L>(second), L::splat_float(x.add(2 * n + 1).read()), odd);
                });
                column += 8;
            }
            while column < job.columns {
                let (w, x) = (F::load::<L>(tile.add(column * bytes)), L::splat_float(x.add(column).read()));
                if column % 2 == 0 {
                    even = L::mul_add(w, x, even);
                } else {
                    odd = L::mul_add(w, x, odd);
                }
                column += 1;
            }
            L::add_floats(even, odd)
        }
    }
}

// SAFETY: a tile has `columns` lines of 16 elements, a token `columns` floats; the loops end there.
unsafe impl<F: Float> Kernel for Floats<F> {
    type Unpacked<L: Lanes> = ();

    fn room<L: Lanes>() {}

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
        _room: &mut (),
    ) {
        in_groups!(L, products.len(), |first, GROUP| {
            // SAFETY: as above; the group's tokens are among those that there are products for.
            unsafe {
                let x = x.add(first * job.stride);
                group::<L, F, GROUP>(job, band.bytes, x, &mut products[first..first + GROUP]);
            }
        });
    }
}

/// The products of a tile with `T` tokens.
///
/// # Safety
/// As for [`Kernel::many`].
#[inline(always)]
unsafe fn group<L: Lanes, F: Float, const T: usize>(
    job: &Job<'_>,
    tile: *const u8,
    x: *const u8,
    products: &mut [Products],
) {
    // SAFETY: as for `one`, for each of the tokens.
    unsafe {
        let mut sums = [[L::splat_float(0.0); T]; 2];
        let mut column = 0;
        while column < job.columns {
            let at = tile.add(column * ROWS * F::BYTES);
            let w = F::load::<L>(at);
            unrolled!(t < T, {
                let x = x.add(t * job.stride).cast::<f32>().add(column);
                sums[0][t] = L::mul_add(w, L::splat_float(x.read()), sums[0][t]);
            });
            if column + 1 < job.columns {
                let w = F::load::<L>(at.add(ROWS * F::BYTES));
                unrolled!(t < T, {
                    let x = x.add(t * job.stride).cast::<f32>().add(column + 1);
                    sums[1][t] = L::mul_add(w, L::splat_float(x.read()), sums[1][t]);
                });
            }
            column += 2;
        }
        unrolled!(t < T, {
            L::store_floats(products[t].as_mut_ptr(), L::add_floats(sums[0][t], sums[1][t]));
        });
    }
}
