//! The planned model on its way through the stages: each tensor with how it is made, and all that is no tensor.

use crate::expression::making::Making;
use apr_sdk::{DType, Error, Model, Payload, Result, Tensor};

/// A tensor of the planned model.
#[derive(Clone, Debug)]
pub struct PlannedTensor {
    /// What it will be: its name, type and shape.
    pub tensor: Tensor,
    /// How it is made of the source's tensors.
    pub making: Making,
    /// The type that it becomes if that holds every value exactly.
    pub narrow_if_exact: Option<DType>,
}

impl PlannedTensor {
    /// A tensor as it is made.
    pub fn new(tensor: Tensor, making: Making) -> PlannedTensor {
        PlannedTensor { tensor, making, narrow_if_exact: None }
    }

    /// Whether it has another type than what it is made of.
    pub fn is_retyped(&self) -> bool {
        self.tensor.dtype != self.making.source_dtype
    }
}

/// The planned model.
#[derive(Debug)]
pub struct Planned {
    /// Its tensors, in the order of the output.
    pub tensors: Vec<PlannedTensor>,
    /// Everything else. Its list of tensors is empty, but inside [`Planned::with_model`].
    rest: Model,
}

impl Planned {
    /// A model with tensors that are made so.
    pub fn new(mut rest: Model, tensors: Vec<PlannedTensor>) -> Planned {
        rest.tensors = Vec::new();
        Planned { tensors, rest }
    }

    /// The tensors of a model, made as the list says in its order.
    ///
    /// # Errors
    /// Plugin if the lists differ in length.
    pub fn pair(mut model: Model, makings: Vec<Making>) -> Result<Planned> {
        let tensors = std::mem::take(&mut model.tensors);
        if tensors.len() != makings.len() {
            let (have, want) = (makings.len(), tensors.len());
            return Err(Error::plugin(format!("{want} tensors are planned, {have} are made")));
        }
        let pairs = tensors.into_iter().zip(makings);
        Ok(Planned::new(model, pairs.map(|(tensor, making)| PlannedTensor::new(tensor, making)).collect()))
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
        let lent = |planned: &mut PlannedTensor| {
            let payload = Payload::Sequential;
            let nothing = Tensor { name: String::new(), dtype: DType::F32, shape: Vec::new(), payload };
            std::mem::replace(&mut planned.tensor, nothing)
        };
        self.rest.tensors = self.tensors.iter_mut().map(lent).collect();
        let value = f(&mut self.rest);
        let tensors = std::mem::take(&mut self.rest.tensors);
        debug_assert_eq!(tensors.len(), self.tensors.len(), "who is lent a model leaves its tensors");
        self.tensors.iter_mut().zip(tensors).for_each(|(planned, tensor)| planned.tensor = tensor);
        value
    }

    /// The model, and how each of its tensors is made, in its order.
    pub fn into_model(self) -> (Model, Vec<Making>) {
        let Planned { tensors, rest: mut model } = self;
        let (tensors, makings) = tensors.into_iter().map(|planned| (planned.tensor, planned.making)).unzip();
        model.tensors = tensors;
        (model, makings)
    }
}
