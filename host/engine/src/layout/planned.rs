//! What a plan says of a layout: its files, and what is done to each tensor.

use super::Layout;
use crate::expression::work::{Portion, TILE};
use crate::plan::workings::Workings;
use crate::plan::{Plan, PlanFile, PlanTensor};
use apr_sdk::{DType, Model, Tensor};
use std::sync::Arc;

impl Plan {
    /// Fills in what follows from a layout and from what makes each tensor, but for the tensors; `width` is how many work.
    pub fn describe(&mut self, layout: &Layout, workings: &Workings, width: usize) {
        self.files = layout.files.iter().map(|f| PlanFile { name: f.name.clone(), bytes: f.len }).collect();
        self.bytes = layout.total();
        let portions = layout.payloads().flat_map(|(_, _, number)| workings.portions.of(number));
        let memory = portions.map(Portion::memory).fold(workings.memory.max(TILE), u64::max);
        self.payload_memory = width as u64 * memory;
        if workings.spool.len > 0 {
            let n = workings.spool.len;
            self.notes
                .push(format!("{n} bytes are spooled beside the output: they can be read only in order"));
        }
        self.notes.extend(layout.notes.iter().cloned());
        self.warnings.extend(layout.warnings.iter().cloned());
    }

    /// Fills in the tensors.
    pub fn list(&mut self, layout: &Layout, mut planned: Model, workings: &Workings) {
        self.tensors.reserve(planned.tensors.len());
        let list = |tensor| self.tensors.push(tensor);
        let taken = |number: usize| {
            let Tensor { name, dtype, shape, .. } = &mut planned.tensors[number];
            (std::mem::take(name), *dtype, std::mem::take(shape))
        };
        each_tensor(layout, workings, taken, list);
    }
}

/// Gives what will be done to each tensor, in the order of the output; `planned` gives name, type and
/// shape of the tensor of a number, and is asked for each once.
pub fn each_tensor(
    layout: &Layout,
    workings: &Workings,
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
            ops: workings.ops(number),
        });
    }
}
