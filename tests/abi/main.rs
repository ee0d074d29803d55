//! The plugin boundary on disk: real libraries, built here, changed byte by byte, put in bad places, and made
//! to misbehave. `sdk/abi/tests` tests the wire itself.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    missing_docs,
    reason = "tests may fail loudly"
)]

mod block_types;
mod build;
mod bundle;
mod crashes;
mod features;
mod kernels;
mod library;
mod misbehaviour;
mod objects;
mod quantizers;
mod refusals;
mod rehearsal;
mod tidy;
mod trust;
