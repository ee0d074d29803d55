//! The backend over a driver that misbehaves: a library that stands in for NVIDIA's, found under its name. It runs the
//! kernels on the processor, fails when it is told to, and counts what is given back.
//!
//! Libraries that are loaded already are found by their name on Linux alone.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    clippy::cast_possible_truncation,
    reason = "tests fail by panicking, and their numbers are small"
)]

mod devices;
mod driver;
#[allow(dead_code, reason = "the kernels are run by the library here")]
#[path = "../emulated.rs"]
mod emulated;
mod faults;
mod memory;
