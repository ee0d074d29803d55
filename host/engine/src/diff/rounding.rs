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
    /// True if some value was not the nearest.
    broken: AtomicBool,
}

impl Way {
    fn new(from: DType, to: DType) -> Option<Way> {
        let cast = CastKernel::new(from, to, None).ok().flatten()?;
        Some(Way { cast, broken: AtomicBool::new(false) })
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
            way.cast.apply(from, &mut rounded);
            if rounded != to {
                way.broken.store(true, Ordering::Relaxed);
            }
        }
    }

    /// The type that one side's values were rounded to, if every value so far is the nearest.
    pub fn holds(&self) -> Option<DType> {
        let way = self.ways.iter().flatten().find(|way| !way.broken.load(Ordering::Relaxed));
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
        assert!(Rounding::new(DType::F32, DType::F32).is_none());
        assert!(Rounding::new(DType::I8, DType::F32).is_none());
    }
}
