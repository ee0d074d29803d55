//! What was looked at in a model, and found.

use super::judge::{Finding, Severity};
use super::statistics::{by_scales, refusal};
use apr_sdk::{Error, Model, Result};
use serde::Serialize;

/// What was looked at, and found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ContractReport {
    /// How many tensors were looked at.
    pub tensors: usize,
    /// How many of them by the scales of their blocks alone.
    pub by_scales: usize,
    /// Tensors that were not.
    pub not_looked: Vec<Unexamined>,
    /// What was found, in the order of the tensors.
    pub findings: Vec<Finding>,
    #[serde(skip)]
    order: Vec<usize>,
}

/// A tensor that was not looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unexamined {
    /// Its name.
    pub tensor: String,
    /// Why.
    pub reason: String,
}

impl ContractReport {
    /// Adds which tensors of a planned model were looked at, and which were not; `is_made` says which have any payload.
    pub fn account(&mut self, model: &Model, is_made: &dyn Fn(usize) -> bool) {
        for (number, tensor) in model.tensors.iter().enumerate() {
            match by_scales(tensor.dtype) {
                Some(by_scales) if is_made(number) => self.saw(by_scales),
                Some(_) => {}
                None => self.leave_out(&tensor.name, &refusal(tensor.dtype)),
            }
        }
    }

    /// Notes that a tensor is looked at, or its scales.
    pub(crate) fn saw(&mut self, by_scales: bool) {
        self.tensors += 1;
        self.by_scales += usize::from(by_scales);
    }

    /// Notes what was found in tensor number `number`.
    ///
    /// # Errors
    /// Failed, with the first finding that stops the work.
    pub(crate) fn note(&mut self, number: usize, findings: Vec<Finding>) -> Result<()> {
        let stop = findings.iter().find(|finding| finding.severity == Severity::Error).map(Finding::error);
        self.order.extend(findings.iter().map(|_| number));
        self.findings.extend(findings);
        stop.map_or(Ok(()), Err)
    }

    /// Notes that a tensor is not looked at.
    pub(crate) fn leave_out(&mut self, tensor: &str, why: &Error) {
        let (tensor, reason) = (tensor.to_owned(), why.message().to_owned());
        self.not_looked.push(Unexamined { tensor, reason });
    }

    /// The same, with what was found before.
    #[must_use]
    pub fn behind(mut self, before: Vec<Finding>) -> ContractReport {
        self.findings.splice(0..0, before);
        self
    }

    /// Puts findings into the order of the tensors, whichever thread came first.
    pub(crate) fn sort(&mut self) {
        let mut both: Vec<_> = self.order.drain(..).zip(self.findings.drain(..)).collect();
        both.sort_by_key(|(number, _)| *number);
        self.findings = both.into_iter().map(|(_, finding)| finding).collect();
    }
}
