//! Casts between floats, optionally after an addition, element by element. A value is rounded once, to
//! nearest, ties to even. A NaN stays a NaN: it keeps its sign and as much of its payload as fits; narrowing
//! makes it quiet. Integers are never cast.
//!
//! The loops are plain and branch-free, so that the compiler vectorizes them, once per kind of processor.

pub(crate) mod floats;
pub(crate) mod small;
#[cfg(test)]
mod tests;

use apr_sdk::{DType, Error, Result};
use fearless_simd::{Level, dispatch};
use floats::{BF16, F16, F32, F64, Source, Target, Wide};
use serde::Serialize;
use small::{F8_E4M3, F8_E4M3FNUZ, F8_E5M2, F8_E5M2FNUZ, F8_E8M0};
use std::ops::AddAssign;

/// Counts of values that a cast or an addition could not keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// Finite values that became another finite value.
    pub rounded: u64,
    /// Finite values that became infinite.
    pub overflowed: u64,
    /// Values that were infinite or NaN before.
    pub nonfinite: u64,
    /// Values that the inverse of an addition or a function does not restore to the bit: `(x + c) - c` is not `x`.
    pub not_undone: u64,
}

impl Changes {
    /// Returns whether every value was finite and unchanged.
    pub fn is_exact(&self) -> bool {
        self.rounded + self.overflowed + self.nonfinite == 0
    }

    /// Returns whether the way back restores every value to the bit.
    pub fn is_undone(&self) -> bool {
        self.rounded + self.overflowed + self.not_undone == 0
    }

    /// Returns whether any value was, or became, infinite or NaN.
    pub fn is_bad(&self) -> bool {
        self.overflowed + self.nonfinite > 0
    }
}

impl AddAssign for Changes {
    fn add_assign(&mut self, more: Changes) {
        self.rounded += more.rounded;
        self.overflowed += more.overflowed;
        self.nonfinite += more.nonfinite;
        self.not_undone += more.not_undone;
    }
}

/// Casts whole little-endian elements; both slices hold the same number of them.
type Convert = fn(from: &[u8], to: &mut [u8], add: Option<f32>) -> Changes;

/// The operations on each element of a tensor: an optional addition, then a cast.
#[derive(Clone, Copy, Debug)]
pub struct CastKernel {
    /// The source type.
    pub from: DType,
    /// The target type.
    pub to: DType,
    /// Added in F32 before the cast.
    pub add: Option<f32>,
    /// Bytes per element, before and after.
    pub widths: [u64; 2],
    convert: Convert,
}

impl CastKernel {
    /// The kernel that converts one type to another; `None` if there is nothing to do.
    ///
    /// # Errors
    /// Unsupported for types that cannot be cast, and for an addition to F64, which F32 cannot hold.
    pub fn new(from: DType, to: DType, add: Option<f32>) -> Result<Option<CastKernel>> {
        if from == to && add.is_none() {
            return Ok(None);
        }
        let row = KERNELS.iter().flatten().find(|row| (row.0, row.1) == (from, to));
        let row = row.filter(|_| add.is_none() || from != DType::F64);
        let Some((.., convert)) = row else {
            let what = if add.is_some() { "an addition and a cast" } else { "a cast" };
            return Err(Error::unsupported(format!("cannot convert from {from} to {to} by {what}")));
        };
        let widths = [u64::from(from.require()?.block_bytes), u64::from(to.require()?.block_bytes)];
        Ok(Some(CastKernel { from, to, add, widths, convert: *convert }))
    }

    /// Source bytes for a number of target bytes.
    pub fn before(&self, after: u64) -> u64 {
        after / self.widths[1] * self.widths[0]
    }

    /// Target bytes for a number of source bytes.
    pub fn after(&self, before: u64) -> u64 {
        before / self.widths[0] * self.widths[1]
    }

    /// Fills `to` with the converted elements of `from`, which are equally many.
    pub fn apply(&self, from: &[u8], to: &mut [u8]) -> Changes {
        (self.convert)(from, to, self.add)
    }

