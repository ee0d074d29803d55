//! The planned model on its way through the stages: declarations, and the computation of each tensor.

use super::tensor_map::{TensorHandle, TensorMap};
use crate::expression::{ColumnImportance, Expression, PlannedTensor, row_len};
use crate::registry::Registry;
use apr_sdk::{DType, Model, Tensor};

/// The computation of a planned tensor's payload.
#[derive(Clone, Debug)]
pub struct Computation {
    /// The expression; has the tensor's type.
    pub expression: Expression,
    /// A table's operations on it, in words: `rename`, `stack 4`.
    pub words: Vec<String>,
    /// The type that the tensor becomes if that holds every value exactly.
    pub narrow_if_exact: Option<DType>,
}

impl Computation {
    /// Returns whether the type of `tensor`, which it computes, differs from the stored one.
    pub fn is_retyped(&self, tensor: &Tensor) -> bool {
        tensor.dtype != self.expression.stored_dtype()
    }

    /// Returns whether it reads packed weights, one at least.
    pub fn is_packed(&self) -> bool {
        self.expression.parts().iter().any(|part| part.packed().is_some())
    }
}

/// A model as it will be written, and the computation of each of its tensors.
#[derive(Debug)]
pub struct PlannedModel {
    model: Model,
    computations: TensorMap<Computation>,
}

impl PlannedModel {
    /// A planned model with these tensors, and with everything else of `rest`.
    pub fn new(mut rest: Model, tensors: Vec<PlannedTensor>) -> PlannedModel {
        rest.tensors = Vec::with_capacity(tensors.len());
        let mut planned = PlannedModel { model: rest, computations: TensorMap::with_capacity(tensors.len()) };
        for tensor in tensors {
            planned.push(tensor);
        }
        planned
    }

    fn push(&mut self, planned: PlannedTensor) {
        let PlannedTensor { tensor, expression, words, narrow_if_exact } = planned;
        self.model.tensors.push(tensor);
        self.computations.push(Computation { expression, words, narrow_if_exact });
    }

    /// The model as it will be written.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The computations of its tensors.
    pub fn computations(&self) -> &TensorMap<Computation> {
        &self.computations
    }

    /// A tensor's declaration.
    pub fn tensor(&self, handle: TensorHandle) -> &Tensor {
        &self.model.tensors[handle.index()]
    }

    /// Every tensor with its handle and its computation, in output order.
    pub fn tensors(&self) -> impl Iterator<Item = (TensorHandle, &Tensor, &Computation)> {
        let entries = self.computations.entries();
        entries.zip(&self.model.tensors).map(|((handle, computation), tensor)| (handle, tensor, computation))
    }

    /// Lends everything but the tensors to `change`, which sees a model without any; those that it adds are dropped.
    pub fn with_rest<T>(&mut self, change: impl FnOnce(&mut Model) -> T) -> T {
        let tensors = std::mem::take(&mut self.model.tensors);
        let value = change(&mut self.model);
        self.model.tensors = tensors;
        value
    }

    /// Gives a tensor another name.
    pub fn rename(&mut self, handle: TensorHandle, name: &str) {
        name.clone_into(&mut self.model.tensors[handle.index()].name);
        let words = &mut self.computations[handle].words;
        if !words.iter().any(|word| word == "rename") {
            words.push("rename".to_owned());
        }
    }

    /// Gives a tensor another type.
    pub fn retype(
        &mut self,
        handle: TensorHandle,
        dtype: DType,
        registry: &Registry,
        importance: Option<&ColumnImportance>,
    ) {
        let row_len = row_len(self.tensor(handle));
        self.change(handle, dtype, |expression| expression.typed(dtype, row_len, registry, importance));
    }

    /// Turns a tensor into integers with one scale per row.
    pub fn code(&mut self, handle: TensorHandle, dtype: DType) {
        let row_len = row_len(self.tensor(handle));
        self.change(handle, dtype, |expression| expression.coded(dtype, row_len));
    }

    /// Replaces a tensor's expression by one that computes another type.
    pub fn change(
        &mut self,
        handle: TensorHandle,
        dtype: DType,
        change: impl FnOnce(Expression) -> Expression,
    ) {
        self.model.tensors[handle.index()].dtype = dtype;
        self.computations[handle].expression.change(change);
    }

    /// Inserts tensors behind those that they belong to. `added` is in the order of its handles.
    pub fn insert_behind(&mut self, added: Vec<(TensorHandle, PlannedTensor)>) {
        if added.is_empty() {
            return;
        }
        let n_tensors = self.computations.len() + added.len();
        let tensors = std::mem::replace(&mut self.model.tensors, Vec::with_capacity(n_tensors));
        let computations = std::mem::replace(&mut self.computations, TensorMap::with_capacity(n_tensors));
        let handles = computations.handles();
        let mut added = added.into_iter().peekable();
        for ((handle, tensor), computation) in handles.zip(tensors).zip(computations) {
            self.model.tensors.push(tensor);
            self.computations.push(computation);
            while let Some((_, behind)) = added.next_if(|(before, _)| *before == handle) {
                self.push(behind);
            }
        }
    }

    /// The tensors alone.
    pub fn into_tensors(self) -> Vec<PlannedTensor> {
        let tensors = self.model.tensors.into_iter().zip(self.computations);
        tensors
            .map(|(tensor, Computation { expression, words, narrow_if_exact })| PlannedTensor {
                tensor,
                expression,
                words,
                narrow_if_exact,
            })
            .collect()
    }

    /// The model, for a target that checks it, and the computations of its tensors.
    pub fn into_parts(self) -> (Model, TensorMap<Computation>) {
        (self.model, self.computations)
    }
}
