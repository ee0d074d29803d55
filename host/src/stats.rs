//! What the tensors of a model are: rows for `apr tensors`, with digests and statistics when they are asked for.

use crate::histogram::Histogram;
use crate::host::Host;
use crate::open::OpenedModel;
use crate::payload;
use crate::wording::hex;
use apr_sdk::{DType, DTypeKind, Error, Result};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is wanted of each tensor beyond its header.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowOptions {
    /// SHA-256 of the payload as it is stored: decoded from any container, row-major, little-endian.
    pub sha256: bool,
    /// Statistics of the values.
    pub stats: bool,
}

/// One tensor. The keys are those of `apr tensors --json` (design section 8).
#[derive(Clone, Debug, Serialize)]
pub struct TensorRow {
    /// Its name in the source.
    pub name: String,
    /// Its element type.
    pub dtype: String,
    /// Its dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Bytes of its payload.
    pub bytes: u64,
    /// Lower-case hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Statistics, if they were asked for and the type's values can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<Stats>,
    /// Why there are no statistics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats_missing: Option<String>,
    /// How its values are spread, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Histogram>,
}

/// Statistics of a tensor's values; NaN and infinite values are counted and left out of the rest.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    /// How many values.
    pub count: u64,
    /// The least finite value; absent without one.
    pub min: Option<f64>,
    /// The greatest finite value; absent without one.
    pub max: Option<f64>,
    /// The mean of the finite values.
    pub mean: Option<f64>,
    /// Their standard deviation (of the population).
    pub std: Option<f64>,
    /// How many are zero.
    pub zeros: u64,
    /// How many are not a number.
    pub nans: u64,
    /// How many are infinite.
    pub infs: u64,
}

/// One row for each tensor, in the model's order.
///
/// # Errors
/// What reading raises; Cancelled.
pub fn tensor_rows(host: &Host, opened: &OpenedModel, options: RowOptions) -> Result<Vec<TensorRow>> {
    let tensors = &opened.model.tensors;
    let mut rows = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        rows.push(TensorRow {
            name: tensor.name.clone(),
            dtype: tensor.dtype.name().to_owned(),
            shape: tensor.shape.clone(),
            bytes: tensor.payload_len()?,
            sha256: None,
            stats: None,
            stats_missing: None,
            histogram: None,
        });
    }
    if options.sha256 || options.stats {
        read_all(host, opened, options, &mut rows)?;
    }
    Ok(rows)
}

