//! The conformance checks for apr plugins, and what a plugin's own tests need: reading a model and writing it in
//! memory, as the host would, without the host.
//!
//! A plugin's tests begin with one line, [`conformance!`]. `apr plugins check` runs the same [`CHECKS`] on a built library.
//! Those of a quantizer begin with [`quantizer_conformance!`], those of a compute backend with [`kernel_conformance!`]; what
//! they take is in [`quantizers`] and [`kernels`].

#![forbid(unsafe_code)]

mod assembly;
mod carries;
mod checkpoint;
mod checks;
mod conformance;
mod fixture;
mod generate;
pub mod kernels;
mod model_fixture;
mod parts;
mod patch;
mod payload;
mod presets;
pub mod quantizers;
mod read;
mod same;
mod skips;
mod sources;
mod subject;
mod weights;
mod write;

pub use carries::{carried, carries, metadata_carried};
pub use checkpoint::{Checkpoint, SeededTensor};
pub use checks::{CHECKS, Check, check_plugin};
pub use conformance::Finding;
pub use fixture::Fixture;
pub use generate::{Random, shape_of, tensor_bytes, values};
pub use model_fixture::ModelFixture;
pub use parts::{Opened, read_with_parts};
pub use payload::payload;
pub use read::{read, read_limited, read_open};
pub use same::same_index;
pub use skips::skipped;
pub use sources::{FailingSource, Fault, MeteringSource};
pub use subject::{Subject, Verdict};
pub use weights::weight_bytes;
pub use write::{Rendered, render, write, write_model};

/// The examples of the SDK's README are compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
