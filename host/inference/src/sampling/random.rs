//! Random numbers that depend on the seed alone: the same on every machine.

/// PCG32 (XSH-RR, 64 bits of state, 32 bits of output), as published by its author.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

/// The multiplier of the generator's step.
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
/// The sequence that is used: 54, as in the author's demonstration; the step adds twice this plus one.
const INCREMENT: u64 = (54 << 1) | 1;

impl Random {
    /// The generator at the start of a seed's sequence.
    pub fn new(seed: u64) -> Random {
        let mut random = Random { state: 0 };
        random.step();
        random.state = random.state.wrapping_add(seed);
        random.step();
        random
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
    }

    /// The next 32 bits.
    pub fn bits(&mut self) -> u32 {
        let old = self.state;
        self.step();
        let mixed = ((old >> 18) ^ old) >> 27;
        #[allow(clippy::cast_possible_truncation, reason = "the generator keeps the low 32 bits")]
        let mixed = mixed as u32;
        mixed.rotate_right((old >> 59) as u32)
    }

    /// A number from 0 (included) to 1 (excluded), of 53 random bits.
    pub fn unit(&mut self) -> f64 {
        let high = u64::from(self.bits());
        let low = u64::from(self.bits());
        let bits = ((high << 32) | low) >> 11;
        // 53 bits are exact in an F64, and the factor is a power of two.
        #[allow(clippy::cast_precision_loss, reason = "53 bits fit")]
        let whole = bits as f64;
        whole * (1.0 / 9_007_199_254_740_992.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_the_published_numbers() {
        let mut random = Random::new(42);
        let first = [0xa15c_02b7, 0x7b47_f409, 0xba1d_3330, 0x83d2_f293, 0xbfa4_784b, 0xcbed_606e];
        assert_eq!([(); 6].map(|()| random.bits()), first);
    }

    #[test]
    fn units_are_below_one_and_spread() {
        let mut random = Random::new(7);
        let units: Vec<f64> = (0..10_000).map(|_| random.unit()).collect();
        assert!(units.iter().all(|unit| (0.0..1.0).contains(unit)));
        let mean = units.iter().sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
    }
}
