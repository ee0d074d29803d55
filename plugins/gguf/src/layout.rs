//! Constants and raw structs of the file, in its order; used by the reader and the writer.

use apr_sdk::ValueType;

/// The first four bytes, in either byte order.
pub const MAGIC: [u8; 4] = *b"GGUF";
/// The version that is written, and the newest that is read.
pub const VERSION: u32 = 3;
/// Where the counts begin.
pub const COUNTS_AT: u64 = 8;
/// The alignment of a file that does not state one.
pub const DEFAULT_ALIGNMENT: u64 = 32;
/// The most dimensions of a tensor (`GGML_MAX_DIMS`).
pub const MAX_DIMS: usize = 4;
/// The version of ggml's block layouts, which `general.quantization_version` states.
pub const QUANTIZATION_VERSION: u32 = 2;

/// What a model implements.
pub const ARCHITECTURE_KEY: &str = "general.architecture";
/// The alignment of payloads, u32.
pub const ALIGNMENT_KEY: &str = "general.alignment";
/// The version of the block layouts, u32.
pub const QUANTIZATION_VERSION_KEY: &str = "general.quantization_version";
/// The number of a part of a split file, from 0; u16.
pub const SPLIT_NO_KEY: &str = "split.no";
/// How many parts a split file has; u16.
pub const SPLIT_COUNT_KEY: &str = "split.count";
/// How many tensors all parts have together; i32.
pub const SPLIT_TENSORS_KEY: &str = "split.tensors.count";
/// Where `--foreign keep` puts other formats' metadata: a JSON text.
pub const CARRIED_KEY: &str = "apr.foreign";

/// Sizes that differ between version 1 and later ones.
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
    /// The sizes of `version`.
    pub const fn of(version: u32) -> Widths {
        let length = if version == 1 { 4 } else { 8 };
        // A key: length, type, one byte. A record: name length, n_dims, type, offset.
        Widths { length, min_key: length + 4 + 1, min_info: length + 4 + 4 + 8 }
    }
}

/// Bytes of the fixed part of the header that is written: magic, version, two counts.
pub const HEADER_LEN: u64 = 24;

const _: () = assert!(Widths::of(1).min_info == 20 && Widths::of(3).min_info == 24);
const _: () = assert!(COUNTS_AT + 2 * Widths::of(VERSION).length == HEADER_LEN);

// The SDK's numbers of value types are the file's, so that a value's bytes need no translation.
const _: () = {
    assert!(ValueType::U8.0 == 0 && ValueType::I8.0 == 1 && ValueType::U16.0 == 2 && ValueType::I16.0 == 3);
    assert!(ValueType::U32.0 == 4 && ValueType::I32.0 == 5 && ValueType::F32.0 == 6);
    assert!(ValueType::BOOL.0 == 7 && ValueType::STRING.0 == 8 && ValueType::ARRAY.0 == 9);
    assert!(ValueType::U64.0 == 10 && ValueType::I64.0 == 11 && ValueType::F64.0 == 12);
};

/// `n` rounded up to a multiple of `alignment`, a power of two; `None` past 2^64.
pub fn align_up(n: u64, alignment: u64) -> Option<u64> {
    n.checked_add(alignment - 1).map(|n| n & !(alignment - 1))
}
