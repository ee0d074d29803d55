//! Describes a layout in a plan: its files, and what is done to each tensor.

use super::{OpLists, Plan, PlanFile, PlanTensor};
use crate::expression::{Expression, Spools, TILE};
use crate::layout::{Layout, OutputFile, Segment};
use crate::planned::TensorMap;
use apr_sdk::{DType, Model, Result, Tensor};
use std::sync::Arc;

impl PlanFile {
    fn of(file: &OutputFile) -> PlanFile {
        PlanFile { name: file.name.clone(), bytes: file.len, is_bound: file.floats_from.is_some() }
    }
}

impl Plan {
    /// Fills in what follows from a layout and its expressions, except for the list of tensors; `width` is
    /// the number of workers.
    ///
    /// # Errors
    /// Unsupported for an unknown dtype.
    pub fn describe(
        &mut self,
        layout: &Layout,
        expressions: &TensorMap<Expression>,
        spools: &Spools,
        width: usize,
    ) -> Result<()> {
        self.files = layout.files.iter().map(PlanFile::of).collect();
        self.bytes = layout.total();
        self.is_bound = self.files.iter().any(|file| file.is_bound);
        let mut memory = spools.memory(width)?.max((width as u64).saturating_mul(TILE));
        for (file, segment, placed, number) in layout.numbered_payloads() {
            let is_in_order = layout.files[file].floats_from.is_some_and(|first| first <= segment);
            let encoding = match &placed.segment {
                Segment::Payload { encoded: Some(encoded), .. } => encoded.memory(),
                _ if is_in_order => 3 * TILE,
                _ => 0,
            };
            let handle = expressions.handle(number);
            for part in handle.into_iter().flat_map(|handle| expressions[handle].parts()) {
                memory = memory.max(part.memory(width, encoding)?);
            }
        }
        self.payload_memory = memory;
        if spools.len > 0 {
            let why = match self.is_bound {
                false => "they can only be read sequentially",
                true => "they cannot be read in the order in which they are written",
            };
            self.notes.push(format!("{} bytes are spooled next to the output: {why}", spools.len));
        }
        self.notes.extend(layout.notes.iter().cloned());
        self.warnings.extend(layout.warnings.iter().cloned());
        Ok(())
    }

    /// Fills in the list of tensors.
    pub fn list(&mut self, layout: &Layout, mut planned: Model, spelled: &OpLists) {
        self.tensors.reserve(planned.tensors.len());
        each_tensor(
            layout,
            spelled,
            |number| {
                let Tensor { name, dtype, shape, .. } = &mut planned.tensors[number];
                (std::mem::take(name), *dtype, std::mem::take(shape))
            },
            |tensor| self.tensors.push(tensor),
        );
    }
}

/// Calls back with what will be done to each tensor, in output order. `planned` returns the tensor with an
/// index, and is called once for each.
pub fn each_tensor(
    layout: &Layout,
    spelled: &OpLists,
    mut planned: impl FnMut(usize) -> (String, DType, Vec<u64>),
    mut tell: impl FnMut(PlanTensor),
) {
    let names: Vec<Arc<str>> = layout.files.iter().map(|file| file.name.as_str().into()).collect();
    for (file, segment, placed, number) in layout.numbered_payloads() {
        let (name, dtype, shape) = planned(number);
        tell(PlanTensor {
            name,
            dtype: dtype.name(),
            shape,
            bytes: placed.len,
            file: Arc::clone(&names[file]),
            offset: placed.offset,
            is_bound: layout.files[file].floats_from.is_some_and(|first| first <= segment),
            ops: spelled.ops(number),
        });
    }
}
