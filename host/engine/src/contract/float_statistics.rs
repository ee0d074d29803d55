//! Statistics of a tensor's floats: those that fit 32 bits in lanes, the fast way, where it is exact enough.
//!
//! The loops are plain and branch-free, so that the compiler vectorizes them, once per kind of processor. The
//! number of lanes is the same on all of them, so all give the same sums.

use super::run_statistics::RunStatistics;
use crate::values::cast::floats::{BF16, F16, F32, F64, Source};
use crate::values::cast::small::{F8_E4M3, F8_E5M2};
use crate::values::double_double::DoubleDouble;
use crate::values::moments::Moments;
use crate::values::numbers::{CHUNK, Chunk, Numbers};
use apr_sdk::{DType, DTypeKind};
use fearless_simd::{Level, dispatch};

/// Sums accumulated side by side.
const LANES: usize = 16;

/// Examines whole little-endian elements.
pub type Look = fn(&[u8]) -> RunStatistics;

/// The function that examines a float type; `None` for types that are not floats of whole bytes.
pub fn look_at(dtype: DType) -> Option<Look> {
    let info = dtype.info().filter(|info| info.kind == DTypeKind::Float && info.block_elements == 1)?;
    if let Some((_, look)) = FAST.iter().find(|row| row.0 == dtype) {
        return Some(*look);
    }
    match info.dtype {
        DType::F8_E4M3FNUZ => Some(|bytes| slow(DType::F8_E4M3FNUZ, bytes)),
        DType::F8_E5M2FNUZ => Some(|bytes| slow(DType::F8_E5M2FNUZ, bytes)),
        DType::F8_E8M0 => Some(|bytes| slow(DType::F8_E8M0, bytes)),
        _ => None,
    }
}

static FAST: &[(DType, Look)] = &[
    (DType::F32, |bytes| dispatch!(Level::new(), _ => narrow::<F32, 4>(bytes))),
    (DType::F16, |bytes| dispatch!(Level::new(), _ => narrow::<F16, 2>(bytes))),
    (DType::BF16, |bytes| dispatch!(Level::new(), _ => narrow::<BF16, 2>(bytes))),
    (DType::F8_E4M3, |bytes| dispatch!(Level::new(), _ => narrow::<F8_E4M3, 1>(bytes))),
    (DType::F8_E5M2, |bytes| dispatch!(Level::new(), _ => narrow::<F8_E5M2, 1>(bytes))),
    (DType::F64, |bytes| dispatch!(Level::new(), _ => wide(bytes))),
];

/// The sums of all lanes.
struct Lanes {
    sum: [f64; LANES],
    squares: [f64; LANES],
    least: [f32; LANES],
    most: [f32; LANES],
    zeros: [u32; LANES],
    nans: [u32; LANES],
    infs: [u32; LANES],
}

impl Lanes {
    #[inline(always)]
    fn new() -> Lanes {
        let least = [f32::INFINITY; LANES];
        let most = [f32::NEG_INFINITY; LANES];
        let sums = [0.0; LANES];
        let zeros = [0; LANES];
        Lanes { sum: sums, squares: sums, least, most, zeros, nans: zeros, infs: zeros }
    }

    /// Adds a block, unless its sums are not sound or, with `ALL_FINITE`, one of its values is not finite. Where both
    /// variants add a block, they add the same.
    #[inline(always)]
    fn add_block<S: Source<N, Wide = f32>, const N: usize, const ALL_FINITE: bool>(
        &mut self,
        block: &[[u8; N]; BLOCK],
    ) -> Added {
        let mut sum = [0f32; LANES];
        let mut squares = [0f32; LANES];
        let mut zeros = [0u32; LANES];
        let mut least = [f32::INFINITY; LANES];
        let mut most = [f32::NEG_INFINITY; LANES];
        let mut nans = zeros;
        let mut infs = zeros;
        for group in block.as_chunks::<LANES>().0 {
            for lane in 0..LANES {
                let read = S::read(group[lane]);
                if !ALL_FINITE {
                    nans[lane] += u32::from(read.is_nan());
                    infs[lane] += u32::from(read.is_infinite());
                    // Comparisons with NaN are false, and zeros add nothing.
                    let finite = if read.is_finite() { read } else { f32::NAN };
                    least[lane] = if finite < least[lane] { finite } else { least[lane] };
                    most[lane] = if finite > most[lane] { finite } else { most[lane] };
                    zeros[lane] += u32::from(finite == 0.0);
                    let held = if read.is_finite() { read } else { 0.0 };
                    sum[lane] += held;
                    squares[lane] += held * held;
                    continue;
                }
                let value = read;
                sum[lane] += value;
                squares[lane] += value * value;
                least[lane] = if value < least[lane] { value } else { least[lane] };
                most[lane] = if value > most[lane] { value } else { most[lane] };
                zeros[lane] += u32::from(value == 0.0);
            }
        }
        let energy = squares.iter().sum::<f32>();
        if ALL_FINITE && !energy.is_finite() {
            return Added::NotFinite;
        }
        let n_bad = nans.iter().chain(&infs).sum::<u32>();
        if zeros.iter().sum::<u32>() + n_bad < BLOCK_LEN
            && !is_sound(sum.iter().sum(), energy, BLOCK_LEN - n_bad)
        {
            return Added::No;
        }
        for lane in 0..LANES {
            self.sum[lane] += f64::from(sum[lane]);
            self.squares[lane] += f64::from(squares[lane]);
            self.least[lane] = self.least[lane].min(least[lane]);
            self.most[lane] = self.most[lane].max(most[lane]);
            self.zeros[lane] += zeros[lane];
            self.nans[lane] += nans[lane];
            self.infs[lane] += infs[lane];
        }
        Added::Yes
    }

