//! Rosetta: tries every ordered pair of the available formats with small models of every kind. The expected
//! result is computed from the manifests; nobody lists the pairs.

mod chains;
mod expect;
pub mod growth;
pub mod hops;
pub mod losses;
pub mod matrix;
pub mod plot;
pub mod prospects;
mod run;
mod scratch;
mod sources;
mod specimens;
mod walk;

pub use run::{RunOptions, run};
