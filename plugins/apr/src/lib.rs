//! APR, version 2: the format that carries everything that other formats can express.
//!
//! ```text
//! 0              header: APR2, version, flags, offsets and sizes of what follows (32 bytes)
//! 32             metadata: one JSON object
//!                index: count, reserved, then per tensor name, dtype, dims, offset, size, raw size, flags; by name
//! data_offset    tensors, each at a multiple of 64: first the hidden ones (`__apr__/…`), then the model's, in its order
//! data end       footer: CRC-32 of all before, 2RPA, file size (16 bytes)
//! ```
//!
//! Little-endian throughout. A sharded model is a JSON manifest and shards, each of which is such a file.

#![forbid(unsafe_code)]

mod carry;
mod check;
mod compression;
mod dtypes;
mod entries;
mod file;
mod file_layout;
mod folder;
mod header_64;
mod holes;
mod index;
mod keys;
mod layout;
mod manifest;
mod metadata;
mod parse;
mod reader;
mod render;
mod sections;
mod shard_sums;
mod shards;
mod version_1;
mod writer;

/// The format's id.
const FORMAT: &str = "apr";
/// The extension of its files.
const EXTENSION: &str = "apr";

apr_sdk::export_plugin! {
    id: apr,
    manifest: "
        formats=apr
        apr.name=APR version 2
        apr.roles=read write
        apr.magic=0:41505232 0:4150524e 0:41505200
        apr.extensions=apr
        apr.dialect=prefers canonical
        apr.dtypes=*
        apr.max_dims=8
        apr.max_name_bytes=65535
        apr.names=any
        apr.zero_size=yes
        apr.scalars=yes
        apr.shared_storage=no
        apr.row_scales=yes
        apr.metadata=none
        apr.tokenizer=yes
        apr.assets=yes
        apr.graph=no
        apr.foreign=all
        apr.report.check=Check what opening a file accepts, as `apr validate` does
        apr.option.compress=write text - Compress tensors: lz4, zstd, zstd:LEVEL, auto (what shrinks by 2 %), none; without it, as in an APR source
    ",
    reader: |_| Some(Box::new(reader::Reader)),
    writer: |_| Some(Box::new(writer::Writer::default())),
}
