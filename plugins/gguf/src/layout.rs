//! Constants and raw structs in file order, shared by reader and writer.

use apr_sdk::ValueType;

/// The first four bytes, in either byte order.
pub const MAGIC: [u8; 4] = *b"GGUF";
/// The version that is written, and the newest that can be read.
pub const VERSION: u32 = 3;
/// Offset of the counts.
pub const COUNTS_AT: u64 = 8;
/// The alignment if a file does not state one.
pub const DEFAULT_ALIGNMENT: u64 = 32;
/// The most dimensions of a tensor (`GGML_MAX_DIMS`).
pub const MAX_DIMS: usize = 4;
/// The version of ggml's block layouts, stated in `general.quantization_version`.
pub const QUANTIZATION_VERSION: u32 = 2;

/// The key for the architecture.
pub const ARCHITECTURE_KEY: &str = "general.architecture";
/// The key for the alignment of payloads, u32.
pub const ALIGNMENT_KEY: &str = "general.alignment";
/// The key for the version of the block layouts, u32.
pub const QUANTIZATION_VERSION_KEY: &str = "general.quantization_version";
/// The key for the index of a part in a split file, from 0; u16.
pub const SPLIT_NO_KEY: &str = "split.no";
/// The key for the number of parts in a split file; u16.
pub const SPLIT_COUNT_KEY: &str = "split.count";
/// The key for the number of tensors in all parts together; i32.
pub const SPLIT_TENSORS_KEY: &str = "split.tensors.count";
/// The key for other formats' metadata (`--foreign keep`), as JSON text.
pub const CARRIED_KEY: &str = "apr.foreign";

/// Field sizes that differ between version 1 and later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Widths {
    /// Bytes of a count, a length or a dimension.
    pub length: u64,
    /// The fewest bytes of a key and its value.
    pub min_key: u64,
    /// The fewest bytes of a tensor's record.
    pub min_info: u64,
}

impl Widths {
    /// The field sizes of `version`.
    pub const fn of(version: u32) -> Widths {
        let length = if version == 1 { 4 } else { 8 };
        // A key: length, type, one byte. A record: name length, n_dims, type, offset.
        Widths { length, min_key: length + 4 + 1, min_info: length + 4 + 4 + 8 }
    }
}

/// Bytes of the fixed part of a version 3 header: magic, version, two counts.
pub const HEADER_LEN: u64 = 24;

const _: () = assert!(Widths::of(1).min_info == 20 && Widths::of(3).min_info == 24);
const _: () = assert!(COUNTS_AT + 2 * Widths::of(VERSION).length == HEADER_LEN);

// The SDK numbers value types as the format does, so that values need no translation.
const _: () = {
    assert!(ValueType::U8.0 == 0 && ValueType::I8.0 == 1 && ValueType::U16.0 == 2 && ValueType::I16.0 == 3);
    assert!(ValueType::U32.0 == 4 && ValueType::I32.0 == 5 && ValueType::F32.0 == 6);
    assert!(ValueType::BOOL.0 == 7 && ValueType::STRING.0 == 8 && ValueType::ARRAY.0 == 9);
    assert!(ValueType::U64.0 == 10 && ValueType::I64.0 == 11 && ValueType::F64.0 == 12);
};

/// Rounds `n` up to a multiple of `alignment`, a power of two; `None` on overflow.
pub fn align_up(n: u64, alignment: u64) -> Option<u64> {
    n.checked_add(alignment - 1).map(|n| n & !(alignment - 1))
}
