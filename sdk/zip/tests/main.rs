//! The crate's tests, in one binary.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    missing_docs,
    clippy::cast_possible_truncation,
    reason = "tests fail by panicking"
)]

mod forge;
mod judges;
mod read;
mod rejects;
mod repeat;
mod write;
