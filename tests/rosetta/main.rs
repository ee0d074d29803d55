//! The Rosetta matrix of our own plugins: known gaps are listed, promises are kept, and faults are detected.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's failure is a panic, and its names are its documentation"
)]

mod expected;
mod jidoka;
mod liars;
mod page;
mod promises;
mod specification;
