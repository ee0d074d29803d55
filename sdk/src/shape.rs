//! Checked sizes: the one place that computes element and byte counts.

use crate::{DType, DTypeInfo, Error, Packing, Result};

/// The number of elements of `shape` (outermost dimension first); 1 for a scalar.
///
/// # Errors
/// Malformed if the product exceeds 2^63 − 1: no file holds that, and signed offsets stay safe everywhere.
pub fn checked_elements(shape: &[u64]) -> Result<u64> {
    // Any zero makes the product zero, however large the other dimensions claim to be.
    if shape.contains(&0) {
        return Ok(0);
    }
    match shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d)) {
        Some(product) if product <= i64::MAX as u64 => Ok(product),
        _ => Err(Error::malformed(format!("shape {shape:?} has more than 2^63 elements"))),
    }
}

/// The number of payload bytes of a tensor of `dtype` and `shape` (outermost dimension first).
///
/// # Errors
/// Malformed if the count overflows, or if the rows of a row-packed dtype are not whole blocks; Unsupported
/// for a dtype that is not in the table.
pub fn checked_payload_len(dtype: DType, shape: &[u64]) -> Result<u64> {
    let info = dtype.require()?;
    let elements = checked_elements(shape)?;
    let per_block = u64::from(info.block_elements);
    let block_bytes = u64::from(info.block_bytes);
    if info.packing == Packing::Row && per_block > 1 {
        let row = shape.last().copied().unwrap_or(1);
        if row % per_block != 0 {
            return Err(Error::malformed(format!(
                "rows of {row} elements are not a multiple of the {} block size {per_block}",
                info.name
            )));
        }
    }
    let blocks = elements.div_ceil(per_block);
    let bytes = match info.packing {
        Packing::Row => blocks.checked_mul(block_bytes),
        // Bits are packed: bytes = ceil(n · bits / 8), where bits / 8 = block_bytes / block_elements.
        Packing::Flat => elements.checked_mul(block_bytes).map(|n| n.div_ceil(per_block)),
    };
    bytes.filter(|&n| n <= i64::MAX as u64).ok_or_else(|| {
        Error::malformed(format!("{} tensor of shape {shape:?} has more than 2^63 bytes", info.name))
    })
}

/// The type's table row, if `elements` in rows of `row_len` and `bytes` are the same whole rows of whole blocks: what
/// every quantizer checks first.
///
/// # Errors
/// InvalidArgument if they are not; Unsupported for a dtype that is not in the table.
pub fn checked_blocks(
    dtype: DType,
    elements: usize,
    row_len: u64,
    bytes: usize,
) -> Result<&'static DTypeInfo> {
    let info = dtype.require()?;
    let per_block = u64::from(info.block_elements);
    let elements_64 = elements as u64;
    let is_whole = row_len > 0 && row_len % per_block == 0 && elements_64 % row_len == 0;
    let wanted = (elements_64 / per_block).checked_mul(info.block_bytes.into());
    if !is_whole || wanted != Some(bytes as u64) {
        return Err(Error::invalid_argument(format!(
            "{elements} elements in rows of {row_len} do not match {bytes} bytes of {dtype}"
        )));
    }
    Ok(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_elements_and_refuses_overflow() {
        assert_eq!(checked_elements(&[]).unwrap(), 1);
        assert_eq!(checked_elements(&[u64::MAX, 0]).unwrap(), 0);
        assert!(checked_elements(&[1 << 62, 2]).is_err());
        assert!(checked_elements(&[u64::MAX, u64::MAX]).is_err());
    }

    #[test]
    fn rows_are_whole_blocks_and_flat_bits_run_on() {
        assert_eq!(checked_payload_len(DType::Q4_K, &[2, 256]).unwrap(), 288);
        assert!(checked_payload_len(DType::Q4_K, &[256, 2]).is_err());
        assert_eq!(checked_payload_len(DType::I4, &[3]).unwrap(), 2);
        assert_eq!(checked_payload_len(DType::F6_E2M3, &[5]).unwrap(), 4);
        assert!(checked_payload_len(DType::F64, &[1 << 61]).is_err());
    }
}
