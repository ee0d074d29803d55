//! Trust no file, no disk and no user: whatever is done to inputs, outputs and the process, the result is a
//! clear error or a correct file, in bounded time and memory, and nothing half-written.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test's failure is a panic, and its names are its documentation"
)]

mod build;
mod claims;
mod command;
mod counts;
mod cut;
mod disk;
mod existing;
mod file_names;
mod flips;
mod in_place;
mod journal;
mod judge;
mod kill;
mod limits;
mod lookalikes;
mod many;
mod memory;
mod metadata;
mod mixed;
mod names;
mod odd_machine;
mod outputs;
mod overwriting;
mod overwritten;
mod publish;
mod replace;
mod reports;
mod sandbox;
mod stale;
mod stop;
mod threads;
mod truncation;

use apr_tests::counting::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
