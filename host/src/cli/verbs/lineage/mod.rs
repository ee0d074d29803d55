//! What a model is, and where it came from.

pub mod derives;
pub mod hash;
pub mod provenance;
pub mod reproduce;
