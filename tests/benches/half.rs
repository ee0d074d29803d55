//! Conversions of half floats: `apr_sdk::half` beside the crate `half`, for single values and for slices.

#![allow(missing_docs, reason = "a program, not a library")]

use apr_sdk::half as own;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use std::hint::black_box;
use std::time::{Duration, Instant};

const ELEMENTS: u32 = 1 << 20;
const ROUNDS: u32 = 15;

/// Prints the least time of all rounds.
fn time(what: &str, mut convert: impl FnMut()) {
    let mut least = Duration::MAX;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        convert();
        least = least.min(began.elapsed());
    }
    println!("{what:<34} {:.2} ms", least.as_secs_f64() * 1e3);
}

fn main() {
    let bits: Vec<u16> = (0..ELEMENTS)
        .map(|n| u16::from_le_bytes(n.wrapping_mul(0x9e37_79b1).to_le_bytes()[2..].try_into().unwrap()))
        .collect();
    let halves: Vec<f16> = bits.iter().map(|bits| f16::from_bits(*bits)).collect();
    let floats: Vec<f32> = bits.iter().map(|bits| own::from_f16(*bits) * 1.0001).collect();
    let mut widened = vec![0f32; bits.len()];
    let mut rounded = vec![0u16; bits.len()];
    let mut rounded_halves = halves.clone();
    let mut rounded_brains = vec![bf16::ZERO; bits.len()];
    println!("{ELEMENTS} elements, least of {ROUNDS} rounds");
    time("F16 to F32, own", || {
        widened.iter_mut().zip(&bits).for_each(|(out, bits)| *out = own::from_f16(*bits));
        black_box(&widened);
    });
    time("F16 to F32, crate, single", || {
        widened.iter_mut().zip(&halves).for_each(|(out, half)| *out = half.to_f32());
        black_box(&widened);
    });
    time("F16 to F32, crate, slice", || {
        halves.convert_to_f32_slice(&mut widened);
        black_box(&widened);
    });
    time("F32 to F16, own", || {
        rounded.iter_mut().zip(&floats).for_each(|(out, value)| *out = own::to_f16(*value));
        black_box(&rounded);
    });
    time("F32 to F16, crate, single", || {
        rounded_halves.iter_mut().zip(&floats).for_each(|(out, value)| *out = f16::from_f32(*value));
        black_box(&rounded_halves);
    });
    time("F32 to F16, crate, slice", || {
        rounded_halves.convert_from_f32_slice(&floats);
        black_box(&rounded_halves);
    });
    time("F32 to BF16, own", || {
        rounded.iter_mut().zip(&floats).for_each(|(out, value)| *out = own::to_bf16(*value));
        black_box(&rounded);
    });
    time("F32 to BF16, crate, single", || {
        rounded_brains.iter_mut().zip(&floats).for_each(|(out, value)| *out = bf16::from_f32(*value));
        black_box(&rounded_brains);
    });
    time("F32 to BF16, crate, slice", || {
        rounded_brains.convert_from_f32_slice(&floats);
        black_box(&rounded_brains);
    });
    let other = (0..=u16::MAX)
        .filter(|bits| own::from_f16(*bits).to_bits() != f16::from_bits(*bits).to_f32().to_bits());
    println!("F16 that widen to other bits: {}", other.count());
}
