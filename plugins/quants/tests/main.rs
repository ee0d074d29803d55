//! The plugin as others see it: its bytes against ggml's.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test's failure is a panic, and its names are its documentation"
)]

mod alone;
mod data;
mod ggml;
mod golden;
mod imatrix;
mod levels;
mod recipes;
