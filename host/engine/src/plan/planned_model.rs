//! The planned model on its way through the stages: each tensor with what it is made of, and all that is no tensor.

use crate::expression::{Expression, PlannedTensor};
use apr_sdk::{DType, Model, Payload, Tensor};

/// The planned model.
#[derive(Debug)]
pub struct PlannedModel {
    /// Its tensors, in the order of the output.
    pub tensors: Vec<PlannedTensor>,
    /// Everything else. Its list of tensors is empty, but inside [`PlannedModel::with_model`].
    rest: Model,
}

impl PlannedModel {
    /// A model with tensors that are made so.
    pub fn new(mut rest: Model, tensors: Vec<PlannedTensor>) -> PlannedModel {
        rest.tensors = Vec::new();
        PlannedModel { tensors, rest }
    }

    /// Everything but its tensors.
    pub fn rest(&self) -> &Model {
        &self.rest
    }

    /// The same, to be changed.
    pub fn rest_mut(&mut self) -> &mut Model {
        &mut self.rest
    }

    /// Lends the model whole, to be changed but for its tensors.
    pub fn with_model<T>(&mut self, f: impl FnOnce(&mut Model) -> T) -> T {
        // Moved there and back, for a name and a shape may be long, and there may be a million of them.
        let lent = |planned: &mut PlannedTensor| std::mem::replace(&mut planned.tensor, unnamed());
        self.rest.tensors = self.tensors.iter_mut().map(lent).collect();
        let value = f(&mut self.rest);
        let tensors = std::mem::take(&mut self.rest.tensors);
        debug_assert_eq!(tensors.len(), self.tensors.len(), "who is lent a model leaves its tensors");
        self.tensors.iter_mut().zip(tensors).for_each(|(planned, tensor)| planned.tensor = tensor);
        value
    }

    /// The model with its tensors, and for each of them what it is made of and the table's words for that.
    pub fn into_model(self) -> (Model, Vec<(Expression, Vec<String>)>) {
        let PlannedModel { tensors, rest: mut model } = self;
        let split = |one: PlannedTensor| (one.tensor, (one.expression, one.words));
        let (tensors, made_of) = tensors.into_iter().map(split).unzip();
        model.tensors = tensors;
        (model, made_of)
    }
}

/// What stands where a tensor was taken.
fn unnamed() -> Tensor {
    Tensor { name: String::new(), dtype: DType::F32, shape: Vec::new(), payload: Payload::Sequential }
}
