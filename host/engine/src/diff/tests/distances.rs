//! Distances of a few numbers, worked out by hand.

use crate::diff::distance::{Distance, Measure};
use crate::registry::Registry;
use crate::values::double_double::DoubleDouble;
use apr_sdk::DType;

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn f32s(a: &[f32], b: &[f32], tolerance: f64) -> Distance {
    let measure = Measure::new(DType::F32, DType::F32, tolerance, &Registry::new()).unwrap();
    measure.run(&bytes(a), &bytes(b), a.len())
}

/// The distance of `n` numbers of two types.
fn of_types(a: DType, b: DType, x: &[u8], y: &[u8], n: usize) -> Distance {
    Measure::new(a, b, 0.0, &Registry::new()).unwrap().run(x, y, n)
}

#[test]
fn distances_are_those_of_their_definitions() {
    let d = f32s(&[1.0, -2.0, 4.0, 0.0], &[1.0, -2.5, 3.0, -0.0], 0.0);
    assert_eq!((d.count, d.finite, d.differing), (4, 4, 2));
    assert_eq!((d.max_abs, d.max_at, d.mean_abs()), (1.0, 2, 0.375));
    assert_eq!((d.l2(), d.squares.map(DoubleDouble::value)), (1.25f64.sqrt(), [21.0, 16.25]));
    assert!((d.relative() - 1.25f64.sqrt() / 21f64.sqrt()).abs() < 1e-15);
    let cosine = (1.0 + 5.0 + 12.0) / (21f64.sqrt() * 16.25f64.sqrt());
    assert!((d.cosine().unwrap() - cosine).abs() < 1e-15);
    assert_eq!(f32s(&[0.0], &[0.0], 0.0).cosine(), None);
}

#[test]
fn numbers_that_are_not_finite_are_counted_and_left_out_of_the_sums() {
    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;
    let d = f32s(&[NAN, NAN, INF, INF, INF, 1.0, 3.0], &[NAN, 1.0, INF, -INF, 2.0, INF, 2.5], 0.0);
    assert_eq!((d.nans, d.infs, d.mismatched, d.differing), ([2, 1], [3, 3], 4, 5));
    assert_eq!((d.finite, d.max_abs, d.max_at), (1, 0.5, 6));
    assert_eq!(d.max_ulp, 1 << 21);
}

#[test]
fn representable_values_are_counted_across_zero() {
    let least = f32::from_bits(1);
    assert_eq!(f32s(&[least], &[-least], 0.0).max_ulp, 2);
    assert_eq!(f32s(&[0.0; 20], &[-0.0; 20], 0.0).max_ulp, 0);
    assert_eq!(f32s(&[1.0], &[1.0 + f32::EPSILON], 0.0).max_ulp, 1);
    assert_eq!(f32s(&[f32::MAX], &[f32::MIN], 0.0).max_ulp, 2 * u64::from(f32::MAX.to_bits()));
    assert_eq!(of_types(DType::F16, DType::F16, &[0x00, 0x3c], &[0x03, 0x3c], 1).max_ulp, 3);
}

#[test]
fn a_tolerance_forgives_differences_up_to_it() {
    for (tolerance, differing) in [(0.0, 2), (0.25, 1), (0.5, 0)] {
        assert_eq!(f32s(&[0.0, 0.5, 1.0], &[0.25, 1.0, 1.0], tolerance).differing, differing);
    }
}

#[test]
fn types_are_compared_by_their_values() {
    let wide = bytes(&[1.0, 2f32.powi(-24)]);
    let d = of_types(DType::F16, DType::F32, &[0x00, 0x3c, 0x01, 0x00], &wide, 2);
    assert_eq!((d.differing, d.max_ulp), (0, 0));
    // 2^53 + 1 does not fit an f64: the last bit still counts.
    let odd = (1i64 << 53) + 1;
    let d = of_types(DType::I64, DType::F64, &odd.to_le_bytes(), &2f64.powi(53).to_le_bytes(), 1);
    assert_eq!((d.differing, d.max_abs), (1, 1.0));
    let d = of_types(DType::U64, DType::U64, &u64::MAX.to_le_bytes(), &(u64::MAX - 1).to_le_bytes(), 1);
    assert_eq!(d.max_abs, 1.0);
    assert!(Measure::new(DType::C64, DType::F32, 0.0, &Registry::new()).is_none());
    assert!(Measure::new(DType::Q4_0, DType::F32, 0.0, &Registry::new()).is_none());
}

#[test]
fn every_length_gives_what_number_by_number_gives() {
    let a: Vec<f32> = (0u16..1300).map(|n| f32::from(n) * 0.37 - 200.0).collect();
    let b: Vec<f32> = a.iter().map(|v| v * 1.01).collect();
    for n in [0, 1, 3, 4, 5, 7, 8, 511, 512, 513, 1024, 1300] {
        let d = f32s(&a[..n], &b[..n], 0.0);
        let pairs = a[..n].iter().zip(&b);
        let away: Vec<f64> = pairs.map(|(x, y)| (f64::from(*x) - f64::from(*y)).abs()).collect();
        let max = away.iter().copied().fold(0.0, f64::max);
        let at = away.iter().position(|away| *away == max).unwrap_or(0);
        assert_eq!((d.count, d.max_abs, d.max_at), (n as u64, max, at as u64), "{n}");
        let ulp = a[..n].iter().zip(&b).map(|(x, y)| u64::from(x.to_bits().abs_diff(y.to_bits()))).max();
        assert_eq!(d.max_ulp, ulp.unwrap_or(0), "{n}");
    }
}

#[test]
fn both_orders_give_the_same_distances() {
    let a: Vec<f32> = (0u16..700).map(|n| (f32::from(n) * 0.7).sin()).collect();
    let mut b: Vec<f32> = a.iter().rev().copied().collect();
    b[17] = f32::NAN;
    let there = f32s(&a, &b, 0.1);
    let back = f32s(&b, &a, 0.1);
    assert_eq!((there.nans, there.infs), ([0, 1], [0, 0]));
    let turned = Distance {
        squares: [back.squares[1], back.squares[0]],
        nans: [back.nans[1], back.nans[0]],
        infs: [back.infs[1], back.infs[0]],
        ..back
    };
    assert_eq!(there, turned);
}
