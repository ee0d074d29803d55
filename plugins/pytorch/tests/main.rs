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

mod conformance;
mod fixture;
mod forge;
mod hostile;
mod lightning;
mod losses;
mod messages;
mod plain_values;
mod read;
mod rejects;
mod round_trip;
mod scan;
