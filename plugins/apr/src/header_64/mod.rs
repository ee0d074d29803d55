//! `APR\0`: the layout with a 64-byte header that the crate `apr-format` writes; read only.
//!
//! ```text
//! 0               header: APR\0, version 2.0, flags, count, offsets, CRC-32 of bytes 0 to 40 and 44 to 64 (64 bytes)
//! metadata_offset JSON object; zeros up to a multiple of 64
//! index_offset    per tensor name, dtype, dims, offset, size; by name; zeros up to a multiple of 64
//! data_offset     tensors, each at a multiple of 64 and followed by zeros up to one
//! data end        footer: CRC-32 of all before (4 bytes); some files have none
//! ```
//!
//! Little-endian. Source: `src/v2` of apr-format 0.72.3. Its numbers of dtypes are neither ggml's nor those of APR2.

mod blocks;
mod dtypes;
mod file;
mod index;
pub(crate) mod layout;
mod sections;

pub use file::File;
pub use layout::MAGIC;

/// The id under which the metadata of such files is carried along.
pub const FOREIGN: &str = "apr_64";
