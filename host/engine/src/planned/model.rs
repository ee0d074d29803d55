//! The planned model on its way through the stages: every tensor with its expression, and everything that is
//! not a tensor.

use crate::expression::{Expression, PlannedTensor};
use apr_sdk::{DType, Model, Payload, Tensor};

/// A model whose tensors are expressions; one stage hands it to the next.
#[derive(Debug)]
pub struct PlannedModel {
    /// The tensors, in output order.
    pub tensors: Vec<PlannedTensor>,
    /// Everything else. Its list of tensors is empty, except inside [`PlannedModel::with_model`].
    rest: Model,
}

impl PlannedModel {
    /// A planned model of `rest` with these tensors.
    pub fn new(mut rest: Model, tensors: Vec<PlannedTensor>) -> PlannedModel {
        rest.tensors = Vec::new();
        PlannedModel { tensors, rest }
    }

    /// Everything but the tensors.
    pub fn rest(&self) -> &Model {
        &self.rest
    }

    /// Everything but the tensors, mutably.
    pub fn rest_mut(&mut self) -> &mut Model {
        &mut self.rest
    }

    /// Lends the whole model to `f`, which may change anything but the tensors.
    pub fn with_model<T>(&mut self, f: impl FnOnce(&mut Model) -> T) -> T {
        // Moved there and back: names and shapes may be long, and there may be a million of them.
        let lent = self.tensors.iter_mut().map(|planned| std::mem::replace(&mut planned.tensor, unnamed()));
        self.rest.tensors = lent.collect();
        let value = f(&mut self.rest);
        let tensors = std::mem::take(&mut self.rest.tensors);
        debug_assert_eq!(tensors.len(), self.tensors.len(), "who is lent a model leaves its tensors");
        self.tensors.iter_mut().zip(tensors).for_each(|(planned, tensor)| planned.tensor = tensor);
        value
    }

    /// The model with its tensors; and for each of them its expression and the table's description of it.
    pub fn into_model(self) -> (Model, Vec<(Expression, Vec<String>)>) {
        let PlannedModel { tensors, rest: mut model } = self;
        let mut made_of = Vec::with_capacity(tensors.len());
        model.tensors = Vec::with_capacity(tensors.len());
        for one in tensors {
            model.tensors.push(one.tensor);
            made_of.push((one.expression, one.words));
        }
        (model, made_of)
    }
}

/// A placeholder for a tensor that was moved out.
fn unnamed() -> Tensor {
    Tensor { name: String::new(), dtype: DType::F32, shape: Vec::new(), payload: Payload::Sequential }
}
