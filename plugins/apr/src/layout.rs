//! The fixed records of an APR2 file, in file order, with the specification's names; used by reader and writer.

/// The first four bytes.
pub const MAGIC: [u8; 4] = *b"APR2";
/// The four bytes before the file size, at the end.
pub const MAGIC_END: [u8; 4] = *b"2RPA";
/// The version that this plugin writes, and the newest that it fully knows.
pub const VERSION: (u16, u16) = (2, 0);
/// The version as text, in the metadata.
pub const VERSION_TEXT: &str = "2.0.0";
/// The alignment of tensors in the data section, and of the section itself.
pub const ALIGNMENT: u64 = 64;
/// The name prefix of tensors that hold what is too long for the JSON metadata; the reader hides them.
pub const HIDDEN: &str = "__apr__/";

/// Feature flags of the header.
pub mod flags {
    /// At least one tensor is compressed.
    pub const COMPRESSED: u32 = 1;
    /// Tensors are aligned to 64.
    pub const ALIGNED_64: u32 = 1 << 1;
    /// Tensors are aligned to 32.
    pub const ALIGNED_32: u32 = 1 << 2;
    /// The file is one of several.
    pub const SHARDED: u32 = 1 << 3;
    /// AES-256-GCM.
    pub const ENCRYPTED: u32 = 1 << 4;
    /// Ed25519 signature.
    pub const SIGNED: u32 = 1 << 5;
    /// At least one tensor is of a block type.
    pub const QUANTIZED: u32 = 1 << 6;
    /// Streaming-optimized layout.
    pub const STREAMING: u32 = 1 << 7;
    /// Every bit that the specification defines.
    pub const DEFINED: u32 = 0xff;
}

/// Flags of one tensor.
pub mod tensor_flags {
    /// LZ4 blocks.
    pub const LZ4: u32 = 1;
    /// zstd frames.
    pub const ZSTD: u32 = 1 << 1;
    /// Planes of elements, each in LZ4 blocks or zstd frames of its own.
    pub const PLANES: u32 = 1 << 2;
    /// Every bit that is defined.
    pub const DEFINED: u32 = 7;
}

/// The header, without the magic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Major version: 2.
    pub version_major: u16,
    /// Minor version: 0.
    pub version_minor: u16,
    /// See [`flags`].
    pub flags: u32,
    /// Offset of the JSON.
    pub metadata_offset: u32,
    /// Length of the JSON in bytes.
    pub metadata_size: u32,
    /// Offset of the index.
    pub index_offset: u32,
    /// Length of the index in bytes.
    pub index_size: u32,
    /// Offset of the data section; offsets in the index are relative to it.
    pub data_offset: u32,
}

impl Header {
    /// Length in the file, including the magic.
    pub const LEN: usize = 32;

    /// Decodes a header from its 32 bytes, whose magic the caller has checked.
    pub fn from_bytes(bytes: &[u8; Header::LEN]) -> Header {
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from(short(at)) | u32::from(short(at + 2)) << 16;
        Header {
            version_major: short(4),
            version_minor: short(6),
            flags: word(8),
            metadata_offset: word(12),
            metadata_size: word(16),
            index_offset: word(20),
            index_size: word(24),
            data_offset: word(28),
        }
    }

    /// Encodes the header in its 32 bytes.
    pub fn to_bytes(self) -> [u8; Header::LEN] {
        let mut bytes = [0; Header::LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&self.version_major.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.version_minor.to_le_bytes());
        let words = [
            self.flags,
            self.metadata_offset,
            self.metadata_size,
            self.index_offset,
            self.index_size,
            self.data_offset,
        ];
        for (slot, word) in bytes[8..].chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The required alignment of tensors and of the data section.
    pub fn alignment(&self) -> u64 {
        if self.flags & flags::ALIGNED_64 != 0 {
            64
        } else if self.flags & flags::ALIGNED_32 != 0 {
            32
        } else {
            1
        }
    }
}

/// The last 16 bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// CRC-32 (IEEE) of every byte before the footer.
    pub crc32: u32,
    /// Must be [`MAGIC_END`].
    pub magic_end: [u8; 4],
    /// Bytes of the whole file, footer included.
    pub file_size: u64,
}

impl Footer {
    /// Length in the file.
    pub const LEN: u64 = 16;
    /// Length of the checksum, which comes first.
    pub const CRC_LEN: u64 = 4;
    /// Length of the file's size, which comes last.
    pub const SIZE_LEN: u64 = 8;

    /// Decodes a footer from its 16 bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Footer {
        let all = u128::from_le_bytes(bytes);
        let low = |n: u128| u32::try_from(n & 0xffff_ffff).unwrap_or_default();
        Footer {
            crc32: low(all),
            magic_end: low(all >> 32).to_le_bytes(),
            file_size: u64::try_from(all >> 64).unwrap_or_default(),
        }
    }

    /// The 12 bytes after the checksum, which is a hole during layout.
    pub fn tail(file_size: u64) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&MAGIC_END);
        bytes[4..].copy_from_slice(&file_size.to_le_bytes());
        bytes
    }
}

/// Bytes before the first entry of the index: tensor_count and reserved.
pub const INDEX_HEAD_LEN: u64 = 8;

const _: () = assert!(Header::LEN == 4 + 2 + 2 + 6 * 4);
const _: () = assert!(Footer::LEN == Footer::CRC_LEN + 4 + 8);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{header_64, version_1};

    /// Bytes that say where they are.
    fn counted<const LEN: usize>() -> [u8; LEN] {
        let mut bytes = [0; LEN];
        (0..).zip(&mut bytes).for_each(|(at, byte)| *byte = at);
        bytes
    }

    #[test]
    fn fields_of_older_headers_lie_one_behind_another() {
        let header = header_64::layout::Header::from_bytes(&counted());
        assert_eq!((header.version, header.flags, header.tensor_count), ((4, 5), 0x0706, 0x0b0a_0908));
        assert_eq!((header.metadata_offset, header.metadata_size), (0x1312_1110_0f0e_0d0c, 0x1716_1514));
        assert_eq!(header.tensor_index_offset, 0x1f1e_1d1c_1b1a_1918);
        assert_eq!((header.data_offset, header.checksum), (0x2726_2524_2322_2120, 0x2b2a_2928));
        let header = version_1::layout::Header::from_bytes(&counted());
        assert_eq!((header.version, header.model_type), ((4, 5), 0x0706));
        assert_eq!((header.metadata_size, header.payload_size), (0x0b0a_0908, 0x0f0e_0d0c));
        assert_eq!((header.uncompressed_size, header.compression), (0x1312_1110, 20));
        assert_eq!((header.flags, header.quality_score), (21, 22));
    }

    #[test]
    fn header_and_footer_lie_as_the_specification_says() {
        let mut bytes = counted();
        bytes[..4].copy_from_slice(&MAGIC);
        let header = Header::from_bytes(&bytes);
        assert_eq!((header.version_major, header.version_minor), (0x0504, 0x0706));
        assert_eq!((header.flags, header.data_offset), (0x0b0a_0908, 0x1f1e_1d1c));
        assert_eq!(header.to_bytes(), bytes);
        let mut bytes = [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes[4..].copy_from_slice(&Footer::tail(0x1_0000_0002));
        let footer = Footer { crc32: 0x0403_0201, magic_end: MAGIC_END, file_size: 0x1_0000_0002 };
        assert_eq!(Footer::from_bytes(bytes), footer);
    }
}
