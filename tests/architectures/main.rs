//! Translates whole models between dialects: compares the tables of `plugins/architectures` with what
//! llama.cpp's own converter wrote for the same folder (`tests/golden`).

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's failure is a panic, and its names are its documentation"
)]

mod across;
mod aliases;
mod altered;
mod back;
mod biases;
mod contract;
mod coverage;
mod fields;
mod golden;
mod headless;
mod identity;
mod judges;
mod models;
mod older;
mod packed;
mod page;
mod quality;
mod raw_gguf;
mod refused;
mod rerankers;
mod rotation;
mod said;
mod silent;
mod stacked;
mod summary;
mod tables;
mod ternary;
mod third_party;
mod traits;
mod variants;
mod versions;
mod vocabulary;
mod whisper;
mod worked;
