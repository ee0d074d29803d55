//! The Rosetta matrix of our own plugins: what it does not do is listed, what it promises is kept, and what is wrong is
//! seen.

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
mod promises;
mod readme;
mod specification;
