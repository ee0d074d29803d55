//! Compares a model with what became of it in another format.

pub mod compare;
pub mod facts;
