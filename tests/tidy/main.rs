//! The house keeps itself: plain text scans that fail on what the design forbids, with file, line and the remedy.
//! Every named exception that is no longer needed fails too.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's failure is a panic, and its names are its documentation"
)]

mod readme;
mod rooms;
mod text;
mod tree;
