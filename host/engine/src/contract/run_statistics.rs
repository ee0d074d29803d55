//! Statistics of a run of numbers: counts, minimum and maximum, sums.
//!
//! The loops are plain and branch-free, so that the compiler vectorizes them, once per kind of processor. The
//! number of lanes is the same on all of them, so all give the same sums.

use crate::values::moments::{Moments, moments};
use crate::values::numbers::{CHUNK, Chunk};
use fearless_simd::{Level, dispatch};

/// Values looked at side by side.
const LANES: usize = 8;

/// Statistics of a run of floats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunStatistics {
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
    /// Excess of 64-bit integers over `min` and `max`, which are the nearest floats.
    pub rests: [f64; 2],
    /// The sums over the finite values.
    pub moments: Moments,
}

impl Default for RunStatistics {
    fn default() -> RunStatistics {
        let min = f64::INFINITY;
        let max = f64::NEG_INFINITY;
        RunStatistics {
            values: 0,
            zeros: 0,
            nans: 0,
            infs: 0,
            min,
            max,
            rests: [0.0; 2],
            moments: Moments::default(),
        }
    }
}

impl RunStatistics {
    /// Adds the statistics of another run.
    pub fn add(&mut self, other: &RunStatistics) {
        self.values += other.values;
        self.zeros += other.zeros;
        self.nans += other.nans;
        self.infs += other.infs;
        if (other.min, other.rests[0]) < (self.min, self.rests[0]) {
            (self.min, self.rests[0]) = (other.min, other.rests[0]);
        }
        if (other.max, other.rests[1]) > (self.max, self.rests[1]) {
            (self.max, self.rests[1]) = (other.max, other.rests[1]);
        }
        self.moments.sum += other.moments.sum;
        self.moments.squares += other.moments.squares;
    }

    /// Number of finite values.
    pub fn finite(&self) -> u64 {
        self.values - self.nans - self.infs
    }
}

impl RunStatistics {
    /// The statistics of numbers of any type, as they were read; the sums are over their distances from `pivot`. Sums are as
    /// accurate as those of 64-bit floats, whatever cancels.
    pub fn of(chunk: Chunk<'_>, pivot: f64) -> RunStatistics {
        match chunk {
            Chunk::Narrow(values) => {
                let mut wide = [0.0; CHUNK];
                wide.iter_mut().zip(values).for_each(|(wide, value)| *wide = f64::from(*value));
                let wide = &wide[..values.len()];
                let low = &[0.0; CHUNK][..values.len()];
                dispatch!(Level::new(), _ => RunStatistics::of_wide(wide, low, pivot))
            }
            Chunk::Wide(high, low) => dispatch!(Level::new(), _ => RunStatistics::of_wide(high, low, pivot)),
        }
    }

    /// The statistics of at most [`CHUNK`] numbers, each `high + low`.
    #[inline(always)]
    pub(super) fn of_wide(high: &[f64], low: &[f64], pivot: f64) -> RunStatistics {
        let mut run = RunStatistics { values: high.len() as u64, ..RunStatistics::default() };
        let mut least = [f64::INFINITY; LANES];
        let mut most = [f64::NEG_INFINITY; LANES];
        let mut zeros = [0u64; LANES];
        let mut odd = [0u64; LANES];
        for group in high.chunks(LANES) {
            for (lane, value) in group.iter().enumerate() {
                let finite = if value.is_finite() { *value } else { f64::NAN };
                least[lane] = if finite < least[lane] { finite } else { least[lane] };
                most[lane] = if finite > most[lane] { finite } else { most[lane] };
                zeros[lane] += u64::from(*value == 0.0);
                odd[lane] += u64::from(!value.is_finite());
            }
        }
        run.zeros = zeros.iter().sum();
        run.min = least.into_iter().fold(f64::INFINITY, f64::min);
        run.max = most.into_iter().fold(f64::NEG_INFINITY, f64::max);
        let greatest = if run.min <= run.max { run.min.abs().max(run.max.abs()) } else { 0.0 };
        if odd.iter().sum::<u64>() == 0 {
            run.moments = moments(high, low, greatest, pivot);
        } else {
            run.moments = run.of_finite(high, low, greatest, pivot);
        }
        // Integers below 2^53 are floats.
        if greatest >= FIRST_ROUNDED {
            run.exact_ends(high, low);
        }
        run
    }

    /// The sums of the numbers that are finite; counts the others.
    fn of_finite(&mut self, high: &[f64], low: &[f64], greatest: f64, pivot: f64) -> Moments {
        let mut finite = [0.0; CHUNK];
        let mut finite_low = [0.0; CHUNK];
        let mut n = 0;
        for (value, low) in high.iter().zip(low) {
            self.nans += u64::from(value.is_nan());
            self.infs += u64::from(value.is_infinite());
            if value.is_finite() {
                (finite[n], finite_low[n]) = (*value, *low);
                n += 1;
            }
        }
        moments(&finite[..n], &finite_low[..n], greatest, pivot)
    }

    /// Finds by how much integers exceed the nearest floats of the least and the greatest.
    fn exact_ends(&mut self, high: &[f64], low: &[f64]) {
        let pairs = high.iter().zip(low);
        let at_min = pairs.clone().filter(|pair| *pair.0 == self.min).map(|pair| *pair.1);
        let at_max = pairs.filter(|pair| *pair.0 == self.max).map(|pair| *pair.1);
        self.rests = [at_min.fold(f64::INFINITY, f64::min), at_max.fold(f64::NEG_INFINITY, f64::max)];
    }
}

/// 2^53: integers from here on may not be floats.
const FIRST_ROUNDED: f64 = (1u64 << 53) as f64;
