//! The plugin's integration tests, in one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    clippy::cast_possible_truncation,
    reason = "tests stop at the first surprise"
)]

mod build;
mod conformance;
mod fixture;
mod hostile;
mod read;
mod rejects;
mod round_trip;
