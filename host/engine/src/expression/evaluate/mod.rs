//! Evaluates expressions: computes bytes of the result from the leaf's bytes, a run of whole granules at a
//! time.

pub(super) mod access;
mod at;
pub(super) mod granule;
pub(super) mod measure;
pub mod read;
pub mod sample;

use super::{Expression, Granule};
use crate::registry::Registry;
use crate::values::cast::{self, Changes};
use crate::values::loss::Loss;
use apr_sdk::{Error, Extent, Result};

/// Fills a slice with the bytes at the start of an extent.
pub type Read<'r> = &'r dyn Fn(Extent, &mut [u8]) -> Result<()>;

/// Buffers that a thread keeps between evaluations.
#[derive(Default)]
pub struct Buffers {
    /// Intermediate values.
    pub(super) values: Vec<f32>,
    /// The values decoded again after encoding.
    pub(super) again: Vec<f32>,
    /// True if this evaluation filled `again`.
    pub(super) has_again: bool,
    /// If `values` are the operand of the last expression: the changes from computing them.
    held: Option<Changes>,
    /// True if the next expression uses them too.
    keeps: bool,
}

impl Buffers {
    /// Returns whether the operand of the last expression is still in `values`, so that another expression
    /// with the same operand and leaf need not compute it again.
    pub fn holds_values(&self) -> bool {
        self.held.is_some()
    }

    /// Lets the next evaluation, of the same operand over the same bytes, reuse the values.
    pub fn keep_values(&mut self) {
        self.keeps = true;
    }

    /// Invalidates the values.
    pub fn forget_values(&mut self) {
        self.held = None;
    }
}

/// The result of an evaluation besides the bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// The changes that casts and additions made to the values.
    pub changes: Changes,
    /// The loss from quantizing the values.
    pub loss: Option<Loss>,
}

/// The evaluation of a run of an expression.
pub struct Evaluation<'a> {
    /// Provides the quantizers.
    pub registry: &'a Registry,
    /// The leaf's bytes for this run.
    pub leaf: &'a [u8],
    /// Index of the first row; 0 if granules are elements.
    pub(super) row: u64,
    /// Elements per granule.
    pub(super) row_len: u64,
    pub(super) elements: usize,
    /// True if values that the inverse of a product does not restore are counted.
    pub(super) counts_undone: bool,
}

impl<'a> Evaluation<'a> {
    /// The run that starts at byte `at` of an expression with this granule; `leaf` holds its leaf's bytes.
    ///
    /// # Errors
    /// LimitExceeded if it does not fit in memory.
    pub fn new(granule: Granule, registry: &'a Registry, leaf: &'a [u8], at: u64) -> Result<Evaluation<'a>> {
        let elements = (leaf.len() as u64 / granule.before.max(1)).checked_mul(granule.elements);
        let elements = elements.and_then(|n| usize::try_from(n).ok());
        let elements = elements.ok_or_else(|| Error::limit("a row does not fit in memory"))?;
        let row = if granule.is_row { at / granule.after.max(1) } else { 0 };
        let row_len = granule.elements;
        Ok(Evaluation { registry, leaf, row, row_len, elements, counts_undone: false })
    }

    pub(super) fn row_elements(&self) -> usize {
        usize::try_from(self.row_len).unwrap_or(usize::MAX)
    }
}

/// Number of these that are not finite.
pub(super) fn not_finite(values: &[f32]) -> u64 {
    values.iter().map(|value| u64::from(!value.is_finite())).sum()
}

