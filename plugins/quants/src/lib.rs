//! The block types of ggml: floats to blocks and back, to the bit, and llama.cpp's way to choose a type for each tensor.
//!
//! ```text
//! rows of F32 --encode--> blocks        types/q4_k.rs, ...: one file each, a line of `types::TYPES`
//! blocks --decode--> rows of F32
//! names, shapes --assign--> types       recipes/
//! a file --importance--> values         imatrix/
//! ```
//!
//! Every encoder and decoder has a scalar form, which follows the published definition in its order of operations, and may have
//! vector forms (`simd/`), which give the same bytes and floats. The reference is ggml for x86-64 without any `-m` flag: no fused
//! multiply-add, no sums in another order.

#![deny(unsafe_code)]

mod bounds;
mod decode;
mod encode;
mod extremes;
mod fp4;
mod grids;
mod imatrix;
mod legacy;
mod nibbles;
mod nonlinear;
pub mod number;
mod quantizer;
mod recipes;
mod repack;
pub mod search;
pub mod simd;
pub mod super_block;
pub mod types;
mod weights;

apr_sdk::export_plugin! {
    id: quants,
    manifest: "
        quantizers=ggml
    ",
    quantizer: || Some(Box::new(quantizer::Quants)),
}