    /// The first element of `from` that is not finite or does not stay finite: its index, and its value
    /// before and after.
    pub fn first_bad(&self, from: &[u8]) -> Option<(u64, String)> {
        let [before, after] = self.widths.map(|width| usize::try_from(width).unwrap_or(1));
        let wide = CastKernel::new(self.from, DType::F64, None).ok().flatten();
        (0u64..).zip(from.chunks_exact(before)).find_map(|(number, element)| {
            let mut out = [0; 8];
            if !self.apply(element, &mut out[..after]).is_bad() {
                return None;
            }
            out[..before].copy_from_slice(element);
            if let Some(wide) = wide {
                wide.apply(element, &mut out);
            }
            let value = f64::from_le_bytes(out);
            let how = if value.is_finite() {
                format!("out of range for {}", self.to)
            } else {
                "not finite".to_owned()
            };
            Some((number, format!("{value:e}, {how}")))
        })
    }
}

fn convert<S, T, const N: usize, const M: usize>(from: &[u8], to: &mut [u8], add: Option<f32>) -> Changes
where
    S: Source<N>,
    T: Target<M, S::Wide>,
{
    match add {
        None => dispatch!(Level::new(), _ => each::<S, T, N, M, false>(from, to, 0.0)),
        Some(c) => dispatch!(Level::new(), _ => each::<S, T, N, M, true>(from, to, c)),
    }
}

#[inline(always)]
fn each<S, T, const N: usize, const M: usize, const ADD: bool>(from: &[u8], to: &mut [u8], c: f32) -> Changes
where
    S: Source<N>,
    T: Target<M, S::Wide>,
{
    /// Elements counted in 32 bits, the width of most elements.
    const RUN: usize = 1 << 16;
    let mut changes = Changes::default();
    let from = from.as_chunks::<N>().0;
    let to = to.as_chunks_mut::<M>().0;
    for (from, to) in from.chunks(RUN).zip(to.chunks_mut(RUN)) {
        let mut counts = [0u32; 4];
        for (from, to) in from.iter().zip(to) {
            let before = S::read(*from);
            let wanted = if ADD { before.plus(c) } else { before };
            let (bytes, value) = T::write(wanted);
            *to = bytes;
            let finite = before.finite();
            let stays = value.finite();
            counts[0] += u32::from(stays & (value != wanted));
            counts[1] += u32::from(finite & !stays);
            counts[2] += u32::from(!finite);
            counts[3] += u32::from(ADD && !wanted.plus(-c).same_bits(before));
        }
        let [rounded, overflowed, nonfinite, not_undone] = counts.map(u64::from);
        changes += Changes { rounded, overflowed, nonfinite, not_undone };
    }
    changes
}

macro_rules! from {
    ($from:ident, $n:literal) => {
        [
            (DType::$from, DType::F64, convert::<$from, F64, $n, 8>),
            (DType::$from, DType::F32, convert::<$from, F32, $n, 4>),
            (DType::$from, DType::F16, convert::<$from, F16, $n, 2>),
            (DType::$from, DType::BF16, convert::<$from, BF16, $n, 2>),
            (DType::$from, DType::F8_E4M3, convert::<$from, F8_E4M3, $n, 1>),
            (DType::$from, DType::F8_E5M2, convert::<$from, F8_E5M2, $n, 1>),
            (DType::$from, DType::F8_E4M3FNUZ, convert::<$from, F8_E4M3FNUZ, $n, 1>),
            (DType::$from, DType::F8_E5M2FNUZ, convert::<$from, F8_E5M2FNUZ, $n, 1>),
        ]
    };
}

/// All supported casts.
static KERNELS: &[[(DType, DType, Convert); 8]] = &[
    from!(F64, 8),
    from!(F32, 4),
    from!(F16, 2),
    from!(BF16, 2),
    from!(F8_E4M3, 1),
    from!(F8_E5M2, 1),
    from!(F8_E4M3FNUZ, 1),
    from!(F8_E5M2FNUZ, 1),
    from!(F8_E8M0, 1),
];
