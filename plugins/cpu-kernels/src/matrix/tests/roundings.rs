//! Roundings of activations against their definitions, and against the error that ggml makes.

use super::*;

/// Rounds as ggml does, in F64: per 256 with the signed maximum, or per 32 with a scale that is rounded to a half.
fn of_ggml(rounding: Rounding, values: &[f32]) -> Vec<f64> {
    let largest = values.iter().copied().fold(0f32, |a, b| if b.abs() > a.abs() { b } else { a });
    let (inverse, scale) = match rounding {
        Rounding::Blocks256 => (-127.0 / largest, f64::from(1.0 / (-127.0 / largest))),
        _ => {
            let scale = largest.abs() / 127.0;
            (127.0 / largest.abs(), f64::from(apr_sdk::half::from_f16(to_f16(scale))))
        }
    };
    values.iter().map(|x| f64::from((x * inverse).round_ties_even().min(127.0)) * scale).collect()
}

fn error(values: &[f32], rounded: impl Iterator<Item = f64>) -> f64 {
    values.iter().zip(rounded).map(|(x, rounded)| (f64::from(*x) - rounded).powi(2)).sum()
}

#[test]
fn rounding_loses_no_more_than_that_of_ggml() {
    let noise = &mut Noise(21);
    for (rounding, block) in [(Rounding::Blocks32, 32), (Rounding::Blocks256, 256)] {
        for power in [1, 3] {
            let values: Vec<f32> = (0..1 << 16).map(|_| noise.normal().powi(power)).collect();
            let x = Activations::new(rounding, values.len(), 1).unwrap();
            for level in levels() {
                // SAFETY: there is one thread.
                unsafe { x.fill(level, 0, &values) };
                let ours = error(&values, x.values(0).into_iter().map(f64::from));
                let theirs = error(&values, values.chunks(block).flat_map(|block| of_ggml(rounding, block)));
                assert!(ours > 0.0 && ours.sqrt() <= 1.02 * theirs.sqrt(), "{rounding:?}: {ours} {theirs}");
            }
        }
    }
}

#[test]
fn every_level_rounds_alike() {
    let noise = &mut Noise(22);
    for rounding in Rounding::ALL {
        let values: Vec<f32> = (0..1024).map(|n| noise.even() * (n / 8) as f32).collect();
        let x = Activations::new(rounding, values.len(), Level::ALL.len()).unwrap();
        for level in levels() {
            // SAFETY: there is one thread.
            unsafe { x.fill(level, level as usize, &values) };
            assert_eq!(x.bytes(level as usize), x.bytes(0), "{rounding:?} at {}", level.name());
        }
    }
}

#[test]
fn ties_go_to_even_and_small_numbers_to_zero() {
    for (rounding, block) in [(Rounding::Blocks32, 32), (Rounding::Blocks256, 256)] {
        let mut values = vec![0.0; block * 3];
        values[..6].copy_from_slice(&[-127.0, 0.5, 1.5, 2.5, -3.5, 126.5]);
        values[block..block + 3].copy_from_slice(&[1e-41, -1e-41, 1e-45]);
        values[2 * block..2 * block + 2].copy_from_slice(&[1e38, -1e38]);
        let x = Activations::new(rounding, values.len(), 1).unwrap();
        for level in levels() {
            // SAFETY: there is one thread.
            unsafe { x.fill(level, 0, &values) };
            let is = x.values(0);
            assert_eq!(is[..6], [-127.0, 0.0, 2.0, 2.0, -4.0, 126.0]);
            assert!(is[block..block + 3].iter().all(|x| *x == 0.0));
            assert!((is[2 * block] / 1e38 - 1.0).abs() < 1e-6);
        }
    }
}

#[test]
fn records_hold_the_sums() {
    let noise = &mut Noise(23);
    let values: Vec<f32> = (0..512).map(|_| noise.even()).collect();
    for rounding in [Rounding::Blocks32, Rounding::Blocks256] {
        let x = Activations::new(rounding, 512, 1).unwrap();
        for level in levels() {
            // SAFETY: there is one thread.
            unsafe { x.fill(level, 0, &values) };
            let bytes = x.bytes(0);
            let int = |at: usize| i32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let float = |at: usize| f32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let sum = |from: usize, count: usize| {
                bytes[from..from + count].iter().map(|code| i32::from(*code as i8)).sum::<i32>()
            };
            let two =
                |low: usize, high: usize| i32::from(bytes[low] as i8) + 128 * i32::from(bytes[high] as i8);
            for block in 0..512 / 32 {
                if rounding == Rounding::Blocks32 {
                    let record = 512 + 16 * block;
                    assert_eq!(int(record + 8), -8 * sum(32 * block, 32));
                    assert_eq!(float(record + 4), float(record) * sum(32 * block, 32) as f32);
                } else {
                    let record = 512 + 128 * (block / 8);
                    assert_eq!(two(record + 96 + block % 8, record + 104 + block % 8), sum(32 * block, 32));
                    for n in [2 * block, 2 * block + 1] {
                        assert_eq!(int(record + 4 * (n % 16)), -32 * sum(16 * n, 16));
                        assert_eq!(two(record + 64 + n % 16, record + 80 + n % 16), sum(16 * n, 16));
                    }
                }
            }
        }
    }
}
