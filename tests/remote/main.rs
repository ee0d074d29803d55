//! Models that are elsewhere: the servers that stand in for the hub and for bad networks, and what they prove of `apr`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "a test may panic")]

mod conversion;
mod counts;
mod local;
mod models;
mod program;
mod pull;
mod refusals;
mod resume;
mod security;
#[allow(dead_code, unused_imports, reason = "a server has more to offer than the tests of one day ask for")]
mod server;
mod states;
mod trouble;
