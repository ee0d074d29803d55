//! Calls of intrinsics on values: the one form in which they need no reason of their own.

use std::arch::x86_64::{__m128, __m128i, __m256, __m256i, __m512, __m512i};

/// What an intrinsic of [`call`] takes: numbers and registers, and nothing that leads to memory.
pub trait Value: Copy {}

macro_rules! values {
    ($($of:ty),*) => {$(impl Value for $of {})*};
}

values!(__m128, __m128i, __m256, __m256i, __m512, __m512i, f32, u16, i32, i64);

/// The same, if it is one.
#[inline(always)]
pub fn value<V: Value>(value: V) -> V {
    value
}

/// An intrinsic of x86-64 on values. They are made outside of the `unsafe` block, and no pointer is one.
macro_rules! call {
    (@ $of:ident $(::<$constant:tt>)? $($value:ident)*) => {
        // SAFETY: what an intrinsic without a pointer needs is the instructions. The registers' types of this module are only made
        // from a proof that the machine has them (`Avx2`, `Avx512`) or from each other, and only methods of these call it.
        unsafe { std::arch::x86_64::$of$(::<$constant>)?($($value),*) }
    };
    ($of:ident $(::<$constant:tt>)?($a:expr)) => {{
        let a = $crate::simd::call::value($a);
        call!(@ $of $(::<$constant>)? a)
    }};
    ($of:ident $(::<$constant:tt>)?($a:expr, $b:expr)) => {{
        let (a, b) = ($crate::simd::call::value($a), $crate::simd::call::value($b));
        call!(@ $of $(::<$constant>)? a b)
    }};
    ($of:ident $(::<$constant:tt>)?($a:expr, $b:expr, $c:expr)) => {{
        use $crate::simd::call::value;
        let (a, b, c) = (value($a), value($b), value($c));
        call!(@ $of $(::<$constant>)? a b c)
    }};
}

pub(super) use call;
