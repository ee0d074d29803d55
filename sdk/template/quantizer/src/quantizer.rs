//! Whole rows of blocks, as `apr` asks for them. One object serves all threads.

use crate::block::{self, BYTES, ELEMENTS};
use apr_sdk::{DType, Error, Quantizer, Result, checked_blocks};

/// The quantizer. It has no state.
pub struct Nibbles;

impl Quantizer for Nibbles {
    fn dtypes(&self) -> Result<Vec<DType>> {
        Ok(vec![DType::named("{{TYPE}}")?])
    }

    fn decode(&self, dtype: DType, blocks: &[u8], row_len: u64, out: &mut [f32]) -> Result<()> {
        check(dtype, out.len(), row_len, blocks.len())?;
        let blocks = blocks.chunks_exact(BYTES);
        blocks.zip(out.chunks_exact_mut(ELEMENTS)).for_each(|(block, values)| block::decode(block, values));
        Ok(())
    }

    fn encode(&self, dtype: DType, rows: &[f32], row_len: u64, _: Option<&[f32]>, out: &mut [u8]) -> Result<()> {
        check(dtype, rows.len(), row_len, out.len())?;
        let values = rows.chunks_exact(ELEMENTS);
        values.zip(out.chunks_exact_mut(BYTES)).try_for_each(|(values, block)| block::encode(values, block))
    }
}

/// Checks that these are rows of whole blocks of the one type that it knows.
fn check(dtype: DType, elements: usize, row_len: u64, bytes: usize) -> Result<()> {
    match checked_blocks(dtype, elements, row_len, bytes)?.name {
        "{{TYPE}}" => Ok(()),
        other => Err(Error::unsupported(format!("{other} is not one of its types"))),
    }
}
