//! The quantizer: checks what it is handed, and calls the block type.

use crate::simd::{Level, rounding};
use crate::types::{Rows, TYPES, block_type};
use crate::{bounds, imatrix, recipes, repack};
use apr_sdk::{
    Assignment, DType, Error, ImportanceSink, ImportanceSums, ModelFacts, Options, Quantizer, RecipeDecl,
    Record, Result, Source, TensorFacts, checked_blocks,
};

/// The quantizer.
pub struct Quants;

impl Quantizer for Quants {
    fn dtypes(&self) -> Result<Vec<DType>> {
        Ok(TYPES.iter().map(|of| of.dtype).collect())
    }

    fn decode(&self, dtype: DType, blocks: &[u8], row_len: u64, out: &mut [f32]) -> Result<()> {
        checked_blocks(dtype, out.len(), row_len, blocks.len())?;
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
        checked_blocks(dtype, rows.len(), row_len, out.len())?;
        let row_len = usize::try_from(row_len).unwrap_or(usize::MAX);
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

    fn importance_sums(&self, source: &dyn Source) -> Result<ImportanceSums> {
        imatrix::read_sums(source)
    }

    fn importance_file(&self, sums: &ImportanceSums, file: &str, form: Option<&str>) -> Result<Vec<u8>> {
        imatrix::write(sums, file, form)
    }
}
