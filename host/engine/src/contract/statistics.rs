//! The streaming validator's statistics of one tensor: bytes arrive in pieces, in any order and from any
//! thread, and only values that a piece's edge has cut in two are buffered.

use super::float_statistics::{Look, look_at};
use super::run_statistics::RunStatistics;
use crate::values::double_double::DoubleDouble;
use crate::values::exact_sum::ExactSum;
use crate::values::moments::Moments;
use apr_sdk::{DType, DTypeKind, Error, Result, ScaleField, Tensor};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Rows tracked separately: more would cost too much memory.
const MOST_ROWS: u64 = 1 << 22;
/// The unit of a row's energy (the sum of its squares): integers can be added in any order.
const ENERGY_UNIT: f64 = 1.0 / (1u64 << 60) as f64;
/// The most that one piece of a row can add.
const MOST_ENERGY: f64 = (1u64 << 32) as f64;
/// A row whose L2 norm is below this is dead (PMAT-325).
pub const DEAD_L2: f64 = 1e-6;
/// The percentages at which individual rows are checked (F-DATA-QUALITY-004).
pub const SPOTS: [u64; 3] = [10, 50, 90];

/// Statistics of a tensor. NaN and infinities are counted, and excluded from the rest.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Statistics {
    /// Number of values; for a quantized tensor, number of blocks.
    pub values: u64,
    /// Number of zeros.
    pub zeros: u64,
    /// Number of NaN.
    pub nans: u64,
    /// Number of infinities.
    pub infs: u64,
    /// The smallest finite value.
    pub min: Option<f64>,
    /// The greatest finite value.
    pub max: Option<f64>,
    /// The mean of the finite values.
    pub mean: Option<f64>,
    /// Their standard deviation (of the population); absent where it is too small, beside the mean, to be told.
    pub std: Option<f64>,
    /// Their L2 norm; infinite beyond the range of a float.
    pub l2: Option<f64>,
    /// Statistics of the rows, if they were tracked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<Rows>,
    /// Number of scales that are infinite or NaN, for a quantized tensor, of whose values nothing else is
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad_scales: Option<u64>,
    /// The sums over the finite values.
    #[serde(skip)]
    pub moments: Moments,
}

/// Statistics of a tensor's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rows {
    /// Number of rows.
    pub count: u64,
    /// Number of rows with an L2 norm below 1e-6.
    pub dead: u64,
    /// Indices of the dead ones among the rows at 10, 50 and 90 %.
    pub dead_spots: Vec<u64>,
}

impl Statistics {
    /// The statistics of all parts of a tensor together; `moments` are sums over all of them.
    pub(crate) fn new(run: &RunStatistics, moments: Moments) -> Statistics {
        let RunStatistics { values, zeros, nans, infs, min, max, .. } = *run;
        let mut statistics = Statistics { values, zeros, nans, infs, moments, ..Statistics::default() };
        if run.finite() > 0 {
            (statistics.min, statistics.max) = (Some(min), Some(max));
        }
        statistics.derive(min == max && run.rests[0] == run.rests[1]);
        statistics
    }

    /// Works out the mean, the standard deviation and the norm from the sums; `equal` says that all values are.
    pub(crate) fn derive(&mut self, equal: bool) {
        /// Sums of squares are known to so many parts of themselves, 2^-100.
        const RESOLUTION: f64 = f64::from_bits((1023 - 100) << 52);
        let finite = self.values - self.nans - self.infs;
        let Moments { sum, squares } = self.moments;
        self.l2 = Some(squares.sqrt().value());
        if finite > 0 {
            let mean = sum / DoubleDouble::count(finite);
            let spread = (squares - sum * mean) / DoubleDouble::count(finite);
            self.mean = Some(mean.value());
            let is_told = (spread - mean * mean * DoubleDouble::from(RESOLUTION)).value() > 0.0;
            self.std = if equal { Some(0.0) } else { is_told.then(|| spread.sqrt().value()) };
        }
    }

    /// Number of finite values.
    #[allow(clippy::cast_precision_loss, reason = "no tensor has 2^53 elements")]
    pub fn finite(&self) -> f64 {
        (self.values - self.nans - self.infs) as f64
    }