/// Reads every payload once, tensors side by side on all threads.
fn read_all(host: &Host, opened: &OpenedModel, options: RowOptions, rows: &mut [TensorRow]) -> Result<()> {
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<Result<Payload>>>> = rows.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..host.threads.clamp(1, 64).min(rows.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(slot) = done.get(number) else { break };
                    let read = read_one(host, opened, number, options);
                    let failed = read.is_err();
                    *slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(read);
                    if failed {
                        next.store(usize::MAX / 2, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut first_error = None;
    for (row, slot) in rows.iter_mut().zip(done) {
        match slot.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
            Some(Ok(payload)) => {
                row.sha256 = payload.sha256;
                row.stats = payload.stats;
                if options.stats && row.stats.is_none() {
                    row.stats_missing =
                        Some(format!("values of {} need a quantizer plugin (planned)", row.dtype));
                }
            }
            Some(Err(error)) => {
                first_error.get_or_insert(error);
            }
            None => {}
        }
    }
    first_error.map_or(Ok(()), Err)
}

struct Payload {
    sha256: Option<String>,
    stats: Option<Stats>,
}

fn read_one(host: &Host, opened: &OpenedModel, number: usize, options: RowOptions) -> Result<Payload> {
    let dtype = opened.model.tensors[number].dtype;
    let mut hasher = options.sha256.then(Sha256::new);
    let mut running = if options.stats { Running::new(dtype) } else { None };
    payload::stream(host, opened, number, &mut |bytes| {
        if let Some(hasher) = &mut hasher {
            hasher.update(bytes);
        }
        if let Some(running) = &mut running {
            running.add(bytes);
        }
        Ok::<(), Error>(())
    })?;
    Ok(Payload { sha256: hasher.map(|h| hex(&h.finalize())), stats: running.map(Running::finish) })
}

/// Reads one little-endian element.
pub(crate) type ReadValue = fn(&[u8]) -> f64;

/// Statistics being gathered, with Welford's method, which stays exact where sums of squares cancel
/// (Welford 1962, "Note on a method for calculating corrected sums of squares and products").
struct Running {
    value: ReadValue,
    width: usize,
    stats: Stats,
    finite: f64,
    mean: f64,
    squares: f64,
}

impl Running {
    /// `None` for a type whose values cannot be read here.
    fn new(dtype: DType) -> Option<Running> {
        let info = dtype.info()?;
        let value = reader_of(dtype)?;
        debug_assert!(info.kind != DTypeKind::Block);
        let width = info.block_bytes as usize;
        Some(Running { value, width, stats: Stats::default(), finite: 0.0, mean: 0.0, squares: 0.0 })
    }

    fn add(&mut self, bytes: &[u8]) {
        for element in bytes.chunks_exact(self.width) {
            let value = (self.value)(element);
            self.stats.count += 1;
            if value.is_nan() {
                self.stats.nans += 1;
            } else if value.is_infinite() {
                self.stats.infs += 1;
            } else {
                self.stats.zeros += u64::from(value == 0.0);
                self.finite += 1.0;
                let away = value - self.mean;
                self.mean += away / self.finite;
                self.squares += away * (value - self.mean);
                self.stats.min = Some(self.stats.min.map_or(value, |min| min.min(value)));
                self.stats.max = Some(self.stats.max.map_or(value, |max| max.max(value)));
            }
        }
    }

    fn finish(mut self) -> Stats {
        if self.finite > 0.0 {
            self.stats.mean = Some(self.mean);
            self.stats.std = Some((self.squares / self.finite).sqrt());
        }
        self.stats
    }
}

/// How one little-endian element becomes a number.
pub(crate) fn reader_of(dtype: DType) -> Option<ReadValue> {
    macro_rules! number {
        ($type:ty) => {
            |b: &[u8]| {
                #[allow(
                    clippy::cast_precision_loss,
                    clippy::cast_lossless,
                    reason = "statistics are in f64 by definition"
                )]
                b.try_into().map(<$type>::from_le_bytes).map_or(f64::NAN, |n| n as f64)
            }
        };
    }
    // A list, not a match over formats: types without a plain reading have none.
    let readers: &[(DType, ReadValue)] = &[
        (DType::F64, number!(f64)),
        (DType::F32, number!(f32)),
        (DType::F16, |b| b.try_into().map(u16::from_le_bytes).map_or(f64::NAN, half)),
        (DType::BF16, |b| {
            b.try_into()
                .map(u16::from_le_bytes)
                .map_or(f64::NAN, |n| f64::from(f32::from_bits(u32::from(n) << 16)))
        }),
        (DType::I8, number!(i8)),
        (DType::I16, number!(i16)),
        (DType::I32, number!(i32)),
        (DType::I64, number!(i64)),
        (DType::U8, number!(u8)),
        (DType::U16, number!(u16)),
        (DType::U32, number!(u32)),
        (DType::U64, number!(u64)),
        (DType::BOOL, number!(u8)),
    ];
    readers.iter().find(|(d, _)| *d == dtype).map(|(_, reader)| *reader)
}

/// IEEE 754 binary16.
fn half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(dtype: DType, bytes: &[u8]) -> Stats {
        let mut running = Running::new(dtype).unwrap();
        running.add(bytes);
        running.finish()
    }

    #[test]
    fn counts_what_is_not_finite_apart() {
        let values = [1.0f32, -3.0, 0.0, f32::NAN, f32::INFINITY];
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let s = stats(DType::F32, &bytes);
        assert_eq!((s.count, s.zeros, s.nans, s.infs), (5, 1, 1, 1));
        assert_eq!((s.min, s.max), (Some(-3.0), Some(1.0)));
        assert!((s.mean.unwrap() + 2.0 / 3.0).abs() < 1e-12);
        assert!((s.std.unwrap() - (26.0f64 / 9.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn halves_of_all_kinds_are_read() {
        for (bits, value) in
            [(0x3c00, 1.0), (0xc000, -2.0), (0x0001, 2f64.powi(-24)), (0x7bff, 65504.0), (0x8000, -0.0)]
        {
            assert_eq!(half(bits), value);
        }
        assert!(half(0x7e00).is_nan() && half(0x7c00).is_infinite());
        assert_eq!(stats(DType::BF16, &[0x80, 0x3f]).max, Some(1.0));
    }
}
