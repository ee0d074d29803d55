//! The plugin as the host sees it: every fixture of the schemes' own packages, unpacked and repacked.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test's failure is a panic, and its names are its documentation"
)]

mod announced;
mod exact;
mod fixtures;
mod folder;
mod mutated;
mod parts;
mod rejects;
