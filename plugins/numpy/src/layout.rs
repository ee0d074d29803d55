//! The structure of an array file, shared by reader and writer.

use apr_sdk::{DType, Error, Result};

/// The id of the format of one array.
pub const NPY: &str = "npy";

/// The id of the format of several arrays.
pub const NPZ: &str = "npz";

/// The first bytes of an array file.
pub const MAGIC: [u8; 6] = *b"\x93NUMPY";

/// The versions that are known: major and minor.
pub const VERSIONS: [[u8; 2]; 3] = [[1, 0], [2, 0], [3, 0]];

/// Bytes before the header's length.
pub const PREFIX_LEN: usize = 8;

/// Elements begin at a multiple of this (of 16 before NumPy 1.14).
pub const ALIGN: usize = 64;

/// The longest header that is read, in bytes. 65535: what version 1 can say. NumPy itself stops at 10000 characters;
/// only arrays of records, which are refused anyway, need more.
pub const MAX_HEADER_LEN: u64 = 65_535;

/// How an archive's entries end, and names of tensors do not.
pub const SUFFIX: &str = ".npy";

/// The array of an archive that holds what a model says in other formats' words.
pub const FOREIGN: &str = apr_sdk::carried_metadata::KEY;

/// The longest array that is looked at for that, in bytes. 64 MiB: the metadata of every model that is known is shorter.
pub const LONGEST_FOREIGN: u64 = 64 << 20;

/// NumPy leaves room for the first dimension to grow to this many digits.
const GROWTH_DIGITS: usize = 21;

/// The element types, as `descr` spells them on a little-endian machine.
pub const DTYPES: [(&str, DType); 14] = [
    ("|b1", DType::BOOL),
    ("|i1", DType::I8),
    ("|u1", DType::U8),
    ("<i2", DType::I16),
    ("<u2", DType::U16),
    ("<f2", DType::F16),
    ("<i4", DType::I32),
    ("<u4", DType::U32),
    ("<f4", DType::F32),
    ("<c8", DType::C64),
    ("<i8", DType::I64),
    ("<u8", DType::U64),
    ("<f8", DType::F64),
    ("<c16", DType::C128),
];

/// What stands before the elements of a row-major array, as NumPy 2 writes it (and every version from 1.24 on).
///
/// # Errors
/// Unsupported for an element type that NumPy lacks.
pub fn header(dtype: DType, shape: &[u64]) -> Result<Vec<u8>> {
    let row = DTYPES.iter().find(|(_, known)| *known == dtype);
    let (descr, _) = row.ok_or_else(|| {
        Error::unsupported(format!("NumPy has no {dtype}")).hint("use --dequantize f32, f16 or bf16")
    })?;
    let dims: Vec<_> = shape.iter().map(u64::to_string).collect();
    let comma = if dims.len() == 1 { "," } else { "" };
    let mut text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}{comma}), }}", dims.join(", "));
    if let Some(first) = dims.first() {
        text.extend(std::iter::repeat_n(' ', GROWTH_DIGITS.saturating_sub(first.len())));
    }
    let before = PREFIX_LEN + 2;
    // NumPy adds a whole block of padding where none is needed.
    let padding = ALIGN - (before + text.len() + 1) % ALIGN;
    text.extend(std::iter::repeat_n(' ', padding));
    text.push('\n');
    // At most 8 dimensions of 20 digits.
    let len =
        u16::try_from(text.len()).map_err(|_| Error::unsupported("the shape has too many dimensions"))?;
    Ok([&MAGIC[..], &VERSIONS[0], &len.to_le_bytes(), text.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_begin_at_whole_blocks_and_every_type_is_listed_once() {
        for (n, (_, dtype)) in DTYPES.iter().enumerate() {
            assert_eq!(DTYPES.iter().position(|(_, other)| other == dtype), Some(n));
            for shape in [&[][..], &[1], &[2, 3], &[u64::MAX; 8]] {
                let header = header(*dtype, shape).unwrap();
                assert_eq!(header.len() % ALIGN, 0, "{dtype} {shape:?}");
                assert_eq!(header.last(), Some(&b'\n'));
            }
        }
        assert!(header(DType::BF16, &[]).is_err());
    }
}
