//! NVFP4 of llama.cpp: blocks that a factor beside them multiplies, as its converter stores what Model Optimizer and
//! compressed-tensors packed.
//!
//! ```text
//! X.weight       NVFP4 [.., out, in]
//! X.scale        F32 [1], or one for each expert; may be missing where it is 1
//! X.input_scale  likewise, for activations
//!
//! value = code * (scale of 16 * factor)
//! ```
//!
//! Source: `_repack_nvfp4` and `_flush_nvfp4_experts` in `conversion/base.py` of llama.cpp.

use crate::model::{Found, Model, matrices};
use crate::scaled::{Arranged, Global, Grid};
use crate::scheme::{Scheme, States};
use apr_sdk::{DType, Error, PackedTensor, Result};

/// The scheme.
pub static SCHEME: Scheme = Scheme { name: "NVFP4 of llama.cpp", states: States::Itself, understand };

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    for (number, blocks, name) in model.ending(".weight") {
        if blocks.dtype != DType::NVFP4 || !found.is_free(number) {
            continue;
        }
        let factor = model.find(&format!("{name}.scale"));
        let input = model.find(&format!("{name}.input_scale"));
        if factor.is_none() && input.is_none() {
            continue;
        }
        let (stacked, rows, row_len) = matrices(blocks)?;
        let mut grid =
            Grid::new(DType::F4_E2M1, DType::F8_E4M3, (1, 16), (rows, stacked.saturating_mul(rows), row_len));
        grid.arranged = Arranged::Blocks;
        let mut parts = vec![(number, "blocks".to_owned())];
        if let Some(factor) = factor {
            let tensor = model.tensor(factor);
            let n = tensor.shape.iter().try_fold(1u64, |all, size| all.checked_mul(*size));
            let n = n.filter(|n| (*n == 1 || *n == stacked) && tensor.dtype == DType::F32);
            grid.globals = n.ok_or_else(|| {
                let message =
                    format!("it is {:?} of {}, expected one F32 or {stacked}", tensor.shape, tensor.dtype);
                Error::malformed(message).tensor(&tensor.name)
            })?;
            grid.global = (Global::Times, DType::F32);
            parts.push((factor, "factor".to_owned()));
        }
        let weight = PackedTensor {
            name: blocks.name.clone(),
            shape: blocks.shape.clone(),
            strides: Vec::new(),
            dtype: model.dtype(DType::BF16),
            about: "NVFP4 of llama.cpp, with a separate factor".to_owned(),
            exact: Vec::new(),
            rows: grid.packed(),
            parts,
            panel: 1,
        };
        found.add(model, weight)?;
        if let Some(input) = input {
            found.unused(model, input, "a scale of activations")?;
        }
    }
    Ok(())
}
