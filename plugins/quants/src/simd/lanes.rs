//! Vectors whose width is not named: as many floats, integers and truth values as the level has lanes.
//!
//! An encoder's search runs one chain of operations per lane, in the order of the scalar form, so that equal bits follow by
//! construction. Nothing here sums across lanes, and nothing fuses a multiplication with an addition.
//!
//! A value of a type with [`Lanes`] is the proof that the machine has its instructions: only `simd::run` makes one, and
//! vectors are made from it or from other vectors.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Not, Sub};

/// Where vectors come from.
pub trait Lanes: Copy {
    /// How many lanes a vector has.
    const COUNT: usize;
    /// A float in each lane.
    type Floats: Floats<Ints = Self::Ints, Mask = Self::Mask>;
    /// An `i32` in each lane.
    type Ints: Ints<Floats = Self::Floats, Mask = Self::Mask>;
    /// A truth value in each lane.
    type Mask: Mask<Floats = Self::Floats, Ints = Self::Ints>;
    /// Sixteen floats to be looked up.
    type Table: Copy;

    /// One value in all lanes.
    fn floats(self, value: f32) -> Self::Floats;
    /// One value in all lanes.
    fn ints(self, value: i32) -> Self::Ints;
    /// One value in all lanes.
    fn mask(self, value: bool) -> Self::Mask;
    /// 0, 1, 2, ...
    fn numbers(self) -> Self::Ints;
    /// The first [`Lanes::COUNT`] of a slice that has as many.
    fn load(self, from: &[f32]) -> Self::Floats;
    /// The first [`Lanes::COUNT`] of a slice that has as many.
    fn load_ints(self, from: &[i32]) -> Self::Ints;
    /// The first [`Lanes::COUNT`] bytes of a slice that has as many, each without sign.
    fn load_bytes(self, from: &[u8]) -> Self::Ints;
    /// The first [`Lanes::COUNT`] numbers of a slice that has as many, each without sign.
    fn load_halves(self, from: &[u16]) -> Self::Ints;
    /// Four values, over and over.
    fn four(self, from: &[f32; 4]) -> Self::Floats;
    /// Lane `j` is the value number `at[j]` of what [`Lanes::four`] made; of the number, the low two bits count.
    fn of_four(self, four: Self::Floats, at: Self::Ints) -> Self::Floats;
    /// Eight values, over and over.
    fn eight(self, from: &[f32; 8]) -> Self::Floats;
    /// Lane `j` is the value number `at[j]` of what [`Lanes::eight`] made; of the number, the low three bits count.
    fn of_eight(self, eight: Self::Floats, at: Self::Ints) -> Self::Floats;
    /// Lane `j` is `from[at[j]]`; an index beyond either end means the last element. Zeros from an empty slice.
    fn gather(self, from: &[f32], at: Self::Ints) -> Self::Floats;
    /// Lane `j` is `from[at[j]]`; an index beyond either end means the last element. Zeros from an empty slice.
    fn gather_ints(self, from: &[i32], at: Self::Ints) -> Self::Ints;
    /// Columns of rows that lie `stride` elements apart: lane `j` of `out[column]` is `from[j * stride + column]`. The slice
    /// has all of them; `N` is a multiple of 4.
    fn columns<const N: usize>(self, from: &[f32], stride: usize, out: &mut [Self::Floats; N]);
    /// Sixteen values to be looked up.
    fn table(self, values: &[f32; 16]) -> Self::Table;
    /// Lane `j` is the value number `at[j]` of the table; of the number, the low four bits count.
    fn look_up(self, table: Self::Table, at: Self::Ints) -> Self::Floats;
}

/// A float in each lane.
pub trait Floats:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    /// The integers of the same lanes.
    type Ints;
    /// The truth values of the same lanes.
    type Mask;

    /// The square root.
    fn sqrt(self) -> Self;
    /// The magnitude.
    fn abs(self) -> Self;
    /// `self < other ? self : other`: `other` where either is no number.
    fn min(self, other: Self) -> Self;
    /// `self > other ? self : other`: `other` where either is no number.
    fn max(self, other: Self) -> Self;
    /// `self < other`.
    fn less(self, other: Self) -> Self::Mask;
    /// `self <= other`.
    fn at_most(self, other: Self) -> Self::Mask;
    /// `self > other`.
    fn more(self, other: Self) -> Self::Mask;
    /// `self == other`.
    fn equals(self, other: Self) -> Self::Mask;
    /// As `number::nearest_int`, for every input.
    fn nearest_int(self) -> Self::Ints;
    /// As `number::truncated`, for every input.
    fn truncated(self) -> Self::Ints;
    /// The bits.
    fn bits(self) -> Self::Ints;
    /// The greatest lane; no lane is no number.
    fn greatest(self) -> f32;
    /// The least lane; no lane is no number.
    fn least(self) -> f32;
    /// To the first places of a slice that has as many.
    fn store(self, to: &mut [f32]);
}

/// An `i32` in each lane; all arithmetic wraps.
pub trait Ints:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
{
    /// The floats of the same lanes.
    type Floats;
    /// The truth values of the same lanes.
    type Mask;

    /// The lesser.
    fn min(self, other: Self) -> Self;
    /// The greater.
    fn max(self, other: Self) -> Self;
    /// `self == other`.
    fn equals(self, other: Self) -> Self::Mask;
    /// `self > other`.
    fn more(self, other: Self) -> Self::Mask;
    /// All lanes by one distance, zeros from below.
    fn shift_left(self, by: u32) -> Self;
    /// All lanes by one distance, zeros from above.
    fn shift_right(self, by: u32) -> Self;
    /// All lanes by one distance, the sign from above.
    fn shift_right_signed(self, by: u32) -> Self;
    /// Each lane by its own distance of 0 to 31, zeros from below.
    fn shift_left_each(self, by: Self) -> Self;
    /// Each lane by its own distance of 0 to 31, zeros from above.
    fn shift_right_each(self, by: Self) -> Self;
    /// The nearest float.
    fn to_floats(self) -> Self::Floats;
    /// The float with these bits.
    fn as_bits(self) -> Self::Floats;
    /// To the first places of a slice that has as many.
    fn store(self, to: &mut [i32]);
    /// The low byte of each lane, to the first places of a slice that has as many.
    fn store_bytes(self, to: &mut [u8]);
}

/// A truth value in each lane.
pub trait Mask: Copy + BitAnd<Output = Self> + BitOr<Output = Self> + Not<Output = Self> {
    /// The floats of the same lanes.
    type Floats;
    /// The integers of the same lanes.
    type Ints;

    /// `yes` where true, `no` elsewhere.
    fn pick(self, yes: Self::Floats, no: Self::Floats) -> Self::Floats;
    /// `yes` where true, `no` elsewhere.
    fn pick_ints(self, yes: Self::Ints, no: Self::Ints) -> Self::Ints;
    /// Bit `j` is lane `j`.
    fn bits(self) -> u32;
    /// Whether any lane is true.
    #[inline(always)]
    fn any(self) -> bool {
        self.bits() != 0
    }
    /// The lowest lane that is true.
    #[inline(always)]
    fn first(self) -> Option<usize> {
        let bits = self.bits();
        (bits != 0).then(|| bits.trailing_zeros() as usize)
    }
}
