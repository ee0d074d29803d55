//! The safetensors format: a JSON header that lists the tensors, then their bytes.
//!
//! ```text
//! 0        8                       8 + N                                end of file
//! | N: u64 | header: N bytes JSON  | data area: the tensors tile it exactly   |
//!            {"__metadata__":{"format":"pt"},"NAME":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}, ...}
//! ```
//! All numbers are little-endian; `data_offsets` count from the data area's beginning. A sharded model is a folder of
//! such files and an index, `*.safetensors.index.json`: `{"metadata": {...}, "weight_map": {"NAME": "FILE"}}`.

#![forbid(unsafe_code)]

mod canonical;
mod carried;
mod header;
mod header_json;
mod index;
mod index_file;
mod json;
mod layout;
mod reader;
mod shards;
mod stated;
mod writer;

apr_sdk::export_plugin! {
    id: safetensors,
    manifest: "
        formats=safetensors
        safetensors.name=SafeTensors
        safetensors.roles=read write
        safetensors.extensions=safetensors
        safetensors.dialect=prefers hf
        safetensors.dtypes=BOOL F4_E2M1 F6_E2M3 F6_E3M2 U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ I16 U16 F16 BF16 I32 U32 F32 C64 F64 I64 U64
        safetensors.max_dims=8
        safetensors.metadata=*
        safetensors.bookkeeping=total_size apr.payload_bytes format
        safetensors.foreign=lost
        safetensors.described_weights=tensor_names
        safetensors.option.framework=write choice:pt,tf,flax,np,mlx - Framework to record in the metadata, if it names none
    ",
    reader: |_| Some(Box::new(reader::Safetensors)),
    writer: |_| Some(Box::new(writer::Safetensors)),
}
