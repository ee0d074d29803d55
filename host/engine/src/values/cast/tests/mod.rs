//! Checks casts against the definitions of the formats, for every 16-bit code.

#![allow(clippy::cast_possible_truncation, reason = "a test's numbers are small")]

use super::*;

fn cast(from: DType, to: DType, bytes: &[u8]) -> (Vec<u8>, Changes) {
    let Some(cast) = CastKernel::new(from, to, None).unwrap() else {
        return (bytes.to_vec(), Changes::default());
    };
    let mut out = vec![0; cast.after(bytes.len() as u64) as usize];
    let changes = cast.apply(bytes, &mut out);
    (out, changes)
}

fn all_halves() -> Vec<u8> {
    (0..=u16::MAX).flat_map(u16::to_le_bytes).collect()
}

fn words<const N: usize>(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.as_chunks::<N>().0.iter();
    words.map(|bytes| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))).collect()
}

/// The value of a code, by the definition of IEEE 754; `None` if it is not finite.
fn value(code: u64, exponent_bits: u32, mantissa_bits: u32) -> Option<f64> {
    let all = (1u64 << exponent_bits) - 1;
    let bias = (1i32 << (exponent_bits - 1)) - 1;
    let mantissa = (code & ((1 << mantissa_bits) - 1)) as u32;
    let exponent = code >> mantissa_bits & all;
    let sign = if code >> (exponent_bits + mantissa_bits) & 1 == 1 { -1.0 } else { 1.0 };
    let scale = 2f64.powi(exponent.max(1) as i32 - bias - mantissa_bits as i32);
    let leading = if exponent == 0 { 0.0 } else { 2f64.powi(mantissa_bits as i32) };
    (exponent != all).then(|| sign * (leading + f64::from(mantissa)) * scale)
}

/// Finds the nearest code of a 16-bit format by trying all of them; ties go to the even code.
struct Nearest {
    /// The finite non-negative values, ascending, each at the index of its code.
    values: Vec<f64>,
    exponent_bits: u32,
}

impl Nearest {
    fn new(exponent_bits: u32) -> Nearest {
        let finite = (0..0x8000).map_while(|code| value(code, exponent_bits, 15 - exponent_bits));
        Nearest { values: finite.collect(), exponent_bits }
    }

    fn code(&self, wanted: f64) -> u64 {
        let sign = u64::from(wanted.is_sign_negative()) << 15;
        let size = wanted.abs();
        let above = self.values.partition_point(|v| *v < size);
        let infinity = self.values.len();
        // Infinity takes the place of the next value.
        let last = self.values[infinity - 1];
        let next = self.values.get(above).copied().unwrap_or(2.0 * last - self.values[infinity - 2]);
        let code = match above {
            0 => 0,
            _ if above == infinity && size > next => infinity,
            _ => {
                let down = size - self.values[above - 1];
                let up = next - size;
                if down < up || down == up && above % 2 == 1 { above - 1 } else { above }
            }
        };
        sign | code as u64
    }

    fn dtype(&self) -> DType {
        if self.exponent_bits == 5 { DType::F16 } else { DType::BF16 }
    }
}

const KINDS: [(DType, u32); 2] = [(DType::F16, 5), (DType::BF16, 8)];