impl Expression {
    /// Fills `out` with a run of the result; for an expression other than a `Concat`.
    ///
    /// # Errors
    /// Any error from the quantizers and reading.
    pub fn evaluate(&self, of: &Evaluation<'_>, buffers: &mut Buffers, out: &mut [u8]) -> Result<Outcome> {
        buffers.has_again = false;
        if !std::mem::take(&mut buffers.keeps) {
            buffers.forget_values();
        }
        if let Some(cast) = self.at_once()? {
            return Ok(Outcome { changes: cast.apply(of.leaf, out), loss: None });
        }
        match self {
            Expression::Cast(cast) => cast.bytes(of, buffers, out),
            Expression::Affine(_) | Expression::Decode(_) => {
                buffers.forget_values();
                let changes = self.judged_values(of, buffers)?;
                out.copy_from_slice(bytemuck::cast_slice(&buffers.values));
                Ok(Outcome { changes, loss: None })
            }
            Expression::Encode(encode) => encode.bytes(of, buffers, out),
            Expression::Repack(repack) => {
                buffers.forget_values();
                repack.bytes(of, buffers, out)
            }
            Expression::RowCodes(codes) => codes.bytes(of, buffers, out),
            Expression::RowScales(scales) => scales.bytes(of, buffers, out),
            _ => {
                out.copy_from_slice(of.leaf);
                Ok(Outcome::default())
            }
        }
    }

    /// Fills `buffers.values` with the elements in F32; returns the changes, and whether these count the
    /// non-finite ones.
    pub(super) fn values(&self, of: &Evaluation<'_>, buffers: &mut Buffers) -> Result<(Changes, bool)> {
        buffers.values.resize(of.elements, 0.0);
        match self {
            Expression::Cast(cast) => cast.values(of, buffers),
            Expression::Affine(affine) => affine.values(of, buffers),
            Expression::Decode(decode) => decode.values(of, buffers),
            leaf if leaf.is_leaf() && leaf.dtype() == apr_sdk::DType::F32 => {
                bytemuck::cast_slice_mut(&mut buffers.values).copy_from_slice(of.leaf);
                Ok((Changes::default(), false))
            }
            other => Err(Error::plugin(format!("values of {} are treated as F32", other.dtype()))),
        }
    }

    /// Like [`Expression::values`], always counting non-finite values among the changes.
    pub(super) fn judged_values(&self, of: &Evaluation<'_>, buffers: &mut Buffers) -> Result<Changes> {
        let (mut changes, is_judged) = self.values(of, buffers)?;
        changes.nonfinite += if is_judged { 0 } else { not_finite(&buffers.values) };
        Ok(changes)
    }

    /// Like [`Expression::judged_values`], for the operand of the current expression: its values may be in
    /// the buffer already.
    pub(super) fn operand_values(&self, of: &Evaluation<'_>, buffers: &mut Buffers) -> Result<Changes> {
        if let Some(changes) = buffers.held {
            return Ok(changes);
        }
        let changes = self.judged_values(of, buffers)?;
        buffers.held = Some(changes);
        Ok(changes)
    }

    /// The first element of a run that is not, or does not stay, finite: its index, and its value before and
    /// after.
    pub fn first_bad(&self, of: &Evaluation<'_>, buffers: &mut Buffers) -> Option<(u64, String)> {
        let mut at = Some(self);
        while let Some(one) = at {
            if let Some(bad) = one.at_once().ok().flatten().and_then(|cast| cast.first_bad(of.leaf)) {
                return Some(bad);
            }
            at = one.operand();
        }
        // Compares the values before the last conversion; decoding and adding compute them anew.
        match self {
            // Their values are in the buffer.
            Expression::Repack(_) => {}
            Expression::Decode(_) | Expression::Affine(_) => drop(self.values(of, buffers).ok()?),
            last => drop(last.operand()?.values(of, buffers).ok()?),
        }
        let bad = (0u64..).zip(&buffers.values).find(|(_, value)| !value.is_finite());
        if let Some((number, value)) = bad {
            return Some((number, format!("{value:e}, not finite")));
        }
        match self {
            Expression::Cast(cast) => {
                let last = cast::CastKernel::new(apr_sdk::DType::F32, cast.to, None).ok().flatten()?;
                last.first_bad(bytemuck::cast_slice(&buffers.values))
            }
            // Compares with the values decoded again.
            _ if !buffers.has_again => None,
            _ => {
                let pairs = (0u64..).zip(buffers.values.iter().zip(&buffers.again));
                let mut lost = pairs.filter(|(_, (_, after))| !after.is_finite());
                lost.next()
                    .map(|(number, (value, _))| (number, format!("{value:e}, too large for its block")))
            }
        }
    }
}
