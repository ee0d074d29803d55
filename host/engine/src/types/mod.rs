//! The types of the planned tensors: those that the user asked for, those that a target states, and those that hold every
//! value exactly.

pub mod bare_integers;
pub mod narrow;
pub mod quantize;
pub mod stated_types;
pub mod token_rows;