    /// The root of the mean square of the finite values.
    pub fn rms(&self) -> Option<f64> {
        self.l2?;
        let finite = self.values - self.nans - self.infs;
        (finite > 0).then(|| (self.moments.squares / DoubleDouble::count(finite)).sqrt().value())
    }

    /// Returns whether the values vary; a single value need not.
    pub fn vary(&self) -> bool {
        self.values < 2 || self.min != self.max
    }
}

/// The way to examine a payload.
#[derive(Clone, Copy)]
enum Form {
    /// Value by value, as floats.
    Floats(Look),
    /// Only by the scales of its blocks.
    Blocks(&'static [ScaleField]),
}

/// Accumulates the statistics of one tensor; shared by threads.
pub struct StatisticsBuilder {
    form: Form,
    /// Bytes of an element, or of a block.
    unit: u64,
    /// Length of the payload in bytes.
    len: u64,
    /// Elements per row, if rows are tracked.
    row: Option<u64>,
    sums: Mutex<Sums>,
}

/// The statistics so far.
#[derive(Default)]
struct Sums {
    seen: u64,
    run: RunStatistics,
    sum: ExactSum,
    squares: ExactSum,
    /// The energy of each row, in units.
    energies: Vec<u64>,
    /// Elements or blocks cut by a piece's edge, by index: the bytes so far, and how many are missing.
    torn: BTreeMap<u64, (Vec<u8>, u64)>,
}

/// The contribution of one piece.
#[derive(Default)]
struct Share {
    run: RunStatistics,
    energies: Vec<(u64, u64)>,
}

fn form_of(dtype: DType) -> Option<Form> {
    look_at(dtype).map(Form::Floats).or_else(|| dtype.scales().map(Form::Blocks))
}

/// Returns whether a type is examined only by the scales of its blocks; `None` if it is not examined at all.
pub fn by_scales(dtype: DType) -> Option<bool> {
    form_of(dtype).map(|form| matches!(form, Form::Blocks(_)))
}

/// The reason why a type is not examined.
pub fn refusal(dtype: DType) -> Error {
    let why = match dtype.info().map(|info| info.kind) {
        Some(DTypeKind::Block | DTypeKind::Float) => "is not checked: its scales are not whole bytes",
        _ => "contains no floats",
    };
    Error::unsupported(format!("{dtype} {why}"))
}

impl StatisticsBuilder {
    /// Statistics of `tensor`; with `with_rows`, for which it must have two dimensions, of its rows as well.
    ///
    /// # Errors
    /// Unsupported, with the reason, for types that are not examined: integers, and types whose scales are
    /// not whole bytes.
    pub fn new(tensor: &Tensor, with_rows: bool) -> Result<StatisticsBuilder> {
        let info = tensor.dtype.require()?;
        let len = tensor.payload_len()?;
        let form = form_of(tensor.dtype).ok_or_else(|| refusal(tensor.dtype).tensor(&tensor.name))?;
        let is_float = matches!(form, Form::Floats(_));
        let row = tensor.shape.get(1).copied().filter(|_| with_rows && is_float);
        let n_rows = tensor.shape.first().copied().unwrap_or(0);
        let row = row.filter(|row| *row > 0 && n_rows <= MOST_ROWS && tensor.shape.len() == 2);
        let energies = vec![0; row.map_or(0, |_| usize::try_from(n_rows).unwrap_or(0))];
        let sums = Sums { energies, ..Sums::default() };
        Ok(StatisticsBuilder { form, unit: u64::from(info.block_bytes), len, row, sums: Mutex::new(sums) })
    }

    /// Examines the bytes at offset `at` of the payload, row-major and little-endian. Each byte must come
    /// exactly once. Returns whether these were the last missing ones.
    pub fn see(&self, at: u64, bytes: &[u8]) -> bool {
        let torn_before = (self.unit - at % self.unit) % self.unit;
        let head = usize::try_from(torn_before).unwrap_or(usize::MAX).min(bytes.len());
        let (head_bytes, rest) = bytes.split_at(head);
        let tail = rest.len() - rest.len() % usize::try_from(self.unit).unwrap_or(usize::MAX);
        let (whole, tail_bytes) = rest.split_at(tail);
        let share = self.look((at + head as u64) / self.unit, whole);
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        sums.merge(&share);
        let tail_at = at + (head + tail) as u64;
        for (at, bytes) in [(at, head_bytes), (tail_at, tail_bytes)] {
            if let Some((number, unit)) = sums.mend(at, bytes, self.unit) {
                sums.merge(&self.look(number, &unit));
            }
        }
        sums.seen += bytes.len() as u64;
        !bytes.is_empty() && sums.seen == self.len
    }

