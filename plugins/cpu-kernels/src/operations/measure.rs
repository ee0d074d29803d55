//! Figures of rows: extremes, sums and counts.

use super::functions::{count, narrow};
use super::vector::{LANES, total};
use crate::level::versions;
use crate::session::compile::Compiler;
use crate::session::step::{Division, Step, Task};
use apr_sdk::{Columns, Result};

struct Measure {
    x: Columns,
    out: Columns,
}

pub(super) fn compile(operation: &apr_sdk::Measure, compiler: &mut Compiler<'_>) {
    let (x, out) = (compiler.columns(&operation.x), compiler.columns(&operation.out));
    compiler.written(&out);
    compiler.push(Measure { x, out });
}

impl Task for Measure {
    fn division(&self) -> Division {
        Division::Rows(self.x.rows)
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        for row in step.rows(self.x.rows, worker) {
            // SAFETY: this worker has its rows to itself.
            let x = unsafe { step.values.read(&self.x, row) };
            // SAFETY: as above, and the two have no element in common.
            let out = unsafe { step.values.write(&self.out, row) };
            let [least, greatest] = extremes(step.level, x);
            let [sum, squares] = sums(step.level, x);
            let [zeros, finite] = counts(step.level, x);
            let others = narrow(count(x.len()) - f64::from(finite));
            out.copy_from_slice(&[least, greatest, narrow(sum), narrow(squares), number(zeros), others]);
        }
        Ok(())
    }
}

/// A count as a float; no row is so wide that it is rounded.
fn number(count: u32) -> f32 {
    narrow(f64::from(count))
}

/// An element, or 0 in the place of one that is not finite.
#[inline(always)]
fn finite(x: f32) -> f32 {
    if x.abs() < f32::INFINITY { x } else { 0.0 }
}

/// Rows of lanes that are added up in single precision before their sum goes on in double: 256 elements, few enough that what is
/// lost is far below the last place of the result.
const BLOCK: usize = 16;

/// The elements behind the last whole lanes, filled up with what a function ignores.
#[inline(always)]
fn filled(rest: &[f32], with: f32) -> [f32; LANES] {
    let mut lanes = [with; LANES];
    lanes[..rest.len()].copy_from_slice(rest);
    lanes
}

versions! {
    /// The least and the greatest of the finite elements.
    extremes(x: &[f32]) -> [f32; 2] {
        let mut lows = [f32::INFINITY; LANES];
        let mut highs = [f32::NEG_INFINITY; LANES];
        let (chunks, rest) = x.as_chunks::<LANES>();
        for chunk in chunks.iter().chain([&filled(rest, f32::NAN)]) {
            for lane in 0..LANES {
                let is_finite = chunk[lane].abs() < f32::INFINITY;
                let under = if is_finite { chunk[lane] } else { f32::INFINITY };
                let over = if is_finite { chunk[lane] } else { f32::NEG_INFINITY };
                lows[lane] = if under < lows[lane] { under } else { lows[lane] };
                highs[lane] = if over > highs[lane] { over } else { highs[lane] };
            }
        }
        let least = lows.iter().fold(f32::INFINITY, |least, x| if *x < least { *x } else { least });
        let greatest = highs.iter().fold(f32::NEG_INFINITY, |most, x| if *x > most { *x } else { most });
        [least, greatest]
    }

    /// The sum of the finite elements, and the sum of their squares.
    sums(x: &[f32]) -> [f64; 2] {
        let mut sum = 0f64;
        let mut square = 0f64;
        let (chunks, rest) = x.as_chunks::<LANES>();
        for block in chunks.chunks(BLOCK).chain([&[filled(rest, 0.0)][..]]) {
            let mut sums = [0f32; LANES];
            let mut squares = [0f32; LANES];
            for chunk in block {
                for lane in 0..LANES {
                    let x = finite(chunk[lane]);
                    sums[lane] += x;
                    squares[lane] += x * x;
                }
            }
            sum += f64::from(total(sums));
            square += f64::from(total(squares));
        }
        [sum, square]
    }

    /// The number of zeros, and the number of finite elements.
    counts(x: &[f32]) -> [u32; 2] {
        let mut zeros = [0u32; LANES];
        let mut finite = [0u32; LANES];
        let (chunks, rest) = x.as_chunks::<LANES>();
        for chunk in chunks.iter().chain([&filled(rest, f32::NAN)]) {
            for lane in 0..LANES {
                zeros[lane] += u32::from(chunk[lane] == 0.0);
                finite[lane] += u32::from(chunk[lane].abs() < f32::INFINITY);
            }
        }
        [total(zeros), total(finite)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::vector::levels;

    #[test]
    fn every_level_gives_the_same_figures() {
        let mut x: Vec<f32> = (0..103u16).map(|i| (f32::from(i) * 0.37).sin()).collect();
        x[7] = 0.0;
        x[40] = f32::NAN;
        x[102] = f32::NEG_INFINITY;
        for level in levels() {
            let [least, greatest] = extremes(level, &x);
            assert!((-1.0..-0.99).contains(&least) && (0.99..=1.0).contains(&greatest));
            // The first is the sine of 0.
            assert_eq!(counts(level, &x), [2, 101]);
            let bits = sums(level, &x).map(f64::to_bits);
            assert_eq!(bits, sums(crate::level::Level::Scalar, &x).map(f64::to_bits));
        }
    }
}
