//! The structure of a file, and the dtypes it can hold; shared by reader and writer.

use apr_sdk::{DType, Error, Result, checked_elements, checked_payload_len};

/// The format's id, in the manifest and in foreign records.
pub const FORMAT: &str = "safetensors";

/// Bytes of the header's length, at the start of the file.
pub const PREFIX_LEN: u64 = 8;

/// Bytes of a header: the limit of the format's own library.
pub const MAX_HEADER_LEN: u64 = 100_000_000;

/// Headers are padded with spaces to a multiple of this, to align the data area.
pub const HEADER_ALIGN: usize = 8;

/// The header key that is not a tensor: a map of strings to strings.
pub const METADATA: &str = "__metadata__";

/// The dtypes in the order of the format's own library, which writers sort by: the last comes first in a
/// file.
#[rustfmt::skip] // a table
pub const DTYPES: [(&str, DType); 22] = [
    ("BOOL", DType::BOOL),
    ("F4", DType::F4_E2M1),
    ("F6_E2M3", DType::F6_E2M3),
    ("F6_E3M2", DType::F6_E3M2),
    ("U8", DType::U8),
    ("I8", DType::I8),
    ("F8_E5M2", DType::F8_E5M2),
    ("F8_E4M3", DType::F8_E4M3),
    ("F8_E8M0", DType::F8_E8M0),
    ("F8_E4M3FNUZ", DType::F8_E4M3FNUZ),
    ("F8_E5M2FNUZ", DType::F8_E5M2FNUZ),
    ("I16", DType::I16),
    ("U16", DType::U16),
    ("F16", DType::F16),
    ("BF16", DType::BF16),
    ("I32", DType::I32),
    ("U32", DType::U32),
    ("F32", DType::F32),
    ("C64", DType::C64),
    ("F64", DType::F64),
    ("I64", DType::I64),
    ("U64", DType::U64),
];

/// Index in [`DTYPES`] of the type spelled `name`.
pub fn rank_of_name(name: &str) -> Option<usize> {
    DTYPES.iter().position(|(spelled, _)| *spelled == name)
}

/// Index in [`DTYPES`] of `dtype`.
pub fn rank_of(dtype: DType) -> Option<usize> {
    DTYPES.iter().position(|(_, known)| *known == dtype)
}

/// The payload length in bytes; types narrower than a byte must fill whole bytes.
///
/// # Errors
/// As [`checked_payload_len`]; Malformed if the last byte would be partly filled.
pub fn payload_len(dtype: DType, shape: &[u64]) -> Result<u64> {
    let info = dtype.require()?;
    if info.block_elements > 1 {
        let elements = checked_elements(shape)?;
        // An element has 8 · bytes / elements bits of its block, so the bytes are whole if this product
        // divides.
        let filled = u128::from(elements) * u128::from(info.block_bytes);
        if filled % u128::from(info.block_elements) != 0 {
            let bits = filled * 8 / u128::from(info.block_elements);
            let message =
                format!("{} {shape:?} has {bits} bits, which is not a whole number of bytes", info.name);
            return Err(Error::malformed(message));
        }
    }
    checked_payload_len(dtype, shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_types_fill_whole_bytes() {
        assert_eq!(payload_len(DType::F4_E2M1, &[3, 2]).unwrap(), 3);
        assert_eq!(payload_len(DType::F6_E2M3, &[4]).unwrap(), 3);
        assert_eq!(payload_len(DType::F6_E2M3, &[0]).unwrap(), 0);
        let error = payload_len(DType::F6_E2M3, &[2]).unwrap_err();
        assert_eq!(error.message(), "F6_E2M3 [2] has 12 bits, which is not a whole number of bytes");
        assert!(payload_len(DType::F4_E2M1, &[]).is_err());
    }

    #[test]
    fn every_type_is_listed_once_under_its_own_name() {
        for (rank, (name, dtype)) in DTYPES.iter().enumerate() {
            assert_eq!((rank_of_name(name), rank_of(*dtype)), (Some(rank), Some(rank)));
            assert!(*name == dtype.name() || *dtype == DType::F4_E2M1, "{name}");
        }
    }
}