    /// The number of values that were not finite.
    #[inline(always)]
    fn n_bad(&self) -> u32 {
        self.nans.iter().chain(&self.infs).sum()
    }

    fn statistics(&self, values: usize) -> RunStatistics {
        let counts = [self.zeros, self.nans, self.infs];
        let [zeros, nans, infs] = counts.map(|lanes| lanes.iter().map(|n| u64::from(*n)).sum());
        RunStatistics {
            values: values as u64,
            zeros,
            nans,
            infs,
            min: self.least.iter().fold(f64::INFINITY, |min, x| min.min(f64::from(*x))),
            max: self.most.iter().fold(f64::NEG_INFINITY, |max, x| max.max(f64::from(*x))),
            moments: Moments {
                sum: DoubleDouble::from(self.sum.iter().sum::<f64>()),
                squares: DoubleDouble::from(self.squares.iter().sum::<f64>()),
            },
            ..RunStatistics::default()
        }
    }
}

/// Elements per block, 32 per lane: few enough for accurate sums in 32 bits.
const BLOCK: usize = 512;
/// The same as a count.
const BLOCK_LEN: u32 = 512;

/// The result of adding a block.
#[derive(PartialEq)]
enum Added {
    Yes,
    /// A value is not finite, or too large to be squared.
    NotFinite,
    /// The sums are not sound.
    No,
}

/// Returns whether a sum in 32 bits tells `n` values and how they differ: no square overflowed, none vanished, and they do not
/// lie so close together, away from zero, that the squares hide it.
fn is_sound(sum: f32, squares: f32, n: u32) -> bool {
    /// The smallest sum of squares none of which was rounded for being small.
    const LEAST: f32 = 1e-25;
    let sum = f64::from(sum);
    let energy = f64::from(squares);
    squares.is_finite() && squares > LEAST && sum * sum < 0.9 * energy * f64::from(n)
}

/// For floats whose values all fit an `f32`. Blocks are summed in 32 bits, many times as fast as in 64: first
/// assuming that all values are finite, which the sum of squares confirms, otherwise skipping those that are
/// not. Blocks whose sums in 32 bits are not sound, and elements outside of blocks, are summed in 64 bits.
#[inline(always)]
fn narrow<S: Source<N, Wide = f32>, const N: usize>(bytes: &[u8]) -> RunStatistics {
    /// Elements counted in 32 bits.
    const RUN: usize = 1 << 20;
    let mut all = RunStatistics::default();
    for run in bytes.as_chunks::<N>().0.chunks(RUN) {
        let mut lanes = Lanes::new();
        let (blocks, rest) = run.as_chunks::<BLOCK>();
        let mut n_added = 0;
        // A block after one with NaN is likely to have NaN as well.
        let mut all_finite = true;
        for block in blocks {
            let mut added = Added::NotFinite;
            if all_finite {
                added = lanes.add_block::<S, N, true>(block);
            }
            if added == Added::NotFinite {
                let before = lanes.n_bad();
                added = lanes.add_block::<S, N, false>(block);
                all_finite = lanes.n_bad() == before;
            }
            if added == Added::Yes {
                n_added += BLOCK;
            } else {
                all.add(&exact::<S, N>(block));
            }
        }
        if n_added > 0 {
            all.add(&lanes.statistics(n_added));
        }
        if !rest.is_empty() {
            all.add(&exact::<S, N>(rest));
        }
    }
    all
}

/// The statistics of at most a block, in 64 bits.
#[inline(always)]
fn exact<S: Source<N, Wide = f32>, const N: usize>(elements: &[[u8; N]]) -> RunStatistics {
    let mut values = [0.0; BLOCK];
    values.iter_mut().zip(elements).for_each(|(value, element)| *value = f64::from(S::read(*element)));
    RunStatistics::of_wide(&values[..elements.len()], &[0.0; BLOCK][..elements.len()], 0.0)
}

/// The statistics of numbers of any type, as they were read; where it is exact enough, the fast way.
pub(crate) fn statistics_in(chunk: Chunk<'_>) -> RunStatistics {
    let Chunk::Narrow(values) = chunk else { return RunStatistics::of(chunk, 0.0) };
    let mut bytes = [[0; 4]; CHUNK];
    let bytes = &mut bytes[..values.len()];
    bytes.iter_mut().zip(values).for_each(|(bytes, value)| *bytes = value.to_le_bytes());
    let bytes = bytes.as_flattened();
    dispatch!(Level::new(), _ => narrow::<F32, 4>(bytes))
}

