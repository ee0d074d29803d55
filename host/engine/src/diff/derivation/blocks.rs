//! Blocks of one type compared: equal ones are counted, and the others' values are compared in steps.

use crate::registry::Registry;
use apr_sdk::{DTypeInfo, DTypeKind, Quantizer, Result};
use std::sync::Arc;

/// Values near each other share a step: half of the smallest group that types with scales inside of blocks have.
const NEAR: usize = 16;

/// Counts of a tensor's blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Number of blocks compared.
    pub blocks: u64,
    /// Number of these that are equal to the byte.
    pub equal: u64,
    /// The largest difference in steps; `None` if nothing differs, or a value is not finite.
    pub steps: Option<f64>,
    /// True if values differ that are not finite.
    is_unmeasured: bool,
}

impl Tally {
    /// Adds what was counted of another part of the tensor.
    pub fn add(&mut self, other: &Tally) {
        self.blocks += other.blocks;
        self.equal += other.equal;
        self.is_unmeasured |= other.is_unmeasured;
        let both = self.steps.into_iter().chain(other.steps);
        self.steps = both.reduce(f64::max).filter(|_| !self.is_unmeasured);
    }

    fn differ(&mut self, steps: f64) {
        self.is_unmeasured |= !steps.is_finite();
        self.steps = Some(self.steps.map_or(steps, |most| most.max(steps))).filter(|_| !self.is_unmeasured);
    }
}

/// Compares blocks of one type.
pub struct Blocks {
    info: &'static DTypeInfo,
    /// Decodes blocks that differ.
    quantizer: Option<Arc<dyn Quantizer>>,
}

impl Blocks {
    /// Of a type.
    pub fn new(registry: &Registry, info: &'static DTypeInfo) -> Blocks {
        let quantizer = (info.block_elements > 1).then(|| registry.find_quantizer(info.dtype)).flatten();
        Blocks { info, quantizer }
    }

    /// Length of a block in bytes.
    pub fn block_len(&self) -> usize {
        self.info.block_bytes.max(1) as usize
    }

    /// Compares whole blocks: those that are there, and those that were made.
    ///
    /// # Errors
    /// Any error from the quantizer.
    pub fn compare(&self, there: &[u8], made: &[u8]) -> Result<Tally> {
        let mut tally = Tally::default();
        for (there, made) in there.chunks(self.block_len()).zip(made.chunks(self.block_len())) {
            tally.blocks += 1;
            if there == made {
                tally.equal += 1;
            } else {
                tally.differ(self.steps(there, made)?);
            }
        }
        Ok(tally)
    }

    /// The largest difference between the values of two blocks, in steps.
    fn steps(&self, there: &[u8], made: &[u8]) -> Result<f64> {
        let Some(quantizer) = &self.quantizer else {
            return Ok(match self.info.kind {
                DTypeKind::Float => numbers_between(there, made),
                _ => f64::INFINITY,
            });
        };
        let n = self.info.block_elements as usize;
        let mut values = [vec![0.0; n], vec![0.0; n]];
        for (out, block) in values.iter_mut().zip([there, made]) {
            quantizer.decode(self.info.dtype, block, n as u64, out)?;
        }
        let [there, made] = &values;
        let near = if n > 2 * NEAR { NEAR } else { n };
        let of_block = made.chunks(near).filter_map(step_of).reduce(f64::min);
        let parts = there.chunks(near).zip(made.chunks(near));
        Ok(parts.map(|(there, made)| steps_between(there, made, of_block)).fold(0.0, larger))
    }
}

/// The larger of two; not a number if one is none.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// The largest difference between values near each other, over the least distance of two values as made, or else of their
/// block: where a type has even steps, that is one, unless no two neighbouring levels occur. The values that are there set no
/// step: whoever wrote them could make it as large as any difference. Infinite if what was made has no step at all.
fn steps_between(there: &[f32], made: &[f32], of_block: Option<f64>) -> f64 {
    let differences = there.iter().zip(made).map(|(a, b)| (f64::from(*a) - f64::from(*b)).abs());
    let largest = differences.fold(0.0, larger);
    if largest == 0.0 {
        return 0.0;
    }
    largest / step_of(made).or(of_block).unwrap_or(0.0)
}

/// The least distance between two different values.
fn step_of(values: &[f32]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f32::total_cmp);
    let gaps = sorted.windows(2).map(|pair| f64::from(pair[1]) - f64::from(pair[0]));
    gaps.filter(|gap| *gap > 0.0).reduce(f64::min)
}

/// How many numbers of a float type lie between two of its numbers, the second counted.
fn numbers_between(a: &[u8], b: &[u8]) -> f64 {
    /// Numbers in the order of their values.
    fn place(bytes: &[u8]) -> Option<i64> {
        let (bits, sign) = match *bytes {
            [a, b] => (i64::from(u16::from_le_bytes([a, b])), 1 << 15),
            [a, b, c, d] => (i64::from(u32::from_le_bytes([a, b, c, d])), 1 << 31),
            _ => return None,
        };
        Some(if bits & sign == 0 { bits } else { sign - bits })
    }
    match (place(a), place(b)) {
        #[allow(clippy::cast_precision_loss, reason = "below 2^33")]
        (Some(a), Some(b)) => (a - b).abs() as f64,
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::DType;

    #[test]
    fn floats_differ_by_the_numbers_between_them() {
        let blocks = Blocks::new(&Registry::new(), DType::F32.info().unwrap());
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let one_up = f32::from_bits(1.0f32.to_bits() + 1);
        let tally = blocks.compare(&bytes(&[1.0, -1.0, 2.0]), &bytes(&[one_up, -1.0, 2.0])).unwrap();
        assert_eq!((tally.blocks, tally.equal, tally.steps), (3, 2, Some(1.0)));
        let tally = blocks.compare(&bytes(&[-0.0]), &bytes(&[f32::from_bits(1)])).unwrap();
        assert_eq!(tally.steps, Some(1.0), "numbers around zero are neighbours");
    }

    #[test]
    fn a_step_is_the_least_distance_of_two_values() {
        let made = [0.0, 0.5, 1.0, 4.0];
        assert_eq!(steps_between(&made, &made, None), 0.0);
        assert_eq!(steps_between(&[0.5, 0.5, 1.0, 4.0], &made, None), 1.0);
        assert_eq!(steps_between(&[0.0, 0.5, 1.0, 2.5], &made, None), 3.0);
        assert!(steps_between(&[0.0, f32::NAN], &[0.0, 1.0], None).is_nan());
    }

    #[test]
    fn large_values_set_no_step() {
        assert_eq!(steps_between(&[0.0, 100.5], &[0.0, 0.5], None), 200.0);
        assert_eq!(steps_between(&[0.0, 9e6], &[0.0; 2], None), f64::INFINITY);
        assert_eq!(steps_between(&[0.25; 2], &[0.0; 2], Some(0.5)), 0.5);
    }

    #[test]
    fn parts_of_a_tensor_add_up() {
        let part = |blocks, equal, steps| Tally { blocks, equal, steps, is_unmeasured: false };
        let mut all = part(2, 2, None);
        all.add(&part(3, 1, Some(0.5)));
        assert_eq!(all, part(5, 3, Some(0.5)));
        all.differ(f64::NAN);
        all.add(&part(1, 0, Some(1.0)));
        assert_eq!(all.steps, None, "what is not finite is not measured");
    }
}
