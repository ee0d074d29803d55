//! Functions of single values that dialects store instead of the values themselves: computed in F64, rounded once.

use std::fmt;

/// A function of one value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Map {
    /// −exp(x), as state-space models keep the logarithm of a decay (Mamba, section 3.6 of its paper: `A_log`).
    NegExp,
    /// ln(−x), its inverse.
    LnNeg,
    /// x times a number, given by its bits.
    Times(u64),
    /// x divided by a number, given by its bits.
    Over(u64),
}

/// How far from the rounded logarithm the value may lie that the exponential of gives the stored one.
const NEIGHBOURS: u32 = 8;

impl Map {
    /// The function of a value.
    #[allow(clippy::cast_possible_truncation, reason = "values are F32: this is the one rounding")]
    pub fn of(self, x: f32) -> f32 {
        let wide = f64::from(x);
        match self {
            Map::NegExp => -(wide.exp()) as f32,
            Map::LnNeg => {
                let near = (-wide).ln() as f32;
                // Several values have the same exponential, and the nearest logarithm need not be one of them.
                let gives_back = |y: &f32| Map::NegExp.of(*y).to_bits() == x.to_bits();
                let steps = (1..=NEIGHBOURS)
                    .flat_map(|n| [near.to_bits().wrapping_add(n), near.to_bits().wrapping_sub(n)]);
                let tried = std::iter::once(near).chain(steps.map(f32::from_bits));
                tried.filter(|y| y.is_finite()).find(gives_back).unwrap_or(near)
            }
            Map::Times(bits) => (wide * f64::from_bits(bits)) as f32,
            Map::Over(bits) => (wide / f64::from_bits(bits)) as f32,
        }
    }
}

impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Map::NegExp => f.write_str("neg_exp"),
            Map::LnNeg => f.write_str("ln_neg"),
            Map::Times(bits) => write!(f, "times {}", f64::from_bits(*bits)),
            Map::Over(bits) => write!(f, "over {}", f64::from_bits(*bits)),
        }
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithm_has_the_exponential_that_was_stored() {
        let mut at = -12.0f32;
        while at < 8.0 {
            let stored = Map::NegExp.of(at);
            assert_eq!(Map::NegExp.of(Map::LnNeg.of(stored)).to_bits(), stored.to_bits(), "{at}");
            at += 0.001_7;
        }
        assert!(Map::LnNeg.of(1.0).is_nan() && Map::LnNeg.of(0.0).is_infinite());
        assert_eq!(Map::NegExp.of(0.0).to_bits(), (-1.0f32).to_bits());
    }

    #[test]
    fn products_are_rounded_once() {
        let third = (1.0f64 / 3.0).to_bits();
        assert_eq!(Map::Times(third).of(3.0), 1.0);
        assert_eq!(Map::Over(third).of(1.0), 3.0);
        assert_eq!(Map::Times(0.1f64.to_bits()).of(10.0), 1.0);
    }
}
