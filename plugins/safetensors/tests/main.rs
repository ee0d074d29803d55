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

mod carried;
mod conformance;
mod fixture;
mod peer;
mod read;
mod rejects;
mod round_trip;
mod sharded;
