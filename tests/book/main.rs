//! README and the book claim nothing that no test proves and nothing that is not there; pages that a test can write are written
//! here, with `BLESS=1`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "a test may panic")]

mod command_line;
mod examples;
mod json;
mod links;
mod readme;
mod supported;
mod tables;
