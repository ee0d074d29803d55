//! Statistics of a run of floats: counts, minimum and maximum, sums.
//!
//! The loops are plain and branch-free, so that the compiler vectorizes them, once per kind of processor. The
//! number of lanes is the same on all of them, so all give the same sums.

use crate::values::cast::floats::{BF16, F16, F32, F64, Source};
use crate::values::cast::small::{F8_E4M3, F8_E5M2};
use crate::values::numbers::{CHUNK, Chunk, Numbers};
use apr_sdk::{DType, DTypeKind};
use fearless_simd::{Level, dispatch};

/// Sums accumulated side by side.
const LANES: usize = 16;

/// Statistics of a run of floats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Number of values.
    pub values: u64,
    /// Number of zeros.
    pub zeros: u64,
    /// Number of NaN.
    pub nans: u64,
    /// Number of infinities.
    pub infs: u64,
    /// The smallest finite value; infinity if there is none.
    pub min: f64,
    /// The greatest finite value; minus infinity if there is none.
    pub max: f64,
    /// The sum of the finite values.
    pub sum: f64,
    /// The sum of their squares.
    pub squares: f64,
}

impl Default for Found {
    fn default() -> Found {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        Found { values: 0, zeros: 0, nans: 0, infs: 0, min, max, sum: 0.0, squares: 0.0 }
    }
}

impl Found {
    /// Adds the statistics of another run.
    pub fn add(&mut self, other: &Found) {
        self.values += other.values;
        self.zeros += other.zeros;
        self.nans += other.nans;
        self.infs += other.infs;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.squares += other.squares;
    }
}

/// Examines whole little-endian elements.
pub type Look = fn(&[u8]) -> Found;

/// How to examine a float type; `None` for types that are not floats of whole bytes.
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
        let (least, most) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
        let (sum, squares, zeros) = ([0.0; LANES], [0.0; LANES], [0; LANES]);
        Lanes { sum, squares, least, most, zeros, nans: zeros, infs: zeros }
    }

    #[inline(always)]
    fn add(&mut self, lane: usize, value: f32) {
        let finite = value.is_finite();
        // Zero adds nothing to the sums; the comparisons ignore NaN by themselves, and infinities because of
        // this choice.
        let held = if finite { value } else { 0.0 };
        let wide = f64::from(held);
        self.sum[lane] += wide;
        self.squares[lane] += wide * wide;
        let (low, high) =
            (if finite { value } else { f32::INFINITY }, if finite { value } else { f32::NEG_INFINITY });
        self.least[lane] = if low < self.least[lane] { low } else { self.least[lane] };
        self.most[lane] = if high > self.most[lane] { high } else { self.most[lane] };
        self.zeros[lane] += u32::from(value == 0.0);
        self.nans[lane] += u32::from(value.is_nan());
        self.infs[lane] += u32::from(value.is_infinite());
    }

    /// Adds elements one by one.
    #[inline(always)]
    fn add_each<S: Source<N, Wide = f32>, const N: usize>(&mut self, elements: &[[u8; N]]) {
        let (groups, rest) = elements.as_chunks::<LANES>();
        for group in groups {
            group.iter().enumerate().for_each(|(lane, element)| self.add(lane, S::read(*element)));
        }
        rest.iter().enumerate().for_each(|(lane, element)| self.add(lane, S::read(*element)));
    }

    /// Adds a block, unless one of its values is too large to be squared or, with `ALL_FINITE`, not finite:
    /// then it returns false. Where both variants add a block, they add the same.
    #[inline(always)]
    fn add_block<S: Source<N, Wide = f32>, const N: usize, const ALL_FINITE: bool>(
        &mut self,
        block: &[[u8; N]; BLOCK],
    ) -> bool {
        let (mut sum, mut squares, mut zeros) = ([0f32; LANES], [0f32; LANES], [0u32; LANES]);
        let (mut least, mut most) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
        let (mut nans, mut infs) = (zeros, zeros);
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
        if !squares.iter().sum::<f32>().is_finite() {
            return false;
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
        true
    }

    /// Adds a block of any values, in 64 bits.
    #[inline(always)]
    fn add_wide<S: Source<N, Wide = f32>, const N: usize>(&mut self, block: &[[u8; N]; BLOCK]) {
        // Locals instead of fields of `self`, so that the loop can keep them in registers; the comparisons
        // are separate for the same reason.
        let (mut sum, mut squares) = ([0f64; LANES], [0f64; LANES]);
        let mut counts = Lanes::new();
        for group in block.as_chunks::<LANES>().0 {
            for (lane, element) in group.iter().enumerate() {
                let read = S::read(*element);
                let held = f64::from(if read.is_finite() { read } else { 0.0 });
                sum[lane] += held;
                squares[lane] += held * held;
            }
        }
        for group in block.as_chunks::<LANES>().0 {
            for (lane, element) in group.iter().enumerate() {
                let read = S::read(*element);
                let finite = if read.is_finite() { read } else { f32::NAN };
                counts.least[lane] = if finite < counts.least[lane] { finite } else { counts.least[lane] };
                counts.most[lane] = if finite > counts.most[lane] { finite } else { counts.most[lane] };
                counts.zeros[lane] += u32::from(finite == 0.0);
                counts.nans[lane] += u32::from(read.is_nan());
                counts.infs[lane] += u32::from(read.is_infinite());
            }
        }
        for lane in 0..LANES {
            self.sum[lane] += sum[lane];
            self.squares[lane] += squares[lane];
            self.least[lane] = self.least[lane].min(counts.least[lane]);
            self.most[lane] = self.most[lane].max(counts.most[lane]);
            self.zeros[lane] += counts.zeros[lane];
            self.nans[lane] += counts.nans[lane];
            self.infs[lane] += counts.infs[lane];
        }
    }

    /// The number of values that were not finite.
    #[inline(always)]
    fn n_bad(&self) -> u32 {
        self.nans.iter().chain(&self.infs).sum()
    }

    fn found(&self, values: usize) -> Found {
        let count = |counts: &[u32; LANES]| counts.iter().map(|n| u64::from(*n)).sum();
        Found {
            values: values as u64,
            zeros: count(&self.zeros),
            nans: count(&self.nans),
            infs: count(&self.infs),
            min: self.least.iter().fold(f64::INFINITY, |min, x| min.min(f64::from(*x))),
            max: self.most.iter().fold(f64::NEG_INFINITY, |max, x| max.max(f64::from(*x))),
            sum: self.sum.iter().sum(),
            squares: self.squares.iter().sum(),
        }
    }
}

