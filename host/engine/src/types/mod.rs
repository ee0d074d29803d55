//! The types of the planned tensors: those that the user asked for, those that a target states, and those that hold every
//! value exactly.

pub mod narrow;
pub mod quantize;
pub mod stated_types;
pub mod token_rows;
pub mod unscaled;
