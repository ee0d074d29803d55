//! The wire layer between `apr` and its plugins: the only crate that uses abi_stable.
//!
//! A plugin's author never names it: `apr_sdk::export_plugin!` does. Three things live here. [`wire`] is what crosses:
//! few frozen structs, one trait object per role, text and slices of abi_stable. [`adapt`] turns the plain traits of
//! `apr_sdk` into wire objects and back, so that both the plugin and the host see plain traits only. [`guard`] keeps
//! panics on the side they happen on: each call becomes a result. [`manifest`] is the section that the host reads
//! before it loads anything; [`export`] is what the macro expands to; [`link`] is the host's way in.

#![allow(non_local_definitions, non_camel_case_types, reason = "both are what abi_stable's derives generate")]

pub mod adapt;
pub mod export;
pub mod guard;
pub mod link;
pub mod manifest;
pub mod wire;

/// The version of the interface that this build speaks: major, minor.
pub const ABI: (u32, u32) =
    (manifest::number(env!("CARGO_PKG_VERSION_MAJOR")), manifest::number(env!("CARGO_PKG_VERSION_MINOR")));

#[doc(hidden)]
pub use abi_stable::library::LibHeader as __LibHeader;