/// Elements per block, 32 per lane: few enough for accurate sums in 32 bits.
const BLOCK: usize = 512;

/// For floats whose values all fit an `f32`. Blocks are summed in 32 bits, four times as fast as in 64: first
/// assuming that all values are finite, which the sum of squares confirms, otherwise skipping those that are
/// not. Blocks with values too large to be squared are summed in 64 bits, and elements outside of blocks one
/// by one.
#[inline(always)]
fn narrow<S: Source<N, Wide = f32>, const N: usize>(bytes: &[u8]) -> Found {
    /// Elements counted in 32 bits.
    const RUN: usize = 1 << 20;
    let mut all = Found::default();
    for run in bytes.as_chunks::<N>().0.chunks(RUN) {
        let mut lanes = Lanes::new();
        let (blocks, rest) = run.as_chunks::<BLOCK>();
        // A block after one with NaN is likely to have NaN as well.
        let mut all_finite = true;
        for block in blocks {
            if all_finite && lanes.add_block::<S, N, true>(block) {
                continue;
            }
            let before = lanes.n_bad();
            if !lanes.add_block::<S, N, false>(block) {
                lanes.add_wide::<S, N>(block);
            }
            all_finite = lanes.n_bad() == before;
        }
        lanes.add_each::<S, N>(rest);
        all.add(&lanes.found(run.len()));
    }
    all
}

/// For 64-bit floats.
#[inline(always)]
fn wide(bytes: &[u8]) -> Found {
    let mut found = Found::default();
    bytes.as_chunks::<8>().0.iter().for_each(|element| found.one(F64::read(*element)));
    found
}

