//! The numbers of dtypes: some are ggml's, some are not, and two types are the program's own.

use super::blocks::{Q4, Q8};
use apr_sdk::{DType, Error, Result, checked_elements, checked_payload_len};

/// The storage of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// As everywhere.
    Plain(DType),
    /// `AprQ4`: blocks of 32 elements, whatever the rows.
    Q4,
    /// `AprQ8`: one scale for the whole tensor.
    Q8,
}

/// The numbers, with what they stand for.
const NUMBERS: &[(u8, Stored)] = &[
    (0, Stored::Plain(DType::F32)),
    (1, Stored::Plain(DType::F16)),
    (3, Stored::Plain(DType::F64)),
    (4, Stored::Plain(DType::I32)),
    (5, Stored::Plain(DType::I64)),
    (6, Stored::Plain(DType::I8)),
    (7, Stored::Plain(DType::U8)),
    // The numbers of AprQ4 and AprQ8 until they were found to be those of ggml's Q8_0 and Q8_1.
    (8, Stored::Q4),
    (9, Stored::Q8),
    (12, Stored::Plain(DType::Q4_K)),
    (14, Stored::Plain(DType::Q6_K)),
    (30, Stored::Plain(DType::BF16)),
    (128, Stored::Q4),
    (129, Stored::Q8),
];

impl Stored {
    /// The storage that a number of the index stands for.
    ///
    /// # Errors
    /// Malformed for a number that the format does not define.
    pub fn from_number(number: u8) -> Result<Stored> {
        let found = NUMBERS.iter().find(|(known, _)| *known == number);
        found.map(|(_, stored)| *stored).ok_or_else(|| {
            Error::malformed(format!("dtype number {number} is not defined in files with a 64-byte header"))
        })
    }

    /// The type's name, as in messages.
    pub fn name(self) -> &'static str {
        match self {
            Stored::Plain(dtype) => dtype.name(),
            Stored::Q4 => "AprQ4",
            Stored::Q8 => "AprQ8",
        }
    }

    /// Bytes of a tensor of this shape in the file.
    ///
    /// # Errors
    /// Malformed if they cannot be counted, or for rows that are not whole blocks.
    pub fn size(self, dims: &[u64]) -> Result<u64> {
        match self {
            Stored::Plain(dtype) => checked_payload_len(dtype, dims),
            Stored::Q4 => Ok(checked_elements(dims)?.div_ceil(Q4::ELEMENTS).saturating_mul(Q4::LEN)),
            Stored::Q8 => match checked_elements(dims)? {
                0 => Ok(0),
                elements => Ok(elements.saturating_add(Q8::SCALE_LEN)),
            },
        }
    }

    /// The type that the tensor is read as: one that holds exactly the same values.
    pub fn dtype(self, dims: &[u64]) -> DType {
        match self {
            Stored::Plain(dtype) => dtype,
            Stored::Q4 if dims.last().is_some_and(|row| row % Q4::ELEMENTS == 0) => DType::Q4_0,
            Stored::Q4 | Stored::Q8 => DType::F32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_program() {
        for (stored, dims, size) in [
            (Stored::Q8, &[2, 3][..], 10),
            (Stored::Q8, &[0, 3], 0),
            (Stored::Q8, &[], 5),
            (Stored::Q4, &[3, 11], 36),
            (Stored::Q4, &[0], 0),
            (Stored::Q4, &[64], 36),
            (Stored::Plain(DType::I64), &[3], 24),
            (Stored::Plain(DType::Q4_K), &[2, 256], 288),
        ] {
            assert_eq!(stored.size(dims).unwrap(), size, "{stored:?} {dims:?}");
        }
        assert!(Stored::Q8.size(&[1 << 62, 4]).is_err());
    }

    #[test]
    fn blocks_that_cross_rows_are_read_as_floats() {
        assert_eq!(Stored::Q4.dtype(&[3, 32]), DType::Q4_0);
        assert_eq!(Stored::Q4.dtype(&[32, 3]), DType::F32);
        assert_eq!(Stored::Q4.dtype(&[]), DType::F32);
    }
}
