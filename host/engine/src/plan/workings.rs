//! How all tensors of a planned model are made, checked and ready for the pipeline.

use crate::expression::making::{Making, RowScale};
use crate::expression::spool::Spool;
use crate::expression::transcode::Transcode;
use crate::expression::work::SPOOL;
use crate::expression::work::{Portions, Work};
use crate::registry::Registry;
use apr_sdk::{Error, Model, Result};
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// How all tensors of a planned model are made.
#[derive(Clone, Debug, Default)]
pub struct Workings {
    /// For each tensor, in the model's order, the number of its words; only for a plan.
    wordings: Vec<u32>,
    /// All that differ: of a million tensors few do.
    words: Vec<Words>,
    /// A hash of them.
    pub hash: u64,
    /// What the pipeline does for each tensor.
    pub portions: Portions,
    /// What must be spooled for it.
    pub spool: Spool,
    /// The most memory that a thread needs to spool, in bytes.
    pub memory: u64,
}

/// What a plan says of a making.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Words {
    /// Its ops.
    ops: Vec<String>,
    /// What a change of type is called, where that does not follow from the types.
    change: Option<&'static str>,
}

impl Words {
    fn new(making: Making) -> Words {
        let mut ops = making.ops;
        ops.extend(making.add.map(|c| format!("add {c}")));
        let change = making.row_scale.map(|row_scale| match row_scale {
            RowScale::Scales { .. } => "scales of rows",
            RowScale::Codes => "quantize",
            RowScale::Undone { .. } => "dequantize",
        });
        Words { ops, change }
    }
}

impl Workings {
    /// The workings for `planned`, made of `source`. For a plan, they can say what is done to each tensor.
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
        let mut numbers: HashMap<Words, u32> = HashMap::new();
        for (making, tensor) in makings.into_iter().zip(&planned.tensors) {
            making.check(tensor, &source.tensors)?;
            making.hash(&mut hasher);
            let portions = making.portions(tensor, &source.tensors, &mut workings.spool, registry);
            workings.portions.push(portions.map_err(|e| e.tensor(&tensor.name))?);
            if for_plan {
                let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                workings.wordings.push(*numbers.entry(Words::new(making)).or_insert(next));
            }
        }
        let mut words: Vec<(Words, u32)> = numbers.into_iter().collect();
        words.sort_unstable_by_key(|(_, number)| *number);
        workings.words = words.into_iter().map(|(words, _)| words).collect();
        workings.memory = workings.spool.memory(&source.tensors)?;
        Ok(Workings { hash: hasher.finish(), ..workings })
    }

    /// What is done to a tensor, in words and in order: for a plan.
    pub fn ops(&self, number: usize) -> Vec<Cow<'static, str>> {
        let mut ops: Vec<Cow<'static, str>> = Vec::new();
        for portion in self.portions.of(number) {
            let spooled = portion.work.extent().is_some_and(|extent| extent.file == SPOOL);
            let name = if spooled { "spool" } else { portion.work.name() };
            if !matches!(portion.work, Work::Copy(_)) || spooled {
                ops.push(name.into());
            }
        }
        ops.sort_unstable();
        ops.dedup();
        let words = self.wordings.get(number).and_then(|&wording| self.words.get(wording as usize));
        let Some(words) = words else { return ops };
        ops.extend(words.ops.iter().cloned().map(Cow::from));
        let transcode = self.portions.of(number).first().and_then(|portion| portion.transcode.as_deref());
        let dtypes = transcode.map(Transcode::dtypes).filter(|(from, to)| from != to);
        ops.extend(dtypes.map(|(from, to)| {
            let word = words.change.unwrap_or(match (from.is_block(), to.is_block()) {
                (false, true) => "quantize",
                (true, false) => "dequantize",
                (true, true) => "requantize",
                (false, false) => "cast",
            });
            format!("{word} {from} -> {to}").into()
        }));
        if ops.is_empty() {
            ops.push("copy".into());
        }
        ops
    }
}
