//! Are one side's values the other's, rounded to a narrower type? Then nothing but that rounding separates
//! the two models, as when a converter turns F32 into F16.

use crate::values::cast::CastKernel;
use apr_sdk::DType;
use std::sync::atomic::{AtomicBool, Ordering};

/// Floats that may be rounded to one another, wider ones first. BF16 and F16 each hold values that the other
/// does not, so either may be the rounded one.
const WIDER: [DType; 4] = [DType::F64, DType::F32, DType::BF16, DType::F16];

/// Checks whether values of one of two types are the other's, rounded.
pub struct Rounding {
    /// From a's type to b's, and from b's to a's.
    ways: [Option<Way>; 2],
}

struct Way {
    cast: CastKernel,
    /// True if some value was not the nearest, or is out of the type's range.
    broken: AtomicBool,
    /// True if some value is not zero.
    has_values: AtomicBool,
    /// True if some value is still not zero once it is rounded.
    keeps_values: AtomicBool,
}

impl Way {
    fn new(from: DType, to: DType) -> Option<Way> {
        let cast = CastKernel::new(from, to, None).ok().flatten()?;
        let new = || AtomicBool::new(false);
        Some(Way { cast, broken: new(), has_values: new(), keeps_values: new() })
    }

    /// Returns whether every value so far is the nearest. A tensor of which only zeros are left was not rounded.
    fn holds(&self) -> bool {
        let is_lost = self.has_values.load(Ordering::Relaxed) && !self.keeps_values.load(Ordering::Relaxed);
        !self.broken.load(Ordering::Relaxed) && !is_lost
    }
}

/// Returns whether a float is not zero: a sign, which is the last bit, does not count.
fn is_not_zero(element: &[u8]) -> bool {
    let (last, rest) = element.split_last().unwrap_or((&0, &[]));
    last & 0x7f != 0 || rest.iter().any(|byte| *byte != 0)
}

/// Sets a flag if any element is not zero, unless it is set.
fn note_values(flag: &AtomicBool, bytes: &[u8], width: u64) {
    let width = usize::try_from(width).unwrap_or(1).max(1);
    if !flag.load(Ordering::Relaxed) && bytes.chunks_exact(width).any(is_not_zero) {
        flag.store(true, Ordering::Relaxed);
    }
}

impl Rounding {
    /// `None` for types that are equal or not floats.
    pub fn new(a: DType, b: DType) -> Option<Rounding> {
        let at = WIDER.iter().position(|wide| *wide == a)?;
        let other = WIDER.iter().position(|wide| *wide == b)?;
        let are_halves = at.min(other) >= 2;
        let ways = [
            if at < other || are_halves { Way::new(a, b) } else { None },
            if other < at || are_halves { Way::new(b, a) } else { None },
        ];
        (a != b && ways.iter().any(Option::is_some)).then_some(Rounding { ways })
    }

    /// Compares equally many elements of both sides.
    pub fn look(&self, a: &[u8], b: &[u8]) {
        for (way, (from, to)) in self.ways.iter().zip([(a, b), (b, a)]) {
            let Some(way) = way.as_ref().filter(|way| !way.broken.load(Ordering::Relaxed)) else { continue };
            let mut rounded = vec![0; to.len()];
            let changes = way.cast.apply(from, &mut rounded);
            if rounded != to || changes.overflowed > 0 {
                way.broken.store(true, Ordering::Relaxed);
            }
            note_values(&way.has_values, from, way.cast.widths[0]);
            note_values(&way.keeps_values, to, way.cast.widths[1]);
        }
    }

    /// The type that one side's values were rounded to, if every value so far is the nearest.
    pub fn holds(&self) -> Option<DType> {
        let way = self.ways.iter().flatten().find(|way| way.holds());
        way.map(|way| way.cast.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn every_value_must_be_the_nearest() {
        // 1.0 and 1.0 + 2^-11, which is halfway between two F16 values and rounds to the even one.
        let wide = bytes(&[1.0, 1.0 + 2f32.powi(-11)]);
        for (narrow, rounded_to) in
            [([0x00, 0x3c, 0x00, 0x3c], Some(DType::F16)), ([0x00, 0x3c, 0x01, 0x3c], None)]
        {
            let rounding = Rounding::new(DType::F32, DType::F16).unwrap();
            rounding.look(&wide, &narrow);
            assert_eq!(rounding.holds(), rounded_to);
        }
        let other = Rounding::new(DType::F16, DType::F32).unwrap();
        other.look(&[0x00, 0x3c, 0x00, 0x3c], &wide);
        assert_eq!(other.holds(), Some(DType::F16));
        for (values, holds) in [
            (&[70_000.0, 1.0][..], false),
            (&[1e-9, -1e-9], false),
            (&[1e-9, 1.0], true),
            (&[0.0, -0.0], true),
        ] {
            let (wide, mut narrow) = (bytes(values), vec![0; 2 * values.len()]);
            CastKernel::new(DType::F32, DType::F16, None).unwrap().unwrap().apply(&wide, &mut narrow);
            let rounding = Rounding::new(DType::F32, DType::F16).unwrap();
            rounding.look(&wide, &narrow);
            assert_eq!(rounding.holds().is_some(), holds, "{values:?}");
        }
        assert!(Rounding::new(DType::F32, DType::F32).is_none());
        assert!(Rounding::new(DType::I8, DType::F32).is_none());
    }
}
