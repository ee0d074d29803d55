//! Watches the payload of a conversion pass: every tensor has its count, and is judged when its last byte was seen.

use super::judge::{Finding, Standing, judge_tensor};
use super::policy::Quality;
use super::rules::Kind;
use super::tally::{Tally, by_scales, refusal};
use crate::architecture::Concerns;
use crate::tile::{Stretch, Tiles};
use apr_sdk::{Error, Model, Result};
use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts of the tensors of a planned model; threads share it. A tensor's count is held from its first byte to its last:
/// there may be a million tensors.
pub struct Watch<'a> {
    model: &'a Model,
    concerns: &'a Concerns,
    counts: Vec<Mutex<Option<Arc<Tally>>>>,
    quality: Quality,
    looked: Mutex<Looked>,
}

/// What was looked at, and found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Looked {
    /// How many tensors were looked at.
    pub tensors: usize,
    /// How many of them by the scales of their blocks alone.
    pub by_scales: usize,
    /// Tensors that were not.
    pub not_looked: Vec<NotLooked>,
    /// What was found, in the order of the tensors.
    pub findings: Vec<Finding>,
    #[serde(skip)]
    order: Vec<usize>,
}

/// A tensor that was not looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NotLooked {
    /// Its name.
    pub tensor: String,
    /// Why.
    pub reason: String,
}

impl<'a> Watch<'a> {
    /// Counts for the tensors of a planned model, of which `concerns` says what is known.
    pub fn new(model: &'a Model, concerns: &'a Concerns, quality: Quality) -> Watch<'a> {
        let counts = model.tensors.iter().map(|_| Mutex::default()).collect();
        Watch { model, concerns, counts, quality, looked: Mutex::default() }
    }

    /// Looks at bytes at `at` of a stretch, as they are written. Each byte comes once.
    ///
    /// # Errors
    /// Failed, with the tensor, the figure and what should be, for a finding that stops the work.
    pub fn see(&self, tiles: &Tiles, stretch: usize, at: u64, bytes: &[u8]) -> Result<()> {
        let Stretch { tensor: Some(number), offset, .. } = tiles.stretches[stretch] else { return Ok(()) };
        let own = tiles.of_tensor(number);
        let (tensor, concern) = (&self.model.tensors[number], self.concerns.of(number));
        if bytes.is_empty() || !own.contains(&stretch) || by_scales(tensor.dtype).is_none() {
            return Ok(());
        }
        let kind = Kind::of(concern.role.as_deref(), tensor);
        let tally = self.tally(number, kind)?;
        let stretches = &tiles.stretches[own];
        if !tally.see(offset - stretches[0].offset + at, bytes) {
            return Ok(());
        }
        *self.counts[number].lock().unwrap_or_else(PoisonError::into_inner) = None;
        let is_cast = stretches.iter().any(|stretch| stretch.recode.is_some());
        let findings = judge_tensor(&tensor.name, kind, concern, is_cast, &tally.facts()?, self.quality);
        self.looked.lock().unwrap_or_else(PoisonError::into_inner).note(number, findings)
    }

    /// The count of a tensor.
    fn tally(&self, number: usize, kind: Kind) -> Result<Arc<Tally>> {
        let mut count = self.counts[number].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tally) = &*count {
            return Ok(Arc::clone(tally));
        }
        let tally = Arc::new(Tally::new(&self.model.tensors[number], kind == Kind::Embedding)?);
        *count = Some(Arc::clone(&tally));
        Ok(tally)
    }

    /// What was found; [`Looked::account`] adds in what.
    pub fn finish(self) -> Looked {
        let mut looked = self.looked.into_inner().unwrap_or_else(PoisonError::into_inner);
        looked.sort();
        looked
    }
}

impl Looked {
    /// Adds which tensors of a planned model were looked at, and which were not.
    pub fn account(&mut self, model: &Model, tiles: &Tiles) {
        for (number, tensor) in model.tensors.iter().enumerate() {
            match by_scales(tensor.dtype) {
                Some(by_scales) if !tiles.of_tensor(number).is_empty() => self.saw(by_scales),
                Some(_) => {}
                None => self.leave_out(&tensor.name, &refusal(tensor.dtype)),
            }
        }
    }

    /// Notes that a tensor is looked at, or its scales.
    pub(super) fn saw(&mut self, by_scales: bool) {
        self.tensors += 1;
        self.by_scales += usize::from(by_scales);
    }

    /// Notes what was found in tensor number `number`.
    ///
    /// # Errors
    /// Failed, with the first finding that stops the work.
    pub(super) fn note(&mut self, number: usize, findings: Vec<Finding>) -> Result<()> {
        let stop = findings.iter().find(|finding| finding.standing == Standing::Error).map(Finding::error);
        self.order.extend(findings.iter().map(|_| number));
        self.findings.extend(findings);
        stop.map_or(Ok(()), Err)
    }

    /// Notes that a tensor is not looked at.
    pub(super) fn leave_out(&mut self, tensor: &str, why: &Error) {
        let (tensor, reason) = (tensor.to_owned(), why.message().to_owned());
        self.not_looked.push(NotLooked { tensor, reason });
    }

    /// The same, with what was found before.
    #[must_use]
    pub fn behind(mut self, before: Vec<Finding>) -> Looked {
        self.findings.splice(0..0, before);
        self
    }

    /// Puts findings into the order of the tensors, whichever thread came first.
    pub(super) fn sort(&mut self) {
        let mut both: Vec<_> = self.order.drain(..).zip(self.findings.drain(..)).collect();
        both.sort_by_key(|(number, _)| *number);
        self.findings = both.into_iter().map(|(_, finding)| finding).collect();
    }
}
