//! What a plan says of a layout: its files, and what is done to each tensor.

use super::Layout;
use super::op_lists::OpLists;
use crate::expression::{Expression, Spools, TILE};
use crate::plan::{Plan, PlanFile, PlanTensor};
use apr_sdk::{DType, Model, Result, Tensor};
use std::sync::Arc;

impl Plan {
    /// Fills in what follows from a layout and from what each tensor is made of, but for the tensors; `width` is how many
    /// work.
    ///
    /// # Errors
    /// Unsupported for a dtype that is unknown.
    pub fn describe(
        &mut self,
        layout: &Layout,
        expressions: &[Expression],
        spools: &Spools,
        width: usize,
    ) -> Result<()> {
        self.files = layout.files.iter().map(|f| PlanFile { name: f.name.clone(), bytes: f.len }).collect();
        self.bytes = layout.total();
        let mut memory = spools.memory()?.max(TILE);
        let placed = layout.payloads().filter_map(|(_, _, number)| expressions.get(number));
        for part in placed.flat_map(Expression::parts) {
            memory = memory.max(part.memory()?);
        }
        self.payload_memory = (width as u64).saturating_mul(memory);
        if spools.len > 0 {
            let n = spools.len;
            self.notes
                .push(format!("{n} bytes are spooled beside the output: they can be read only in order"));
        }
        self.notes.extend(layout.notes.iter().cloned());
        self.warnings.extend(layout.warnings.iter().cloned());
        Ok(())
    }

    /// Fills in the tensors.
    pub fn list(&mut self, layout: &Layout, mut planned: Model, spelled: &OpLists) {
        self.tensors.reserve(planned.tensors.len());
        let list = |tensor| self.tensors.push(tensor);
        let taken = |number: usize| {
            let Tensor { name, dtype, shape, .. } = &mut planned.tensors[number];
            (std::mem::take(name), *dtype, std::mem::take(shape))
        };
        each_tensor(layout, spelled, taken, list);
    }
}

/// Gives what will be done to each tensor, in the order of the output; `planned` gives name, type and
/// shape of the tensor of a number, and is asked for each once.
pub fn each_tensor(
    layout: &Layout,
    spelled: &OpLists,
    mut planned: impl FnMut(usize) -> (String, DType, Vec<u64>),
    mut tell: impl FnMut(PlanTensor),
) {
    let names: Vec<Arc<str>> = layout.files.iter().map(|file| file.name.as_str().into()).collect();
    for (file, placed, number) in layout.payloads() {
        let (name, dtype, shape) = planned(number);
        tell(PlanTensor {
            name,
            dtype: dtype.name(),
            shape,
            bytes: placed.len,
            file: Arc::clone(&names[file]),
            offset: placed.offset,
            ops: spelled.ops(number),
        });
    }
}