    /// Returns whether only the scales of its blocks are known.
    pub fn by_scales(&self) -> bool {
        matches!(self.form, Form::Blocks(_))
    }

    /// The statistics, once every byte was seen.
    ///
    /// # Errors
    /// Failed if some bytes were not.
    pub fn build(&self) -> Result<Statistics> {
        let sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        if sums.seen != self.len {
            return Err(Error::failed(format!("{} of its {} bytes were checked", sums.seen, self.len)));
        }
        Ok(sums.statistics(self.by_scales()))
    }

    /// Examines whole elements or blocks, the first of which has this index.
    fn look(&self, first: u64, bytes: &[u8]) -> Share {
        let mut share = Share::default();
        if bytes.is_empty() {
            return share;
        }
        match (self.form, self.row) {
            (Form::Blocks(scales), _) => {
                let blocks = bytes.chunks_exact(usize::try_from(self.unit).unwrap_or(1));
                share.run.values = blocks.len() as u64;
                share.run.nans = blocks.map(|b| scales.iter().map(|field| field.bad(b)).sum::<u64>()).sum();
            }
            (Form::Floats(look), None) => share.run = look(bytes),
            (Form::Floats(look), Some(row)) => {
                let mut at = first;
                let mut rest = bytes;
                while !rest.is_empty() {
                    let to_end = (row - at % row).saturating_mul(self.unit);
                    let (now, later) =
                        rest.split_at(usize::try_from(to_end).unwrap_or(usize::MAX).min(rest.len()));
                    let run = look(now);
                    share.energies.push((at / row, units_of(run.moments.squares.value())));
                    share.run.add(&run);
                    at += now.len() as u64 / self.unit;
                    rest = later;
                }
            }
        }
        share
    }
}

/// An energy in whole units.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it lies between 0 and 2^32")]
fn units_of(energy: f64) -> u64 {
    (energy / ENERGY_UNIT).min(MOST_ENERGY) as u64
}

impl Sums {
    fn merge(&mut self, share: &Share) {
        self.run.add(&share.run);
        self.sum.add_wide(share.run.moments.sum);
        self.squares.add_wide(share.run.moments.squares);
        for (row, energy) in &share.energies {
            if let Some(known) = usize::try_from(*row).ok().and_then(|row| self.energies.get_mut(row)) {
                *known = known.saturating_add(*energy);
            }
        }
    }

    /// Adds bytes to a cut element or block; returns it once it is complete.
    fn mend(&mut self, at: u64, bytes: &[u8], unit: u64) -> Option<(u64, Vec<u8>)> {
        if bytes.is_empty() {
            return None;
        }
        let number = at / unit;
        let from = usize::try_from(at % unit).unwrap_or(0);
        let size = usize::try_from(unit).unwrap_or(0);
        let (held, missing) = self.torn.entry(number).or_insert_with(|| (vec![0; size], unit));
        held.get_mut(from..from + bytes.len())?.copy_from_slice(bytes);
        *missing = missing.saturating_sub(bytes.len() as u64);
        if *missing > 0 {
            return None;
        }
        self.torn.remove(&number).map(|(held, _)| (number, held))
    }

    fn statistics(&self, blocks: bool) -> Statistics {
        if blocks {
            let RunStatistics { values, nans, .. } = self.run;
            return Statistics { values, bad_scales: Some(nans), ..Statistics::default() };
        }
        let mut statistics =
            Statistics::new(&self.run, Moments { sum: self.sum.wide(), squares: self.squares.wide() });
        statistics.rows = (!self.energies.is_empty()).then(|| self.rows());
        statistics
    }

