//! How far quantized values are from what they were, measured while they are written.

use crate::architecture::TensorSpecs;
use crate::contract::{Finding, Quality, Severity, judge_ruined, judge_vanished};
use crate::tiles::tile::Tiles;
use crate::values::exact_sum::ExactSum;
use crate::values::loss::{Loss, Measured, is_none};
use apr_sdk::{Model, Result, checked_elements};
use serde::Serialize;
use std::sync::{Mutex, PoisonError};

/// The least ratio of signal to noise, in decibels, that is not told. One bit a weight, well chosen, has more than four; an
/// error as large as the weights themselves has none.
const LEAST_SNR: f64 = 3.0;

/// The losses of all tensors, gathered by all threads. Most models have none: of a tensor that is not quantized nothing is held.
pub struct Losses(Vec<Mutex<Option<Box<Gathered>>>>);

#[derive(Default)]
struct Gathered {
    values: u64,
    not_finite: u64,
    square: ExactSum,
    square_after: ExactSum,
    product: ExactSum,
    square_error: ExactSum,
    greatest: f64,
}

impl Gathered {
    fn loss(&self) -> Loss {
        Loss {
            values: self.values,
            not_finite: self.not_finite,
            square: self.square.value(),
            square_after: self.square_after.value(),
            product: self.product.value(),
            square_error: self.square_error.value(),
            greatest: self.greatest,
        }
    }
}

/// A tensor that was quantized.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuantizedTensor {
    /// Its name in the output.
    pub name: String,
    /// Its type in the source.
    pub from: String,
    /// Its type in the output.
    pub to: String,
    /// Its dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Bytes of its payload in the output.
    pub bytes: u64,
    /// What was measured; with `--resume` only what this run wrote.
    #[serde(flatten)]
    pub measured: Measured,
}

/// All tensors that were quantized.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Quantized {
    /// Each, in the order of the model.
    pub tensors: Vec<QuantizedTensor>,
    /// All together.
    pub total: Measured,
    /// With `--resume`: how many tiles of quantized tensors an earlier run wrote, which no figure here covers.
    #[serde(skip_serializing_if = "is_none")]
    pub unmeasured_tiles: usize,
}

impl Losses {
    /// Nothing gathered yet.
    pub fn new(model: &Model) -> Losses {
        Losses(model.tensors.iter().map(|_| Mutex::default()).collect())
    }

    /// Adds what a tile lost.
    pub fn add(&self, tensor: usize, loss: &Loss) {
        let Some(gathered) = self.0.get(tensor) else { return };
        let mut gathered = gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let gathered = gathered.get_or_insert_default();
        gathered.values += loss.values;
        gathered.not_finite += loss.not_finite;
        gathered.square.add(loss.square);
        gathered.square_after.add(loss.square_after);
        gathered.product.add(loss.product);
        gathered.square_error.add(loss.square_error);
        gathered.greatest = gathered.greatest.max(loss.greatest);
    }

    /// Tensors of which quantization left nothing, though they were not zero, or next to nothing.
    ///
    /// # Errors
    /// Failed for the first that stops the work; any error from the sizes of a tensor.
    pub fn judge(&self, model: &Model, specs: &TensorSpecs, quality: Quality) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        for (number, (tensor, gathered)) in model.tensors.iter().zip(&self.0).enumerate() {
            let gathered = gathered.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(loss) = gathered.as_deref().map(Gathered::loss) else { continue };
            // With `--resume` only some of it was seen.
            let is_whole = loss.pairs() == checked_elements(&tensor.shape)?;
            let (before, after) = (loss.square, loss.square_after);
            let measured = loss.measured(0.0);
            let spec = specs.of(number);
            let finding = if is_whole && loss.not_finite == 0 && before > 0.0 && after == 0.0 {
                judge_vanished(tensor, spec, before.sqrt(), quality)
            } else if let Some(snr) = measured.snr_db.filter(|snr| *snr < LEAST_SNR) {
                judge_ruined(tensor, spec, (snr, LEAST_SNR), measured.rmse, quality)
            } else {
                continue;
            };
            if finding.severity == Severity::Error {
                return Err(finding.error());
            }
            findings.push(finding);
        }
        Ok(findings)
    }

    /// What was measured of every tensor that was quantized; `None` if none was.
    ///
    /// # Errors
    /// Any error from the sizes of a tensor.
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    pub fn finish(self, model: &Model, tiles: &Tiles) -> Result<Option<Quantized>> {
        let (mut tensors, mut total, mut bits) = (Vec::new(), Loss::default(), 0.0);
        for (number, (tensor, gathered)) in model.tensors.iter().zip(self.0).enumerate() {
            let gathered = gathered.into_inner().unwrap_or_else(PoisonError::into_inner);
            let Some(loss) = gathered.map(|gathered| gathered.loss()) else { continue };
            let mut runs = tiles.runs[tiles.of_tensor(number)].iter();
            let changed = runs.find(|run| run.granule.is_some()).filter(|_| loss.pairs() > 0);
            let Some(expression) = changed.map(|run| &run.expression) else { continue };
            let (from, to) = (expression.stored_dtype(), expression.dtype());
            let bytes = tensor.payload_len()?;
            let bits_per_weight = bits_per_weight(bytes, &tensor.shape);
            bits += bits_per_weight * loss.pairs() as f64;
            total.add(&loss);
            tensors.push(QuantizedTensor {
                name: tensor.name.clone(),
                from: from.name().to_owned(),
                to: to.name().to_owned(),
                shape: tensor.shape.clone(),
                bytes,
                measured: loss.measured(bits_per_weight),
            });
        }
        if tensors.is_empty() {
            return Ok(None);
        }
        let total = total.measured(bits / total.pairs() as f64);
        Ok(Some(Quantized { tensors, total, unmeasured_tiles: 0 }))
    }
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn bits_per_weight(bytes: u64, shape: &[u64]) -> f64 {
    let elements = shape.iter().fold(1.0, |n, size| n * *size as f64);
    bytes as f64 * 8.0 / elements
}
