//! Replays the fuzzing corpora and seeds: any bytes give a clear error or a model, and what opens can be
//! written back. Inputs in `tests/corpus` are named after what they revealed.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a test's failure is a panic, and its names are its documentation"
)]

mod corpora;
mod property;
mod rules;
mod seeds;

#[global_allocator]
static ALLOCATOR: property::memory::Counting = property::memory::Counting;
