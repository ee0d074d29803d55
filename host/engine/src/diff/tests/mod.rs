//! Checks distances against a reference that goes pair by pair, decodes by the definition of the type, and
//! sums in `f64`.

mod distances;

use crate::diff::distance::{Distance, Measure};
use crate::registry::Registry;
use crate::values::double_double::DoubleDouble;
use apr_sdk::DType;

/// A float type: its bytes, and its exponent and mantissa bits.
struct Float {
    dtype: DType,
    width: usize,
    exponent: u32,
    mantissa: u32,
}

const FLOATS: [Float; 3] = [
    Float { dtype: DType::F32, width: 4, exponent: 8, mantissa: 23 },
    Float { dtype: DType::BF16, width: 2, exponent: 8, mantissa: 7 },
    Float { dtype: DType::F16, width: 2, exponent: 5, mantissa: 10 },
];

impl Float {
    fn codes(&self, bytes: &[u8]) -> Vec<u32> {
        let codes = bytes.chunks_exact(self.width);
        codes.map(|code| code.iter().rev().fold(0, |code, byte| code << 8 | u32::from(*byte))).collect()
    }

    fn bytes(&self, codes: &[u32]) -> Vec<u8> {
        codes.iter().flat_map(|code| code.to_le_bytes().into_iter().take(self.width)).collect()
    }

    /// Decodes sign, exponent and mantissa as in IEEE 754.
    fn value(&self, code: u32) -> f64 {
        let greatest = (1 << self.exponent) - 1;
        let exponent = code >> self.mantissa & greatest;
        let fraction = f64::from(code & ((1 << self.mantissa) - 1));
        let [power, bias, shift] = [exponent, greatest >> 1, self.mantissa].map(u32::cast_signed);
        let size = match exponent {
            0 => fraction * 2f64.powi(1 - bias - shift),
            all if all == greatest && fraction == 0.0 => f64::INFINITY,
            all if all == greatest => f64::NAN,
            _ => (fraction + 2f64.powi(shift)) * 2f64.powi(power - bias - shift),
        };
        if self.is_minus(code) { -size } else { size }
    }

    fn is_minus(&self, code: u32) -> bool {
        code >> (self.exponent + self.mantissa) == 1
    }

    /// How many representable values above zero it is.
    fn place(&self, code: u32) -> i64 {
        let size = i64::from(code & ((1 << (self.exponent + self.mantissa)) - 1));
        if self.is_minus(code) { -size } else { size }
    }

    fn reference(&self, a: &[u32], b: &[u32], tolerance: f64) -> Distance {
        let mut all = Distance::default();
        for (at, (&a, &b)) in a.iter().zip(b).enumerate() {
            let values = [self.value(a), self.value(b)];
            all.count += 1;
            for (side, value) in values.iter().enumerate() {
                all.nans[side] += u64::from(value.is_nan());
                all.infs[side] += u64::from(value.is_infinite());
            }
            if values.iter().any(|value| !value.is_finite()) {
                let same = values[0] == values[1] || values.iter().all(|value| value.is_nan());
                all.mismatched += u64::from(!same);
                all.differing += u64::from(!same);
                continue;
            }
            let away = (values[0] - values[1]).abs();
            all.finite += 1;
            all.differing += u64::from(away > tolerance);
            if away > all.max_abs {
                (all.max_abs, all.max_at) = (away, at as u64);
            }
            all.max_ulp = all.max_ulp.max(self.place(a).abs_diff(self.place(b)));
            let [a, b, away] = [values[0], values[1], away].map(DoubleDouble::from);
            all.sum_abs += away;
            all.sum_squares += away * away;
            all.squares = [all.squares[0] + a * a, all.squares[1] + b * b];
            all.product += a * b;
        }
        all
    }
}

