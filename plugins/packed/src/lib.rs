//! Packed checkpoints: weights that a scheme stores as codes, scales and tables in several tensors.
//!
//! ```text
//! names, types, shapes, configuration --understand--> weights and their parts     one file per scheme
//! bytes of the parts --unpack--> rows of F32                                       the layouts that schemes share:
//! bytes of the parts --repack--> blocks of ggml with the same values               scaled.rs, ...
//! ```
//!
//! A scheme's file knows names and configuration keys, and how it is announced; a layout's file knows bytes. Several schemes share
//! a layout: a scale for each block of FP8 codes is the same whoever wrote it.

#![forbid(unsafe_code)]

mod affine;
mod agreement;
mod awq;
mod axes;
mod bitnet;
mod bitsandbytes;
mod blocks;
mod codebook;
mod comfy;
mod compressed_tensors;
mod derived;
mod factors;
mod fp8;
mod gptq;
mod hqq;
mod layout;
mod mlx;
mod model;
mod modelopt;
mod mxfp4;
mod numbers;
mod pattern;
mod plugin;
mod refused;
mod rows;
mod scaled;
mod scheme;
mod slices;
mod stars;
mod stated;
mod torchao;
mod words;

apr_sdk::export_plugin! {
    id: packed,
    manifest: "
        quantizers=packed
    ",
    quantizer: || Some(Box::new(plugin::Packed)),
}
