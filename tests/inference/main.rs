//! Models that are run, judged by what transformers and llama.cpp computed of the same weights.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test's failure is a panic, and its names are its documentation"
)]

mod choosing;
mod compared;
mod cuda;
mod departures;
mod drafted;
mod families;
mod faults;
mod folder;
mod golden;
mod loading;
mod lost;
mod measured;
mod pooled;
mod sentences;
mod settings;
mod stages;
mod together;
mod traced;
mod trained;