#[test]
fn every_16_bit_code_is_read_as_its_definition_says_and_comes_back() {
    let codes = all_halves();
    for (dtype, exponent_bits) in KINDS {
        let (single, changes) = cast(dtype, DType::F32, &codes);
        let (double, _) = cast(dtype, DType::F64, &codes);
        let mantissa_bits = 15 - exponent_bits;
        for ((code, single), double) in (0u64..).zip(words::<4>(&single)).zip(words::<8>(&double)) {
            match value(code, exponent_bits, mantissa_bits) {
                Some(value) => {
                    assert_eq!(
                        f64::from(f32::from_bits(single as u32)).to_bits(),
                        value.to_bits(),
                        "{code:x}"
                    );
                    assert_eq!(double, value.to_bits(), "{code:x}");
                }
                // Sign, all exponent bits, and the payload in its place.
                None => {
                    let sign = code >> 15;
                    let payload = code & ((1 << mantissa_bits) - 1);
                    assert_eq!(single, sign << 31 | 0xff << 23 | payload << (23 - mantissa_bits), "{code:x}");
                    assert_eq!(
                        double,
                        sign << 63 | 0x7ff << 52 | payload << (52 - mantissa_bits),
                        "{code:x}"
                    );
                }
            }
        }
        let odd = 2 << mantissa_bits;
        assert_eq!(changes, Changes { nonfinite: odd, ..Changes::default() });
        for (wide, bytes) in [(DType::F32, single), (DType::F64, double)] {
            let (back, changes) = cast(wide, dtype, &bytes);
            assert_eq!(changes, Changes { nonfinite: odd, ..Changes::default() });
            for (code, back) in (0u64..).zip(words::<2>(&back)) {
                let is_nan = code & 0x7fff > ((1 << exponent_bits) - 1) << mantissa_bits;
                let quiet = if is_nan { 1 << (mantissa_bits - 1) } else { 0 };
                assert_eq!(back, code | quiet, "{wide} {dtype}");
            }
        }
    }
}

/// Values around every code: the value, its midpoints with its neighbours, and values just off both.
fn around(values: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0, f64::MAX, 5e-324, 1e-45, 3.402_823_5e38, 1e-30];
    for pair in values.windows(2) {
        let middle = f64::midpoint(pair[0], pair[1]);
        for exact in [pair[1], middle] {
            out.extend([exact, exact.next_up(), exact.next_down()]);
            out.extend([f64::from((exact as f32).next_up()), f64::from((exact as f32).next_down())]);
        }
    }
    let last = values[values.len() - 1];
    let half = (last - values[values.len() - 2]) / 2.0;
    out.extend([last + half, (last + half).next_down(), (last + half).next_up(), last * 2.0]);
    out.extend(out.clone().into_iter().map(|v| -v));
    out
}

#[test]
fn whatever_is_made_narrower_is_the_nearest_and_ties_are_even() {
    for (_, exponent_bits) in KINDS {
        let nearest = Nearest::new(exponent_bits);
        let wanted = around(&nearest.values);
        let doubles: Vec<u8> = wanted.iter().flat_map(|v| v.to_le_bytes()).collect();
        let (codes, changes) = cast(DType::F64, nearest.dtype(), &doubles);
        let mut counted = Changes::default();
        for (wanted, code) in wanted.iter().zip(words::<2>(&codes)) {
            assert_eq!(code, nearest.code(*wanted), "{} of {wanted:e}", nearest.dtype());
            match value(code, exponent_bits, 15 - exponent_bits) {
                Some(value) => counted.rounded += u64::from(value != *wanted),
                None => counted.overflowed += 1,
            }
        }
        assert_eq!(changes, counted);
        let singles: Vec<f32> = wanted.iter().map(|v| *v as f32).collect();
        let bytes: Vec<u8> = singles.iter().flat_map(|v| v.to_le_bytes()).collect();
        let (codes, _) = cast(DType::F32, nearest.dtype(), &bytes);
        for (wanted, code) in singles.iter().zip(words::<2>(&codes)) {
            let want = if wanted.is_infinite() {
                nearest.code(f64::from(*wanted).signum() * 1e300)
            } else {
                nearest.code(f64::from(*wanted))
            };
            assert_eq!(code, want, "{} of {wanted:e}", nearest.dtype());
        }
    }
}

const SMALL: [DType; 4] = [DType::F8_E4M3, DType::F8_E5M2, DType::F8_E4M3FNUZ, DType::F8_E5M2FNUZ];