/// Everything but the sums must match exactly; the sums are computed in another order.
fn assert_same(found: &Distance, wanted: &Distance, what: &str) {
    let [sums, want] = [found, wanted].map(|d| [d.sum_abs, d.sum_squares, d.squares[0], d.squares[1]]);
    for (sum, want) in sums.into_iter().zip(want) {
        let near = (sum - want).value().abs() <= 1e-12 * want.value();
        assert!(near, "{what}: {sum:?} {want:?}\n{found:?}\n{wanted:?}");
    }
    let cosine = found.cosine();
    let want = wanted.cosine();
    assert_eq!(cosine.is_some(), want.is_some(), "{what}");
    let apart = cosine.zip(want).map_or(0.0, |(cosine, want)| (cosine - want).abs());
    assert!(apart < 1e-11, "{what}: {cosine:?} {want:?}");
    let Distance { sum_abs, sum_squares, squares, product, .. } = *wanted;
    assert_eq!(&Distance { sum_abs, sum_squares, squares, product, ..found.clone() }, wanted, "{what}");
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(self.0 >> 32).unwrap()
    }
}

#[test]
fn any_bits_of_any_length_give_what_the_definitions_say() {
    let mut random = Random(1);
    for float in &FLOATS {
        let greatest = ((1u32 << float.exponent) - 1) << float.mantissa;
        let mask = u32::MAX >> (32 - 8 * float.width);
        // Masks for each code, with bits to set: any bits; only finite values; subnormals and zeros; only the
        // greatest exponents; only NaN and infinities.
        let kinds: [(u32, u32); 5] = [
            (u32::MAX, 0),
            (!(1 << float.mantissa), 0),
            (!greatest, 0),
            (!(1 << float.mantissa), greatest & !(1 << float.mantissa)),
            (!(greatest - 1) | 1, greatest),
        ];
        for (kind, (cut, besides)) in kinds.into_iter().enumerate() {
            for n in [0, 1, 2, 3, 5, 7, 8, 9, 15, 17, 31, 33, 511, 512, 513, 1023, 1025, 2000] {
                let a: Vec<u32> = (0..n).map(|_| (random.next() & cut | besides) & mask).collect();
                let mut b: Vec<u32> = (0..n).map(|_| (random.next() & cut | besides) & mask).collect();
                // Some are equal, and some differ in sign.
                b.iter_mut().zip(&a).step_by(3).for_each(|(b, a)| *b = *a);
                let sign = 1 << (float.exponent + float.mantissa);
                b.iter_mut().zip(&a).skip(1).step_by(7).for_each(|(b, a)| *b = *a ^ sign);
                let bytes_a = float.bytes(&a);
                let bytes_b = float.bytes(&b);
                assert_eq!(float.codes(&bytes_a), a);
                for tolerance in [0.0, 2f64.powi(-20), 1.0, 1e30] {
                    let measure =
                        Measure::new(float.dtype, float.dtype, tolerance, &Registry::new()).unwrap();
                    let distance = measure.run(&bytes_a, &bytes_b, a.len());
                    let case = format!("{}, kind {kind}, {n} numbers, tolerance {tolerance}", float.dtype);
                    assert_same(&distance, &float.reference(&a, &b, tolerance), &case);
                }
            }
        }
    }
}

#[test]
fn one_number_that_is_not_finite_changes_only_its_own_part() {
    for float in &FLOATS {
        let one = 0x3f80_0000 >> (8 * (4 - float.width));
        let one = if float.dtype == DType::F16 { 0x3c00 } else { one };
        let greatest = ((1u32 << float.exponent) - 1) << float.mantissa;
        for (at, odd) in [(0, greatest), (511, greatest + 1), (512, greatest), (699, greatest + 1)] {
            let a: Vec<u32> = (0..700).map(|n| one + n % 100).collect();
            let mut b: Vec<u32> = a.iter().map(|code| code + 3).collect();
            b[at] = odd;
            let measure = Measure::new(float.dtype, float.dtype, 0.0, &Registry::new()).unwrap();
            let distance = measure.run(&float.bytes(&a), &float.bytes(&b), a.len());
            assert_same(&distance, &float.reference(&a, &b, 0.0), &format!("{} at {at}", float.dtype));
            assert_eq!(
                (distance.finite, distance.mismatched, distance.max_ulp),
                (699, 1, 3),
                "{}",
                float.dtype
            );
        }
    }
}
