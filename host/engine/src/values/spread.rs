//! Distribution of numbers, known after one reading, in which their range is not known yet: they are counted in steps of 1/256
//! of a power of two, and of those counts come bins of almost equal width. Counts are whole numbers: those of several threads
//! add up to the same in any order.

use crate::values::numbers::Chunk;
use serde::Serialize;

/// Bits of the mantissa that tell steps apart.
const STEP_BITS: u32 = 8;
/// Steps of an octave, which is all numbers of one sign and one power of two.
const STEPS: usize = 1 << STEP_BITS;
/// Number of bits by which a number is shifted to give its step.
const SHIFT: u32 = 52 - STEP_BITS;

/// The counts of one octave.
type Octave = Box<[u64; STEPS]>;

/// Finite numbers, counted; an octave takes 2 KiB once a number is in it.
#[derive(Clone, Default)]
pub struct Spread {
    /// By sign and exponent, as they stand in a number's first 12 bits.
    octaves: Vec<Option<Octave>>,
}

/// Counts of numbers between edges.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Bins {
    /// One more than there are counts, ascending: the least number, edges between bins, the greatest number. A number on an
    /// edge between two bins counts in the one that lies farther from zero.
    pub edges: Vec<f64>,
    /// Count of numbers in each bin.
    pub counts: Vec<u64>,
}

impl Spread {
    /// Counts a number; one that is not finite is left out.
    #[inline]
    pub fn add(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        // Both zeros are one.
        let bits = (value + 0.0).to_bits();
        let octave = bits >> 52;
        #[allow(clippy::cast_possible_truncation, reason = "the 8 bits that tell steps apart")]
        let step = (bits >> SHIFT) as u8;
        self.octave(octave)[usize::from(step)] += 1;
    }

    #[inline]
    fn octave(&mut self, number: u64) -> &mut [u64; STEPS] {
        /// Signs and exponents that there are.
        const OCTAVES: usize = 1 << 12;
        if self.octaves.is_empty() {
            self.octaves.resize_with(OCTAVES, || None);
        }
        #[allow(clippy::cast_possible_truncation, reason = "the 12 bits of sign and exponent")]
        self.octaves[number as usize].get_or_insert_with(|| Box::new([0; STEPS]))
    }

    /// Counts all numbers of a chunk.
    pub fn add_all(&mut self, chunk: Chunk<'_>) {
        chunk.each(&mut |value| self.add(value));
    }

    /// Takes over what another has counted, and leaves it empty.
    pub fn take(&mut self, other: &mut Spread) {
        if self.octaves.is_empty() {
            std::mem::swap(self, other);
            return;
        }
        for (own, octave) in self.octaves.iter_mut().zip(other.octaves.drain(..)) {
            match (own, octave) {
                (own @ None, octave) => *own = octave,
                (Some(own), Some(octave)) => own.iter_mut().zip(*octave).for_each(|(own, n)| *own += n),
                (Some(_), None) => {}
            }
        }
    }

    /// At most `most` bins from the least to the greatest number, which the caller knows exactly. There are fewer where
    /// numbers lie so close together that steps do not tell them apart.
    pub fn bins(&self, [least, greatest]: [f64; 2], most: usize) -> Bins {
        let most = if least == greatest { 1 } else { most.max(1) };
        let mut keys: Vec<i64> = (1..most).map(|at| cut(edge(least, greatest, at, most))).collect();
        keys.insert(0, key(least));
        keys.dedup();
        let mut counts = vec![0; keys.len()];
        for (number, octave) in self.octaves.iter().enumerate() {
            for (step, n) in
                octave.iter().flat_map(|octave| octave.iter().enumerate()).filter(|(_, n)| **n > 0)
            {
                let bits = (number as u64) << 52 | (step as u64) << SHIFT;
                let bin = keys.partition_point(|first| *first <= key(f64::from_bits(bits))).saturating_sub(1);
                counts[bin] += n;
            }
        }
        let mut edges: Vec<f64> = keys.iter().map(|key| below(*key)).collect();
        edges[0] = least;
        edges.push(greatest);
        Bins { edges, counts }
    }
}

/// The number of the step that a number lies in, in ascending order of the numbers.
#[allow(clippy::cast_possible_wrap, reason = "at most 20 bits")]
fn key(value: f64) -> i64 {
    let magnitude = ((value.to_bits() & !(1 << 63)) >> SHIFT) as i64;
    if value.is_sign_negative() && value != 0.0 { -magnitude - 1 } else { magnitude }
}

/// The first step behind an edge that is moved to an end of its step, towards zero.
fn cut(edge: f64) -> i64 {
    key(edge) + i64::from(edge < 0.0)
}