#[test]
fn small_floats_are_the_nearest_ties_are_even_and_what_is_too_large_is_told() {
    for dtype in SMALL {
        let mut values = vec![0.0f32; 256];
        let codes: Vec<u8> = (0..=255).collect();
        crate::values::numbers::Numbers::new(dtype).unwrap().read_narrow(&codes, &mut values);
        // Finite non-negative values ascend with their codes.
        let finite: Vec<f64> =
            values[..128].iter().map(|v| f64::from(*v)).take_while(|v| v.is_finite()).collect();
        let last = finite.len() - 1;
        for wanted in around(&finite) {
            let size = wanted.abs();
            let above = finite.partition_point(|v| *v < size);
            let next = finite.get(above).copied().unwrap_or(2.0 * finite[last] - finite[last - 1]);
            let code = match above {
                0 => 0,
                _ if above > last && size > next => above,
                _ => {
                    let down = size - finite[above - 1];
                    let up = next - size;
                    if down < up || down == up && above % 2 == 1 { above - 1 } else { above }
                }
            };
            for (from, bytes) in [
                (DType::F64, wanted.to_le_bytes().to_vec()),
                (DType::F32, (wanted as f32).to_le_bytes().to_vec()),
            ] {
                if from == DType::F32 && f64::from(wanted as f32) != wanted {
                    continue;
                }
                let (made, changes) = cast(from, dtype, &bytes);
                let made = values[usize::from(made[0])];
                if code > last {
                    assert!(!made.is_finite() && changes.overflowed == 1, "{dtype} of {wanted:e}: {made}");
                } else {
                    let want = finite[code] * wanted.signum();
                    assert_eq!(f64::from(made), want, "{dtype} of {wanted:e}");
                    assert_eq!(changes.rounded, u64::from(want != wanted), "{dtype} of {wanted:e}");
                }
            }
        }
        let (back, changes) = cast(DType::F32, dtype, &cast(dtype, DType::F32, &codes).0);
        for (code, back) in codes.iter().zip(&back) {
            let are_nan = [code, back].iter().all(|code| values[usize::from(**code)].is_nan());
            assert!(code == back || are_nan, "{dtype}");
        }
        let odd = values.iter().filter(|v| !v.is_finite()).count() as u64;
        assert_eq!(changes, Changes { nonfinite: odd, ..Changes::default() });
    }
}

#[test]
fn small_floats_are_read_as_the_table_of_numbers_reads_them() {
    for dtype in [DType::F8_E8M0].into_iter().chain(SMALL) {
        let codes: Vec<u8> = (0..=255).collect();
        let (singles, _) = cast(dtype, DType::F32, &codes);
        let mut values = vec![0.0; 256];
        crate::values::numbers::Numbers::new(dtype).unwrap().read_narrow(&codes, &mut values);
        for (value, bits) in values.into_iter().zip(words::<4>(&singles)) {
            let read = f32::from_bits(bits as u32);
            assert!(read.to_bits() == value.to_bits() || read.is_nan() && value.is_nan(), "{value} {read}");
        }
    }
}

#[test]
fn an_addition_counts_what_it_does_not_give_back() {
    let values = [0.5f32, 1e-9, -1.0, f32::NAN, 16_777_216.0];
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let cast = CastKernel::new(DType::F32, DType::F32, Some(1.0)).unwrap().unwrap();
    let mut out = vec![0; bytes.len()];
    let changes = cast.apply(&bytes, &mut out);
    assert_eq!(changes, Changes { nonfinite: 1, not_undone: 2, ..Changes::default() });
    assert_eq!(words::<4>(&out)[..3], [1.5f32, 1.0, 0.0].map(|v| u64::from(v.to_bits())));
    assert_eq!(cast.first_bad(&bytes).unwrap(), (3, "NaN, not finite".to_owned()));
    let half = CastKernel::new(DType::F32, DType::F16, None).unwrap().unwrap();
    assert_eq!(half.first_bad(&70000f32.to_le_bytes()).unwrap(), (0, "7e4, out of range for F16".to_owned()));
}

#[test]
fn integers_and_blocks_are_not_cast_and_nothing_is_no_cast() {
    assert!(CastKernel::new(DType::I32, DType::F32, None).is_err());
    assert!(CastKernel::new(DType::F32, DType::Q8_0, None).is_err());
    assert!(CastKernel::new(DType::F64, DType::F64, Some(1.0)).is_err());
    assert!(CastKernel::new(DType::I32, DType::I32, None).unwrap().is_none());
}
