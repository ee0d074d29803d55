//! The files that ggml's programs wrote before GGUF, read only: GGML, GGMF, GGJT 1 to 3, LoRA adapters,
//! whisper.cpp models.
//!
//! ```text
//!  0  "lmgg" | "fmgg" | "tjgg" | "algg"     the words ggml, ggmf, ggjt, ggla as a u32
//!  4  u32 version                           not in ggml; ggmf 1, ggjt 1 to 3, ggla 1
//!  …  hyperparameters, 4 bytes each         which ones, only the program knows that wrote the file
//!  …  whisper: u32 n_mel, u32 n_fft, n_mel × n_fft × f32
//!  …  [u32 count,] count × { u32 length, bytes [, f32 score] }
//!  …  until the end of the file:
//!     { u32 n_dims, u32 name length, u32 type, u32 dim (innermost first) × n_dims, name,
//!       in ggjt and ggla zeros up to a multiple of 32 of the file's offset, payload }
//! ```
//! Numbers are little-endian. The number of tensors is not stated.

#![forbid(unsafe_code)]

mod blocks;
mod complete;
mod header;
mod index;
mod layout;
mod reader;
mod types;

/// The format's id.
const ID: &str = "ggml_legacy";

/// The format, as reader.
#[derive(Clone, Copy, Debug, Default)]
pub struct GgmlLegacy;

apr_sdk::export_plugin! {
    id: ggml_legacy,
    manifest: "
        formats=ggml_legacy
        ggml_legacy.name=GGML before GGUF
        ggml_legacy.roles=read
        ggml_legacy.magic=0:6c6d6767 0:666d6767 0:746a6767 0:616c6767
        ggml_legacy.extensions=bin ggml
        ggml_legacy.dialect=any
        ggml_legacy.option.program=read choice:auto,llama,whisper,gpt2,gptj,gptneox,stablelm,mpt,replit,bert auto Program whose layout to use for the magic ggml, if several fit
        ggml_legacy.option.old-blocks=read choice:exact,f32 exact Rewrite old block layouts as current ones, if that is exact, or decode them to F32
    ",
    reader: |id| (id == ID).then(|| Box::new(GgmlLegacy) as _),
}
