//! Watches the payload of a conversion: gathers statistics of every tensor, and judges it when its last byte
//! has passed.

use super::tile::{Run, Tiles};
use crate::architecture::TensorSpecs;
use crate::contract::{ContractReport, Kind, Quality, StatisticsBuilder, by_scales, judge_tensor};
use apr_sdk::{Model, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// Statistics of the tensors of a planned model, shared by threads. They are held from a tensor's first byte
/// to its last: there may be a million tensors.
pub struct Watch<'a> {
    model: &'a Model,
    specs: &'a TensorSpecs,
    counts: Vec<Mutex<Option<Arc<StatisticsBuilder>>>>,
    quality: Quality,
    looked: Mutex<ContractReport>,
}

impl<'a> Watch<'a> {
    /// A watch over the tensors of a planned model, given the architecture's `specs`.
    pub fn new(model: &'a Model, specs: &'a TensorSpecs, quality: Quality) -> Watch<'a> {
        let counts = model.tensors.iter().map(|_| Mutex::default()).collect();
        Watch { model, specs, counts, quality, looked: Mutex::default() }
    }

    /// Examines the bytes at offset `at` of a run as they are written. Each byte must come exactly once.
    ///
    /// # Errors
    /// Failed for a finding that is an error, with the tensor, the measured value and the expected one.
    pub fn see(&self, tiles: &Tiles, run: usize, at: u64, bytes: &[u8]) -> Result<()> {
        let Run { tensor: Some(number), offset, .. } = &tiles.runs[run] else { return Ok(()) };
        let number = *number;
        let offset = *offset;
        let own = tiles.of_tensor(number);
        let tensor = &self.model.tensors[number];
        let spec = self.specs.of(number);
        if bytes.is_empty() || !own.contains(&run) || by_scales(tensor.dtype).is_none() {
            return Ok(());
        }
        let kind = Kind::of(spec.role.as_deref(), tensor);
        let builder = self.builder(number, kind)?;
        let runs = &tiles.runs[own];
        if !builder.see(offset - runs[0].offset + at, bytes) {
            return Ok(());
        }
        *self.counts[number].lock().unwrap_or_else(PoisonError::into_inner) = None;
        let is_cast = runs.iter().any(|run| run.granule.is_some());
        let findings = judge_tensor(&tensor.name, kind, spec, is_cast, &builder.build()?, self.quality);
        self.looked.lock().unwrap_or_else(PoisonError::into_inner).note(number, findings)
    }

    /// The statistics of a tensor.
    fn builder(&self, number: usize, kind: Kind) -> Result<Arc<StatisticsBuilder>> {
        let mut count = self.counts[number].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(statistics) = &*count {
            return Ok(Arc::clone(statistics));
        }
        let statistics =
            Arc::new(StatisticsBuilder::new(&self.model.tensors[number], kind == Kind::Embedding)?);
        *count = Some(Arc::clone(&statistics));
        Ok(statistics)
    }

    /// The findings; [`ContractReport::account`] adds what was examined.
    pub fn finish(self) -> ContractReport {
        let mut looked = self.looked.into_inner().unwrap_or_else(PoisonError::into_inner);
        looked.sort();
        looked
    }
}
