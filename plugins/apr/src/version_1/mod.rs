//! `APRN`, version 1: a value that a Rust program serialized; read only.
//!
//! ```text
//! 0      header: APRN, version 1.0, model type, lengths of what follows, compression, flags (32 bytes)
//! 32     metadata: a map in MessagePack
//!        payload: bincode, compressed as a whole or not
//!        a signed file: signature and public key (96 bytes)
//! end    CRC-32 of all before (4 bytes)
//! ```
//!
//! Little-endian. Source: `src/core_io.rs` and `src/types.rs` of apr-format 0.72.3. The file does not describe the type of
//! its value, and a program may save any type as any model type: only what fits a known type exactly becomes tensors.

mod compression;
mod file;
mod frames;
pub(crate) mod layout;
mod message_pack;
mod models;

pub use file::File;
pub use layout::MAGIC;

/// The id under which the metadata of such files is carried along.
pub const FOREIGN: &str = "apr_1";
