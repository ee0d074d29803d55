//! How all tensors of a planned model are made, checked and ready for the pipeline.

use crate::making::{Making, RowScale};
use crate::recode::Recode;
use crate::registry::Registry;
use crate::spool::{self, Spool};
use crate::tile::{Portion, Work};
use apr_sdk::{Error, Model, Result};

/// How all tensors of a planned model are made.
#[derive(Clone, Debug, Default)]
pub struct Workings {
    /// For each tensor, in the model's order.
    pub makings: Vec<Making>,
    /// What the pipeline does for each tensor.
    pub portions: Vec<Vec<Portion>>,
    /// What must be spooled for it.
    pub spool: Spool,
    /// The most memory that a thread needs to spool, in bytes.
    pub memory: u64,
}

impl Workings {
    /// The workings for `planned`, made of `source`.
    ///
    /// # Errors
    /// Plugin for a making that does not fit; what [`Making::portions`] raises. With the tensor.
    pub fn new(
        makings: Vec<Making>,
        planned: &Model,
        source: &Model,
        registry: &Registry,
    ) -> Result<Workings> {
        if makings.len() != planned.tensors.len() {
            let (have, want) = (makings.len(), planned.tensors.len());
            return Err(Error::plugin(format!("{want} tensors are planned, {have} are made")));
        }
        let mut workings = Workings::default();
        for (making, tensor) in makings.iter().zip(&planned.tensors) {
            making.check(tensor, &source.tensors)?;
            let portions = making.portions(tensor, &source.tensors, &mut workings.spool, registry);
            workings.portions.push(portions.map_err(|e| e.tensor(&tensor.name))?);
        }
        workings.memory = workings.spool.memory(&source.tensors)?;
        Ok(Workings { makings, ..workings })
    }

    /// What is done to a tensor, in words and in order.
    pub fn ops(&self, number: usize) -> Vec<String> {
        let mut ops: Vec<String> = Vec::new();
        for portion in &self.portions[number] {
            let spooled = portion.work.extent().is_some_and(|extent| extent.file == spool::FILE);
            let name = if spooled { "spool" } else { portion.work.name() };
            if !matches!(portion.work, Work::Copy(_)) || spooled {
                ops.push(name.to_owned());
            }
        }
        ops.sort_unstable();
        ops.dedup();
        ops.extend(self.makings[number].ops.iter().cloned());
        ops.extend(self.makings[number].add.map(|c| format!("add {c}")));
        let recode = self.portions[number].first().and_then(|portion| portion.recode.as_ref());
        let dtypes = recode.map(Recode::dtypes).filter(|(from, to)| from != to);
        ops.extend(dtypes.map(|(from, to)| {
            let word = match (&self.makings[number].row_scale, from.is_block(), to.is_block()) {
                (Some(RowScale::Scales { .. }), ..) => "scales of rows",
                (Some(RowScale::Codes), ..) | (None, false, true) => "quantize",
                (Some(RowScale::Undone { .. }), ..) | (None, true, false) => "dequantize",
                (None, true, true) => "requantize",
                (None, false, false) => "cast",
            };
            format!("{word} {from} -> {to}")
        }));
        if ops.is_empty() {
            ops.push("copy".to_owned());
        }
        ops
    }
}