    fn rows(&self) -> Rows {
        let least = units_of(DEAD_L2 * DEAD_L2);
        let count = self.energies.len() as u64;
        let spots = SPOTS.map(|percent| (count * percent / 100).min(count.saturating_sub(1)));
        let dead_spots = spots.into_iter().filter(|row| {
            usize::try_from(*row).ok().and_then(|row| self.energies.get(row)).is_some_and(|e| *e < least)
        });
        Rows {
            count,
            dead: self.energies.iter().filter(|energy| **energy < least).count() as u64,
            dead_spots: dead_spots.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::{DType, Extent, Payload};

    fn tensor(dtype: DType, shape: &[u64]) -> Tensor {
        let extent = Extent::new(0, 0, apr_sdk::checked_payload_len(dtype, shape).unwrap());
        let payload = Payload::Extent { extent, view: None };
        Tensor { name: "t".to_owned(), dtype, shape: shape.to_vec(), payload }
    }

    /// The statistics of bytes that arrive in pieces cut at these offsets, last piece first.
    fn statistics(tensor: &Tensor, bytes: &[u8], cuts: &[usize]) -> Statistics {
        let builder = StatisticsBuilder::new(tensor, true).unwrap();
        let mut edges = vec![0];
        edges.extend_from_slice(cuts);
        edges.push(bytes.len());
        let mut last = false;
        for pair in edges.windows(2).rev() {
            assert!(!last);
            last = builder.see(pair[0] as u64, &bytes[pair[0]..pair[1]]);
        }
        assert!(last);
        builder.build().unwrap()
    }

    #[test]
    fn pieces_in_any_order_and_torn_anywhere_give_the_same() {
        let t = tensor(DType::F32, &[40, 7]);
        let values = (0u16..280).map(|n| if n / 7 % 4 == 3 { 0.0 } else { f32::from(n) * 0.25 - 20.0 });
        let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        let whole = statistics(&t, &bytes, &[]);
        assert_eq!((whole.values, whole.zeros), (280, 70));
        let rows = whole.rows.clone().unwrap();
        assert_eq!((rows.count, rows.dead, rows.dead_spots), (40, 10, vec![]));
        for cuts in [&[1][..], &[28, 56], &[3, 5, 6, 30, 31, 700], &[2, 3], &[1119]] {
            let cut = statistics(&t, &bytes, cuts);
            assert_eq!(cut.rows, whole.rows, "{cuts:?}");
            assert_eq!((cut.min, cut.max, cut.zeros), (whole.min, whole.max, whole.zeros));
            assert!((cut.l2.unwrap() - whole.l2.unwrap()).abs() < 1e-9);
        }
    }

    #[test]
    fn a_row_that_crosses_pieces_is_dead_only_as_a_whole() {
        // Each half of row 1 is below the limit, both together are above.
        let t = tensor(DType::F64, &[4, 2]);
        let small = 0.8e-6;
        let bytes: Vec<u8> = [0.0, 0.0, small, small, 0.0, small, 3.0, 4.0]
            .iter()
            .flat_map(|v: &f64| v.to_le_bytes())
            .collect();
        let rows = statistics(&t, &bytes, &[24, 40]).rows.unwrap();
        assert_eq!((rows.count, rows.dead, rows.dead_spots), (4, 2, vec![0, 2]));
    }

    #[test]
    fn blocks_are_judged_by_their_scales_wherever_they_are_torn() {
        let t = tensor(DType::Q4_0, &[2, 64]);
        let mut bytes = vec![0x11; 4 * 18];
        bytes[36..38].copy_from_slice(&0x7c00u16.to_le_bytes());
        for cuts in [&[][..], &[37], &[1, 2, 36, 37, 38, 55]] {
            let statistics = statistics(&t, &bytes, cuts);
            assert_eq!((statistics.values, statistics.bad_scales), (4, Some(1)), "{cuts:?}");
        }
    }

    #[test]
    fn what_cannot_be_looked_at_says_so() {
        for (dtype, why) in [(DType::IQ1_M, "scales"), (DType::I32, "no floats"), (DType::F4_E2M1, "scales")]
        {
            let error = StatisticsBuilder::new(&tensor(dtype, &[2, 256]), true).err().unwrap();
            assert!(error.message().contains(why), "{error}");
        }
        let builder = StatisticsBuilder::new(&tensor(DType::F32, &[4]), false).unwrap();
        assert!(!builder.see(0, &[0; 8]));
        builder.build().unwrap_err();
    }
}
