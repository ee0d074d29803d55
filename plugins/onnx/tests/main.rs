//! The plugin's own tests, in one binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests fail by panicking"
)]

mod build;
mod carried;
mod casts;
mod conformance;
mod derived;
mod external;
mod fixture;
mod hostile;
mod long;
mod read;
mod rejects;
mod round_trip;
mod sparse_check;
