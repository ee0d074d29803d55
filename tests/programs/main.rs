//! What tables say of what their models compute, as programs: judged without any backend.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test's failure is a panic, and its names are its documentation"
)]

mod families;
#[allow(dead_code, reason = "the tests of backends use all of it")]
#[path = "../inference/golden.rs"]
mod golden;
mod interpreter;
