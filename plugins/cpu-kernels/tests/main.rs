//! The backend through its interface: every operation against a plain interpreter in double precision.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::needless_range_loop,
    reason = "tests fail by panicking, and their numbers are small"
)]

mod hostile;
mod memory;
mod mutations;
mod operations;
mod programs;
mod reference;
mod rejects;
mod setup;
mod speed;
