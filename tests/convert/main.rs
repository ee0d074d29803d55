//! Conversions between real files, through the library, with our plugins linked in.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's failure is a panic, and its names are its documentation"
)]

mod advised;
mod announced;
mod carrier;
mod changed_input;
mod choose;
mod companions;
mod compression;
mod declared;
mod derived;
mod edits;
mod encoded;
mod encoded_resume;
mod huggingface;
mod identity;
mod importance;
mod integer_rows;
mod layers;
mod lineage;
mod lost;
mod lying;
mod memory;
mod numpy;
mod onnx;
mod output;
mod packed;
mod quantize;
mod recipe_from;
mod rename;
mod resume;
mod scaled_codes;
mod several;
mod sharding;
mod stated;
mod stored_sums;
mod unpacked;
mod unscaled;
mod unseen_scales;
mod upgrade;
