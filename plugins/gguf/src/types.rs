//! Tensor types: the numbers of ggml's `enum ggml_type`, and the corresponding dtypes.

use apr_sdk::{DType, DTypeKind, Error, Result};

/// The meaning of a number in the enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Known(DType),
    /// Removed from ggml: no current program can read files with it.
    Removed(&'static str),
}

use Type::{Known, Removed};

/// By number. 31 to 33 and 36 to 38 were repacked copies for specific processors.
const TYPES: [Type; 43] = [
    Known(DType::F32),
    Known(DType::F16),
    Known(DType::Q4_0),
    Known(DType::Q4_1),
    Removed("Q4_2"),
    Removed("Q4_3"),
    Known(DType::Q5_0),
    Known(DType::Q5_1),
    Known(DType::Q8_0),
    Known(DType::Q8_1),
    Known(DType::Q2_K),
    Known(DType::Q3_K),
    Known(DType::Q4_K),
    Known(DType::Q5_K),
    Known(DType::Q6_K),
    Known(DType::Q8_K),
    Known(DType::IQ2_XXS),
    Known(DType::IQ2_XS),
    Known(DType::IQ3_XXS),
    Known(DType::IQ1_S),
    Known(DType::IQ4_NL),
    Known(DType::IQ3_S),
    Known(DType::IQ2_S),
    Known(DType::IQ4_XS),
    Known(DType::I8),
    Known(DType::I16),
    Known(DType::I32),
    Known(DType::I64),
    Known(DType::F64),
    Known(DType::IQ1_M),
    Known(DType::BF16),
    Removed("Q4_0_4_4"),
    Removed("Q4_0_4_8"),
    Removed("Q4_0_8_8"),
    Known(DType::TQ1_0),
    Known(DType::TQ2_0),
    Removed("IQ4_NL_4_4"),
    Removed("IQ4_NL_4_8"),
    Removed("IQ4_NL_8_8"),
    Known(DType::MXFP4),
    Known(DType::NVFP4),
    Known(DType::Q1_0),
    Known(DType::Q2_0),
];

/// The dtype of number `id`.
///
/// # Errors
/// Unsupported for a number that is not in the enum, or that was removed from it (by its name).
pub fn dtype_of(id: u32) -> Result<DType> {
    match usize::try_from(id).ok().and_then(|n| TYPES.get(n)) {
        Some(Known(dtype)) => Ok(*dtype),
        Some(Removed(name)) => {
            Err(Error::unsupported(format!("its type {id} is {name}, which was removed from ggml"))
                .hint("create the file again from the original model"))
        }
        None => Err(Error::unsupported(format!(
            "its type {id} is unknown, the newest supported one is {}",
            TYPES.len() - 1
        ))
        .hint("install a newer apr, or get the file again: it may be corrupt")),
    }
}

/// The number of `dtype`, if ggml has it.
pub fn id_of(dtype: DType) -> Option<u32> {
    TYPES.iter().position(|t| *t == Known(dtype)).and_then(|n| u32::try_from(n).ok())
}

/// Whether gguf-py stores the type as numpy numbers, and so swaps it in a big-endian file; it treats BF16 and
/// blocks as bytes.
pub fn is_numpy(dtype: DType) -> bool {
    let kind = dtype.info().map(|info| info.kind);
    dtype != DType::BF16 && kind != Some(DTypeKind::Block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_both_ways_and_every_block_type_of_the_sdk_has_one() {
        for id in 0..43 {
            if let Ok(dtype) = dtype_of(id) {
                assert_eq!(id_of(dtype), Some(id), "{dtype}");
            }
        }
        for row in DType::ALL.iter().filter(|row| row.kind == DTypeKind::Block) {
            assert!(id_of(row.dtype).is_some(), "{}", row.name);
        }
        assert_eq!((id_of(DType::NVFP4), id_of(DType::Q2_0), id_of(DType::U8)), (Some(40), Some(42), None));
    }

    #[test]
    fn removed_types_are_named() {
        assert!(dtype_of(4).unwrap_err().message().contains("Q4_2"));
        assert!(dtype_of(38).unwrap_err().message().contains("IQ4_NL_8_8"));
        assert!(dtype_of(43).is_err());
        assert!(dtype_of(u32::MAX).is_err());
    }
}
