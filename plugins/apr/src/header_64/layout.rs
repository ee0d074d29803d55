//! The header and its flags, with the names of the program that writes them.

/// The first four bytes.
pub const MAGIC: [u8; 4] = *b"APR\0";
/// The version of all known files: major, minor.
pub const VERSION: (u8, u8) = (2, 0);
/// Sections and tensors are filled up to a multiple of this.
pub const ALIGNMENT: u64 = 64;
/// Bytes after which a name is cut when it is written.
pub const MAX_NAME_LEN: usize = 256;
/// Length of the footer, a CRC-32.
pub const FOOTER_LEN: u64 = 4;

/// Feature flags of the header.
pub mod flags {
    /// LZ4 compression.
    pub const LZ4: u16 = 1;
    /// zstd compression.
    pub const ZSTD: u16 = 1 << 1;
    /// AES-256-GCM.
    pub const ENCRYPTED: u16 = 1 << 2;
    /// Ed25519 signature.
    pub const SIGNED: u16 = 1 << 3;
    /// The file is one of several.
    pub const SHARDED: u16 = 1 << 4;
    /// Tensors are stored column by column.
    pub const COLUMN_MAJOR: u16 = 1 << 11;
    /// Every bit that is defined: besides those above, quantized tensors, a filterbank, a model card, streaming,
    /// a vocabulary, tensors stored row by row.
    pub const DEFINED: u16 = 0x0fff;
}

/// The header, without the magic and its reserved bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Major and minor version.
    pub version: (u8, u8),
    /// See [`flags`].
    pub flags: u16,
    /// Number of entries of the index.
    pub tensor_count: u32,
    /// Offset of the JSON.
    pub metadata_offset: u64,
    /// Length of the JSON in bytes.
    pub metadata_size: u32,
    /// Offset of the index.
    pub tensor_index_offset: u64,
    /// Offset of the data section; offsets in the index are relative to it.
    pub data_offset: u64,
    /// CRC-32 of the header's other bytes.
    pub checksum: u32,
}

impl Header {
    /// Length in the file, including the magic.
    pub const LEN: usize = 64;
    /// Offset of the checksum.
    pub const CHECKSUM_AT: usize = 40;

    /// Decodes a header from its 64 bytes, whose magic the caller has checked.
    pub fn from_bytes(bytes: &[u8; Header::LEN]) -> Header {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        Header {
            version: (bytes[4], bytes[5]),
            flags: u16::from_le_bytes([bytes[6], bytes[7]]),
            tensor_count: word(8),
            metadata_offset: long(12),
            metadata_size: word(20),
            tensor_index_offset: long(24),
            data_offset: long(32),
            checksum: word(Header::CHECKSUM_AT),
        }
    }

    /// The CRC-32 of a header without its checksum.
    pub fn sum(bytes: &[u8; Header::LEN]) -> u32 {
        let mut sum = crc32fast::Hasher::new();
        sum.update(&bytes[..Header::CHECKSUM_AT]);
        sum.update(&bytes[Header::CHECKSUM_AT + 4..]);
        sum.finalize()
    }
}
