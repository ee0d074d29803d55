//! The selection of a source's tensors by names and patterns, and the names that the user gives them.

pub mod choice;
pub mod glob;
pub mod output_names;
pub mod source_names;
