//! The quantizer: checks what it is handed, and calls the block type.

use crate::simd::{Level, rounding};
use crate::types::{Rows, TYPES, block_type};
use crate::{bounds, imatrix, recipes, repack};
use apr_sdk::{
    Assignment, DType, Error, ImportanceSink, ModelFacts, Options, Quantizer, RecipeDecl, Record, Result,
    Source, TensorFacts,
};

/// The quantizer.
pub struct Quants;

impl Quantizer for Quants {
    fn dtypes(&self) -> Result<Vec<DType>> {
        Ok(TYPES.iter().map(|of| of.dtype).collect())
    }

    fn decode(&self, dtype: DType, blocks: &[u8], row_len: u64, out: &mut [f32]) -> Result<()> {
        check(dtype, out.len(), row_len, blocks.len())?;
        (block_type(dtype)?.decode)(Level::best(), blocks, out);
        Ok(())
    }

    fn encode(
        &self,
        dtype: DType,
        rows: &[f32],
        row_len: u64,
        importance: Option<&[f32]>,
        out: &mut [u8],
    ) -> Result<()> {
        let row_len = check(dtype, rows.len(), row_len, out.len())?;
        let block_type = block_type(dtype)?;
        if importance.is_some_and(|importance| importance.len() != row_len) {
            return Err(Error::invalid_argument(format!(
                "importance requires {row_len} values, one for each column"
            )));
        }
        if let Some(importance) = importance {
            bounds::check(dtype, importance, rows, row_len)?;
        }
        if importance.is_none() && block_type.needs_importance {
            let message = format!("{dtype} cannot be written without an importance matrix");
            return Err(Error::invalid_argument(message).hint("pass one with --imatrix FILE"));
        }
        if !rounding::is_usual() {
            let message = "this thread uses a non-default floating-point rounding mode: blocks would differ \
                           from ggml's";
            return Err(Error::failed(message).hint(
                "avoid libraries built with -ffast-math: they change the rounding mode of the thread that \
                 loads them",
            ));
        }
        (block_type.encode)(&Rows { values: rows, row_len, importance, level: Level::best() }, out)
    }

    fn repacks(&self) -> Result<Vec<(DType, DType)>> {
        Ok(repack::PAIRS.to_vec())
    }

    fn repack(&self, from: DType, to: DType, blocks: &[u8], out: &mut [u8]) -> Result<()> {
        repack::repack(from, to, blocks, out)
    }

    fn recipes(&self) -> Result<Vec<RecipeDecl>> {
        Ok(recipes::recipes())
    }

    fn assign(
        &self,
        recipe: &str,
        tensors: &[TensorFacts],
        model: &ModelFacts,
        options: &Options,
    ) -> Result<Vec<Assignment>> {
        recipes::assign(recipe, tensors, model, options)
    }

    fn records(&self, recipe: &str) -> Result<Vec<Record>> {
        Ok(recipes::records(recipe))
    }

    fn importance(&self, source: &dyn Source, sink: &mut dyn ImportanceSink) -> Result<()> {
        imatrix::read(source, sink)
    }
}

/// Checks that elements and bytes are the same whole rows of whole blocks; gives the elements of a row.
fn check(dtype: DType, elements: usize, row_len: u64, bytes: usize) -> Result<usize> {
    let info = dtype.require()?;
    let (of_block, bytes_of_block) = (info.block_elements as usize, info.block_bytes as usize);
    let row = usize::try_from(row_len).unwrap_or(usize::MAX);
    let whole = row > 0 && row.is_multiple_of(of_block) && elements.is_multiple_of(row);
    if !whole || elements / of_block * bytes_of_block != bytes {
        return Err(Error::invalid_argument(format!(
            "{elements} elements in rows of {row_len} do not match {bytes} bytes of {dtype}"
        )));
    }
    Ok(row)
}
