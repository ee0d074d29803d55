//! The examination of a model: its extent, and its findings.

use super::finding::{Finding, Severity};
use super::statistics::{by_scales, refusal};
use apr_sdk::{Error, Model, Result};
use serde::Serialize;

/// The extent of an examination, and its findings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ContractReport {
    /// Number of tensors examined.
    pub tensors: usize,
    /// Number of those examined only by the scales of their blocks.
    pub by_scales: usize,
    /// Tensors that were not examined.
    pub not_looked: Vec<Unexamined>,
    /// The findings, in tensor order.
    pub findings: Vec<Finding>,
    #[serde(skip)]
    order: Vec<usize>,
}

/// A tensor that was not examined.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unexamined {
    /// The tensor's name.
    pub tensor: String,
    /// The reason.
    pub reason: String,
}

impl ContractReport {
    /// Counts which tensors of a planned model were examined; `is_made` tells which have any payload.
    pub fn account(&mut self, model: &Model, is_made: &dyn Fn(usize) -> bool) {
        for (number, tensor) in model.tensors.iter().enumerate() {
            match by_scales(tensor.dtype) {
                Some(by_scales) if is_made(number) => self.saw(by_scales),
                Some(_) => {}
                None => self.leave_out(&tensor.name, &refusal(tensor.dtype)),
            }
        }
    }

    /// Records that a tensor, or its scales, is being examined.
    pub(crate) fn saw(&mut self, by_scales: bool) {
        self.tensors += 1;
        self.by_scales += usize::from(by_scales);
    }

    /// Records the findings about tensor number `number`.
    ///
    /// # Errors
    /// Failed, with the first finding that is an error.
    pub(crate) fn note(&mut self, number: usize, findings: Vec<Finding>) -> Result<()> {
        let stop = findings.iter().find(|finding| finding.severity == Severity::Error).map(Finding::error);
        self.order.extend(findings.iter().map(|_| number));
        self.findings.extend(findings);
        stop.map_or(Ok(()), Err)
    }

    /// Records that a tensor is not examined.
    pub(crate) fn leave_out(&mut self, tensor: &str, why: &Error) {
        self.not_looked.push(Unexamined { tensor: tensor.to_owned(), reason: why.message().to_owned() });
    }

    /// Prepends earlier findings.
    #[must_use]
    pub fn behind(mut self, before: Vec<Finding>) -> ContractReport {
        self.findings.splice(0..0, before);
        self
    }

    /// Sorts findings by tensor, whichever thread was first.
    pub(crate) fn sort(&mut self) {
        let mut both: Vec<_> = self.order.drain(..).zip(self.findings.drain(..)).collect();
        both.sort_by_key(|(number, _)| *number);
        self.findings = both.into_iter().map(|(_, finding)| finding).collect();
    }
}
