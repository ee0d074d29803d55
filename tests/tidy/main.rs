//! Text scans of the repository that fail on what its rules forbid, with file, line and remedy. Named
//! exceptions that are no longer needed fail too.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's failure is a panic, and its names are its documentation"
)]

mod circles;
mod dispatch;
mod licences;
mod rooms;
mod text;
mod tree;
