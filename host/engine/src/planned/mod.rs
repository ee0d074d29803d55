//! The conversion under way: the user's request, and the planned model that one stage hands to the next.

pub mod coverage;
mod model;
pub mod quantization;
pub mod record;
pub mod request;
pub mod selection;
mod tensor_map;

pub use model::{Computation, PlannedModel};
pub use tensor_map::{TensorHandle, TensorMap};
