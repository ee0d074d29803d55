//! The GGUF format: read in versions 1 to 3 and both byte orders, whole or split; written little-endian, version 3.
//!
//! ```text
//!  0  "GGUF"
//!  4  u32 version           the byte order shows here: 00 00 00 03 is big-endian
//!  8  u64 n_tensors         u32 in version 1, as every count, length and dimension
//! 16  u64 n_keys
//! 24  n_keys × { string key, u32 type, value }
//!  …  n_tensors × { string name, u32 n_dims, u64 dim (innermost first) × n_dims, u32 type, u64 offset }
//!  …  zeros up to a multiple of the alignment (`general.alignment`, else 32)
//!  …  payloads, each at its offset from here, each padded to the alignment
//! ```
//! A string is a u64 length and bytes; an array is a u32 type, a u64 count and the items.

#![forbid(unsafe_code)]

mod card;
mod carried;
mod dtypes;
mod header;
mod index;
mod layout;
mod metadata;
mod plan;
mod reader;
mod remainder;
mod split;
mod tokenizer;
mod translated;
mod types;
mod value;
mod writer;

/// The format's id.
const ID: &str = "gguf";

/// The format's reader and writer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gguf;

// Weights of NVFP4 whose activations stay wide are listed as `_tag_prec_a4` in `conversion/base.py` of llama.cpp does it.
// Names may be as long as llama.cpp loads: `GGML_MAX_NAME` minus the NUL.
apr_sdk::export_plugin! {
    id: gguf,
    manifest: "
        formats=gguf
        gguf.name=GGUF
        gguf.roles=read write
        gguf.magic=0:47475546
        gguf.extensions=gguf
        gguf.dialect=always gguf
        gguf.dtypes=F64 F32 F16 BF16 I8 I16 I32 I64 Q1_0 Q2_0 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q8_1 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4 NVFP4
        gguf.max_dims=4
        gguf.max_name_bytes=63
        gguf.names=no-nul
        gguf.metadata=*
        gguf.tokenizer=core
        gguf.token_rows=yes
        gguf.bookkeeping=split.no split.count split.tensors.count
        gguf.tokenizer_keys=tokenizer.*
        gguf.card_keys=general.*
        gguf.keys=general.type:str general.name:str general.author:str general.version:str general.organization:str general.finetune:str general.basename:str general.description:str general.quantized_by:str general.size_label:str general.license:str general.license.name:str general.license.link:str general.url:str general.doi:str general.uuid:str general.repo_url:str general.tags:[str] general.languages:[str] general.file_type:u32 tokenizer.chat_template:str tokenizer.ggml.bos_token_id:u32 tokenizer.ggml.eos_token_id:u32 tokenizer.ggml.eot_token_id:u32 tokenizer.ggml.eom_token_id:u32 tokenizer.ggml.unknown_token_id:u32 tokenizer.ggml.seperator_token_id:u32 tokenizer.ggml.padding_token_id:u32 tokenizer.ggml.mask_token_id:u32 tokenizer.ggml.add_bos_token:bool tokenizer.ggml.add_eos_token:bool tokenizer.ggml.add_space_prefix:bool
        gguf.wide_activations=NVFP4 general.tensor_extra.name general.tensor_extra.prec_a4
        gguf.foreign=keep
        gguf.adapters=general.type=adapter
        gguf.option.pre=write text - Use this pre-tokenizer name instead of the one derived from the tokenizer
        gguf.option.be-payload=read choice:big,little big Byte order of BF16 and block data in big-endian files
    ",
    reader: |id| (id == ID).then(|| Box::new(Gguf) as _),
    writer: |id| (id == ID).then(|| Box::new(Gguf) as _),
}
