//! Watches the payload of a conversion pass: every tensor has its count, and is judged when its last byte was seen.

use super::judge::{Finding, Standing, judge_tensor};
use super::policy::Quality;
use super::rules::Kind;
use super::tally::Tally;
use crate::architecture::Concern;
use crate::tile::{Stretch, Tiles};
use apr_sdk::{Error, Model, Result};
use serde::Serialize;
use std::sync::{Mutex, PoisonError};

/// Counts of all tensors of a planned model; threads share it.
pub struct Watch {
    tensors: Vec<Option<Watched>>,
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

struct Watched {
    name: String,
    kind: Kind,
    concern: Concern,
    tally: Tally,
    /// Where its payload begins in its output file.
    begin: u64,
    is_cast: bool,
}

impl Watch {
    /// Counts for the tensors of a planned model, of which `concerns` says what is known.
    pub fn new(model: &Model, tiles: &Tiles, concerns: Vec<Concern>, quality: Quality) -> Watch {
        let mut looked = Looked::default();
        let mut tensors = Vec::with_capacity(model.tensors.len());
        for (number, (tensor, concern)) in model.tensors.iter().zip(concerns).enumerate() {
            let stretches = &tiles.stretches[tiles.of_tensor(number)];
            let kind = Kind::of(concern.role.as_deref(), tensor);
            let watched = match (Tally::new(tensor, kind == Kind::Embedding), stretches.first()) {
                (Ok(tally), Some(first)) => {
                    looked.saw(&tally);
                    let is_cast = stretches.iter().any(|stretch| stretch.recode.is_some());
                    Some(Watched {
                        name: tensor.name.clone(),
                        kind,
                        concern,
                        tally,
                        begin: first.offset,
                        is_cast,
                    })
                }
                (Err(why), _) => {
                    looked.leave_out(&tensor.name, &why);
                    None
                }
                _ => None,
            };
            tensors.push(watched);
        }
        Watch { tensors, quality, looked: Mutex::new(looked) }
    }

    /// Looks at bytes at `at` of a stretch, as they are written. Each byte comes once.
    ///
    /// # Errors
    /// Failed, with the tensor, the figure and what should be, for a finding that stops the work.
    pub fn see(&self, tiles: &Tiles, stretch: usize, at: u64, bytes: &[u8]) -> Result<()> {
        let Stretch { tensor: Some(number), offset, .. } = tiles.stretches[stretch] else { return Ok(()) };
        let Some(watched) =
            self.tensors[number].as_ref().filter(|_| tiles.of_tensor(number).contains(&stretch))
        else {
            return Ok(());
        };
        if !watched.tally.see(offset - watched.begin + at, bytes) {
            return Ok(());
        }
        let Watched { name, kind, concern, is_cast, .. } = watched;
        let findings = judge_tensor(name, *kind, concern, *is_cast, &watched.tally.facts()?, self.quality);
        self.looked.lock().unwrap_or_else(PoisonError::into_inner).note(number, findings)
    }

    /// What was found.
    pub fn finish(self) -> Looked {
        let mut looked = self.looked.into_inner().unwrap_or_else(PoisonError::into_inner);
        looked.sort();
        looked
    }
}

impl Looked {
    /// Notes that a tensor is looked at.
    pub(super) fn saw(&mut self, tally: &Tally) {
        self.tensors += 1;
        self.by_scales += usize::from(tally.by_scales());
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
