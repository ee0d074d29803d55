//! The backend through its interface, over a driver that runs the kernels on the processor.

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

mod emulated;
mod operations;
mod programs;
mod reference;
mod setup;