/// For rare float types.
fn slow(dtype: DType, bytes: &[u8]) -> Found {
    let mut found = Found::default();
    let Some(numbers) = Numbers::new(dtype) else { return found };
    let (mut high, mut low) = ([0.0; CHUNK], [0.0; CHUNK]);
    for piece in bytes.chunks(numbers.bytes_of(CHUNK)) {
        let n = piece.len() / numbers.bytes_of(1);
        numbers.read_wide(piece, &mut high[..n], &mut low[..n]);
        high[..n].iter().for_each(|value| found.one(*value));
    }
    found
}

impl Found {
    /// What is found in numbers of any type, as they were read.
    pub fn of(chunk: Chunk<'_>) -> Found {
        match chunk {
            Chunk::Narrow(values) => {
                let mut bytes = [[0; 4]; CHUNK];
                let bytes = &mut bytes[..values.len()];
                bytes.iter_mut().zip(values).for_each(|(bytes, value)| *bytes = value.to_le_bytes());
                let bytes = bytes.as_flattened();
                dispatch!(Level::new(), _ => narrow::<F32, 4>(bytes))
            }
            Chunk::Wide(high, low) => {
                let mut found = Found::default();
                high.iter().zip(low).for_each(|(high, low)| found.one(high + low));
                found
            }
        }
    }

    #[inline(always)]
    fn one(&mut self, value: f64) {
        self.values += 1;
        self.nans += u64::from(value.is_nan());
        self.infs += u64::from(value.is_infinite());
        if value.is_finite() {
            self.zeros += u64::from(value == 0.0);
            self.sum += value;
            self.squares += value * value;
            self.min = self.min.min(value);
            self.max = self.max.max(value);
        }
    }
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
            let (have, want) = (look(&bytes), slow(info.dtype, &bytes));
            let counts = |f: &Found| (f.values, f.zeros, f.nans, f.infs);
            assert_eq!(counts(&have), counts(&want), "{}", info.name);
            assert_eq!((have.min, have.max), (want.min, want.max), "{}", info.name);
            // Sums in 32 bits, provided that a block's squares fit.
            let close = |a: f64, b: f64| a == b || (a - b).abs() <= 1e-6 * b.abs();
            assert!(close(have.squares, want.squares), "{}: {have:?} {want:?}", info.name);
        }
    }

    #[test]
    fn blocks_of_finite_values_find_nearly_the_same_as_value_by_value() {
        for count in [BLOCK, 3 * BLOCK + 7, 1 << 16] {
            let value = |n: usize| if n % 9 == 4 { 0.0 } else { (n * 7919 % 1013) as f32 * 1e-4 - 0.03 };
            let mut bytes: Vec<u8> = (0..count).flat_map(|n| value(n).to_le_bytes()).collect();
            let near = |bytes: &[u8]| {
                let (have, want) = (look_at(DType::F32).unwrap()(bytes), slow(DType::F32, bytes));
                let counts = |f: &Found| (f.values, f.zeros, f.nans, f.infs);
                assert_eq!((counts(&have), have.min, have.max), (counts(&want), want.min, want.max));
                let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.abs();
                assert!(near(have.sum, want.sum) && near(have.squares, want.squares), "{have:?} {want:?}");
            };
            near(&bytes);
            // A value whose square no f32 can hold, and one that is NaN: their blocks are summed in another
            // way.
            bytes[40..44].copy_from_slice(&1e30f32.to_le_bytes());
            near(&bytes);
            bytes[44..48].copy_from_slice(&f32::NAN.to_le_bytes());
            near(&bytes);
            // NaN and infinities among values that are not too large: skipped in the fast sums.
            bytes[40..44].copy_from_slice(&1f32.to_le_bytes());
            near(&bytes);
            for (n, element) in bytes.chunks_exact_mut(4).enumerate().filter(|(n, _)| n % 700 < 400) {
                let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][n % 3];
                element.copy_from_slice(&bad.to_le_bytes());
            }
            near(&bytes);
        }
    }

    #[test]
    fn what_is_not_finite_is_counted_and_left_out() {
        let values = [1.0f32, f32::NAN, -3.0, f32::INFINITY, 0.0, -0.0, f32::NEG_INFINITY];
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let found = look_at(DType::F32).unwrap()(&bytes);
        assert_eq!((found.values, found.zeros, found.nans, found.infs), (7, 2, 1, 2));
        assert_eq!((found.min, found.max, found.sum, found.squares), (-3.0, 1.0, -2.0, 10.0));
    }
}
