//! The wire, tried in one process: what one side says is what the other hears, old and new versions meet, and what may
//! never change has a frozen copy.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    missing_docs,
    non_local_definitions,
    non_camel_case_types,
    reason = "tests; and what abi_stable's derives generate in the frozen copies"
)]

mod crossing;
mod details;
mod hash;
mod kernel_details;
mod kernel_toy;
mod kernels;
mod layout;
mod numbers;
mod toy;
mod versions;
