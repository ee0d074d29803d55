//! Measures how far quantized values are from the originals, while they are written.

use crate::architecture::TensorSpecs;
use crate::contract::{Finding, Quality, Severity, judge_ruined, judge_vanished};
use crate::expression::scales_len;
use crate::tiles::tile::Tiles;
use crate::values::exact_sum::ExactSum;
use crate::values::loss::{Loss, Measured, is_none};
use apr_sdk::{Model, Result, checked_elements};
use serde::Serialize;
use std::sync::{Mutex, PoisonError};

/// The lowest signal-to-noise ratio, in decibels, that goes unreported. One well-chosen bit per weight gives
/// more than four; an error as large as the weights themselves gives zero.
const LEAST_SNR: f64 = 3.0;

/// The losses of all tensors, gathered by all threads. Nothing is stored for tensors that are not quantized.
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

/// A quantized tensor and what was lost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuantizedTensor {
    /// The tensor's name in the output.
    pub name: String,
    /// The dtype in the source.
    pub from: String,
    /// The dtype in the output.
    pub to: String,
    /// Dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Length of the payload in the output, in bytes.
    pub bytes: u64,
    /// The measurements; with `--resume`, only of what this run wrote.
    #[serde(flatten)]
    pub measured: Measured,
}

/// All quantized tensors.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Quantized {
    /// The tensors, in model order.
    pub tensors: Vec<QuantizedTensor>,
    /// The measurements over all of them.
    pub total: Measured,
    /// With `--resume`: the number of tiles of quantized tensors that an earlier run wrote, which these
    /// measurements exclude.
    #[serde(skip_serializing_if = "is_none")]
    pub unmeasured_tiles: usize,
}

impl Losses {
    /// Empty measurements for the tensors of `model`.
    pub fn new(model: &Model) -> Losses {
        Losses(model.tensors.iter().map(|_| Mutex::default()).collect())
    }

    /// Adds the loss of a tile.
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

    /// Findings for tensors that quantization turned to zero or ruined.
    ///
    /// # Errors
    /// Failed for the first finding that is an error; any error from computing the size of a tensor.
    pub fn judge(&self, model: &Model, specs: &TensorSpecs, quality: Quality) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        for (number, (tensor, gathered)) in model.tensors.iter().zip(&self.0).enumerate() {
            let gathered = gathered.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(loss) = gathered.as_deref().map(Gathered::loss) else { continue };
            // With `--resume`, only part of it was measured.
            let is_whole = loss.pairs() == checked_elements(&tensor.shape)?;
            let before = loss.square;
            let measured = loss.measured(0.0);
            let spec = specs.of(number);
            let finding = if is_whole && loss.not_finite == 0 && before > 0.0 && loss.square_after == 0.0 {
                judge_vanished(tensor, spec, before.sqrt(), quality)
            } else if let Some(snr) = measured.snr_db.filter(|snr| *snr < LEAST_SNR) {
                judge_ruined(tensor, spec, snr, LEAST_SNR, measured.rmse, quality)
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

    /// The measurements of every quantized tensor; `None` if there are none.
    ///
    /// # Errors
    /// Any error from computing the size of a tensor.
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    pub fn finish(self, model: &Model, tiles: &Tiles) -> Result<Option<Quantized>> {
        let mut tensors = Vec::new();
        let mut total = Loss::default();
        let mut bits = 0.0;
        for (number, (tensor, gathered)) in model.tensors.iter().zip(self.0).enumerate() {
            let gathered = gathered.into_inner().unwrap_or_else(PoisonError::into_inner);
            let Some(loss) = gathered.map(|gathered| gathered.loss()) else { continue };
            let mut runs = tiles.runs[tiles.of_tensor(number)].iter();
            let changed = runs.find(|run| run.granule.is_some()).filter(|_| loss.pairs() > 0);
            let Some(expression) = changed.map(|run| &run.expression) else { continue };
            let from = expression.stored_dtype();
            let to = expression.dtype();
            let bytes = tensor.payload_len()?;
            // The codes of rows are worth nothing without their scales, which are a tensor beside them.
            let scales = expression.row_scales().map(|_| scales_len(&tensor.shape)).transpose()?;
            let bits_per_weight = bits_per_weight(bytes.saturating_add(scales.unwrap_or(0)), &tensor.shape);
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
