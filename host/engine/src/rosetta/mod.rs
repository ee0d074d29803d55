//! What became of a model that went through another format.

pub mod compare;
pub mod facts;
