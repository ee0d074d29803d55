//! What a model is, and where it came from.

pub mod hash;
pub mod provenance;
