//! The plugin's own tests, in one binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    clippy::cast_possible_truncation,
    reason = "tests fail by panicking"
)]

mod fixture;
mod hostile;
mod read;
mod rejects;
mod round_trip;
mod scan;