/// For 64-bit floats.
#[inline(always)]
fn wide(bytes: &[u8]) -> RunStatistics {
    let mut values = [0.0; CHUNK];
    let mut run = RunStatistics::default();
    for elements in bytes.as_chunks::<8>().0.chunks(CHUNK) {
        values.iter_mut().zip(elements).for_each(|(value, element)| *value = F64::read(*element));
        run.add(&RunStatistics::of_wide(&values[..elements.len()], &[0.0; CHUNK][..elements.len()], 0.0));
    }
    run
}

/// For rare float types.
fn slow(dtype: DType, bytes: &[u8]) -> RunStatistics {
    let mut run = RunStatistics::default();
    let Some(numbers) = Numbers::new(dtype) else { return run };
    let count = bytes.len() / numbers.bytes_of(1).max(1);
    numbers.chunks(bytes, count, &mut |chunk| run.add(&RunStatistics::of(chunk, 0.0)));
    run
}

#[cfg(test)]
mod tests {
    #![allow(clippy::cast_precision_loss, reason = "a test's numbers are small")]

    use super::*;

    #[test]
    fn every_float_type_of_whole_bytes_is_looked_at() {
        for info in DType::ALL {
            let whole = info.kind == DTypeKind::Float && info.block_elements == 1;
            assert_eq!(look_at(info.dtype).is_some(), whole, "{}", info.name);
        }
    }

    #[test]
    fn every_type_finds_the_same_as_value_by_value() {
        for info in DType::ALL {
            let Some(look) = look_at(info.dtype) else { continue };
            let width = usize::try_from(info.block_bytes).unwrap();
            // Every code of the small types, including non-finite ones; a length that is not a multiple of
            // the lanes.
            let bytes: Vec<u8> = (0..997 * width).map(|n| u8::try_from(n * 37 % 256).unwrap()).collect();
            let have = look(&bytes);
            let want = slow(info.dtype, &bytes);
            assert_eq!(counts(&have), counts(&want), "{}", info.name);
            assert_eq!((have.min, have.max), (want.min, want.max), "{}", info.name);
            // Sums in 32 bits, provided that a block's squares fit.
            let [a, b] = [&have, &want].map(|run| run.moments.squares.value());
            assert!(a == b || (a - b).abs() <= 1e-6 * b.abs(), "{}: {have:?} {want:?}", info.name);
        }
    }

    fn counts(run: &RunStatistics) -> [u64; 4] {
        [run.values, run.zeros, run.nans, run.infs]
    }

    /// Fails unless the fast way finds nearly the same as the one that goes value by value.
    fn assert_near(bytes: &[u8]) {
        let have = look_at(DType::F32).unwrap()(bytes);
        let want = slow(DType::F32, bytes);
        assert_eq!((counts(&have), have.min, have.max), (counts(&want), want.min, want.max));
        let sums = (have.moments.sum, want.moments.sum);
        for (a, b) in [sums, (have.moments.squares, want.moments.squares)] {
            assert!((a - b).value().abs() <= 1e-6 * b.value().abs(), "{have:?} {want:?}");
        }
    }

    #[test]
    fn blocks_of_finite_values_find_nearly_the_same_as_value_by_value() {
        for count in [BLOCK, 3 * BLOCK + 7, 1 << 16] {
            let values =
                (0..count).map(|n| if n % 9 == 4 { 0.0 } else { (n * 7919 % 1013) as f32 * 1e-4 - 0.03 });
            let mut bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
            assert_near(&bytes);
            // A value whose square no f32 can hold, and one that is NaN: their blocks are summed in another
            // way.
            bytes[40..44].copy_from_slice(&1e30f32.to_le_bytes());
            assert_near(&bytes);
            bytes[44..48].copy_from_slice(&f32::NAN.to_le_bytes());
            assert_near(&bytes);
            // NaN and infinities among values that are not too large: skipped in the fast sums.
            bytes[40..44].copy_from_slice(&1f32.to_le_bytes());
            assert_near(&bytes);
            for (n, element) in bytes.chunks_exact_mut(4).enumerate().filter(|(n, _)| n % 700 < 400) {
                let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][n % 3];
                element.copy_from_slice(&bad.to_le_bytes());
            }
            assert_near(&bytes);
        }
    }

    #[test]
    fn what_is_not_finite_is_counted_and_left_out() {
        let values = [1.0f32, f32::NAN, -3.0, f32::INFINITY, 0.0, -0.0, f32::NEG_INFINITY];
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let run = look_at(DType::F32).unwrap()(&bytes);
        assert_eq!((run.values, run.zeros, run.nans, run.infs), (7, 2, 1, 2));
        let Moments { sum, squares } = run.moments;
        assert_eq!((run.min, run.max, sum.value(), squares.value()), (-3.0, 1.0, -2.0, 10.0));
    }
}
