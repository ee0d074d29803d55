//! The wire layer between `apr` and its plugins: the only crate that uses abi_stable.
//!
//! Plugin authors never name it: `apr_sdk::export_plugin!` does. [`wire`] is what crosses: a few frozen
//! structs, one trait object per role, and abi_stable's strings and slices. [`adapt`] turns the plain traits
//! of `apr_sdk` into wire objects and back, so that plugin and host see plain traits only. [`guard`] keeps
//! panics on the side they happen on: each call becomes a result. [`manifest`] is the section that the host
//! reads before it loads anything; [`export`] is what the macro expands to; [`link`] is how the host gets in.

#![allow(non_local_definitions, non_camel_case_types, reason = "both are what abi_stable's derives generate")]

pub mod adapt;
pub mod export;
pub mod guard;
pub mod link;
pub mod manifest;
pub mod wire;

/// The interface version of this build: major, minor.
pub const ABI: (u32, u32) =
    (manifest::number(env!("CARGO_PKG_VERSION_MAJOR")), manifest::number(env!("CARGO_PKG_VERSION_MINOR")));

#[doc(hidden)]
pub use abi_stable::library::LibHeader as __LibHeader;
