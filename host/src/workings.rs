//! How all tensors of a planned model are made, checked and ready for the pipeline.

use crate::making::{Making, RowScale};
use crate::recode::Recode;
use crate::registry::Registry;
use crate::spool::{self, Spool};
use crate::tile::{Portions, Work};
use apr_sdk::{Error, Model, Result};
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

/// How all tensors of a planned model are made.
#[derive(Clone, Debug, Default)]
pub struct Workings {
    /// For each tensor, in the model's order; only for a plan.
    makings: Vec<Making>,
    /// A hash of them.
    pub hash: u64,
    /// What the pipeline does for each tensor.
    pub portions: Portions,
    /// What must be spooled for it.
    pub spool: Spool,
    /// The most memory that a thread needs to spool, in bytes.
    pub memory: u64,
}

impl Workings {
    /// The workings for `planned`, made of `source`. For a plan, which says what is done to each tensor, the makings are kept:
    /// of a million tensors they take more than all that they come to.
    ///
    /// # Errors
    /// Plugin for a making that does not fit; what [`Making::portions`] raises. With the tensor.
    pub fn new(
        makings: Vec<Making>,
        planned: &Model,
        source: &Model,
        registry: &Registry,
        for_plan: bool,
    ) -> Result<Workings> {
        if makings.len() != planned.tensors.len() {
            let (have, want) = (makings.len(), planned.tensors.len());
            return Err(Error::plugin(format!("{want} tensors are planned, {have} are made")));
        }
        let mut workings = Workings::default();
        let mut hasher = DefaultHasher::new();
        for (making, tensor) in makings.into_iter().zip(&planned.tensors) {
            making.check(tensor, &source.tensors)?;
            making.hash(&mut hasher);
            let portions = making.portions(tensor, &source.tensors, &mut workings.spool, registry);
            workings.portions.push(portions.map_err(|e| e.tensor(&tensor.name))?);
            workings.makings.extend(for_plan.then_some(making));
        }
        workings.memory = workings.spool.memory(&source.tensors)?;
        Ok(Workings { hash: hasher.finish(), ..workings })
    }

    /// What is done to a tensor, in words and in order: for a plan.
    pub fn ops(&self, number: usize) -> Vec<Cow<'static, str>> {
        let mut ops: Vec<Cow<'static, str>> = Vec::new();
        for portion in self.portions.of(number) {
            let spooled = portion.work.extent().is_some_and(|extent| extent.file == spool::FILE);
            let name = if spooled { "spool" } else { portion.work.name() };
            if !matches!(portion.work, Work::Copy(_)) || spooled {
                ops.push(name.into());
            }
        }
        ops.sort_unstable();
        ops.dedup();
        let Some(making) = self.makings.get(number) else { return ops };
        ops.extend(making.ops.iter().cloned().map(Cow::from));
        ops.extend(making.add.map(|c| format!("add {c}").into()));
        let recode = self.portions.of(number).first().and_then(|portion| portion.recode.as_deref());
        let dtypes = recode.map(Recode::dtypes).filter(|(from, to)| from != to);
        ops.extend(dtypes.map(|(from, to)| {
            let word = match (&making.row_scale, from.is_block(), to.is_block()) {
                (Some(RowScale::Scales { .. }), ..) => "scales of rows",
                (Some(RowScale::Codes), ..) | (None, false, true) => "quantize",
                (Some(RowScale::Undone { .. }), ..) | (None, true, false) => "dequantize",
                (None, true, true) => "requantize",
                (None, false, false) => "cast",
            };
            format!("{word} {from} -> {to}").into()
        }));
        if ops.is_empty() {
            ops.push("copy".into());
        }
        ops
    }
}
