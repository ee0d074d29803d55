//! The backend through its interface: the promises of every backend, and what is this one's own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests fail by panicking, and their numbers are small"
)]

mod hostile;
mod judged;
mod memory;
mod mutations;
mod rejects;
mod setup;
mod speed;
mod spinning;

apr_testkit::kernel_conformance!(setup::subject());