/// The lower end of a step.
fn below(key: i64) -> f64 {
    let bits = key.unsigned_abs() << SHIFT;
    if key < 0 { -f64::from_bits(bits) } else { f64::from_bits(bits) }
}

/// Lower edge of bin `at` of `n` of equal width; in two halves, as the width of the widest range is not finite.
pub fn edge(low: f64, high: f64, at: usize, n: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "there are few bins")]
    let part = at as f64 / n as f64;
    match at {
        0 => low,
        at if at == n => high,
        _ => {
            let half = (high / 2.0 - low / 2.0) * part;
            low + half + half
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins(values: &[f64], most: usize) -> Bins {
        let mut spread = Spread::default();
        values.iter().for_each(|value| spread.add(*value));
        let finite = values.iter().copied().filter(|value| value.is_finite());
        let least = finite.clone().fold(f64::INFINITY, f64::min);
        spread.bins([least, finite.fold(-f64::INFINITY, f64::max)], most)
    }

    /// Returns whether a number belongs into the bin above an edge: on it, into the one that lies farther from zero.
    fn is_above(value: f64, edge: f64) -> bool {
        if edge >= 0.0 { value >= edge } else { value > edge }
    }

    #[test]
    fn edges_rise_from_the_least_to_the_greatest_also_over_the_widest_range() {
        for (low, high) in [(-1.0, 1.0), (f64::MIN, f64::MAX), (1.0, 1.0 + f64::EPSILON * 64.0)] {
            let edges: Vec<f64> = (0..=20).map(|at| edge(low, high, at, 20)).collect();
            assert_eq!((edges[0], edges[20]), (low, high));
            assert!(edges.is_sorted() && edges.iter().all(|edge| edge.is_finite()), "{edges:?}");
            let bins = bins(&[low, high], 20);
            assert!(bins.edges.is_sorted() && bins.edges.iter().all(|e| e.is_finite()), "{bins:?}");
            assert_eq!(bins.counts.iter().sum::<u64>(), 2);
        }
    }

    #[test]
    fn counts_are_those_between_the_edges_that_are_told() {
        let values: Vec<f64> = (0..5000).map(|n| (f64::from(n) * 0.7).sin().powi(3) * 0.05 + 0.01).collect();
        let bins = bins(&values, 32);
        assert_eq!((bins.counts.len(), bins.edges.len()), (32, 33));
        for (at, count) in bins.counts.iter().enumerate() {
            let from = bins.edges[at];
            let to = bins.edges[at + 1];
            let inside = values
                .iter()
                .filter(|value| at == 0 || is_above(**value, from))
                .filter(|value| at == 31 || !is_above(**value, to));
            assert_eq!(inside.count() as u64, *count, "bin {at} of {bins:?}");
            // Of almost equal width.
            assert!(((to - from) * 32.0 / 0.1 - 1.0).abs() < 0.1, "{from} to {to}");
        }
    }

    #[test]
    fn one_number_is_one_bin_and_none_is_left_out() {
        assert_eq!(bins(&[0.25; 3], 32), Bins { edges: vec![0.25, 0.25], counts: vec![3] });
        assert_eq!(bins(&[0.0, -0.0], 32).counts, [2]);
        let Bins { counts, .. } = bins(&[0.0, 1.0, 1.0, f64::NAN, f64::INFINITY], 4);
        assert_eq!((counts[0], counts[3]), (1, 2));
        assert_eq!(
            bins(&[-3.0, -2.0, -1.0, 0.0], 3),
            Bins { edges: vec![-3.0, -2.0, -1.0, 0.0], counts: vec![2, 1, 1] }
        );
        // 1 and what follows it lie in one step.
        assert_eq!(bins(&[1.0, 1.0 + 1e-9], 32).counts, [2]);
    }

    #[test]
    fn parts_add_up_whichever_comes_first() {
        let mut one = Spread::default();
        let mut two = Spread::default();
        let mut all = Spread::default();
        for n in 0..1000 {
            let value = f64::from(n * n % 377 - 100) * 0.01;
            if n % 3 == 0 {
                one.add(value)
            } else {
                two.add(value)
            }
            all.add(value);
        }
        let mut other_one = one.clone();
        let mut other_two = two.clone();
        one.take(&mut two);
        other_two.take(&mut other_one);
        let range = [-1.0, 2.76];
        assert_eq!(one.bins(range, 32), all.bins(range, 32));
        assert_eq!(other_two.bins(range, 32), all.bins(range, 32));
        assert_eq!(two.bins([0.0, 1.0], 2).counts, [0, 0]);
    }
}
