//! FP8: floats of 8 bits with scales of blocks, or one scale for a weight.
//!
//! | written by | codes | scales | value |
//! | --- | --- | --- | --- |
//! | DeepSeek V3 and those who follow it, `weight_block_size` | `X.weight` | `X.weight_scale_inv`, a row of scales for 128 rows, a scale for 128 columns; blocks at the edge are cut | code * scale: a factor, whatever the name says |
//! | the same method without block size, fbgemm, vLLM | `X.weight` | `X.weight_scale`: one, or one for each row | code * scale |
//! | Mistral's own files | `X.weight` | `X.qscale_weight`: one | code * scale |
//! | DeepSeek V4 | `X.weight`; experts: pairs of E2M1 in I8 | `X.scale` in E8M0, for 128 by 128, or 32 columns | code * scale |
//! | others | any | `X.scale_weight`, `X.weights_scaling_factor`, ...: one | code * scale |
//!
//! Sources: `inference/kernel.py` and `fp8_cast_bf16.py` of DeepSeek V3; `conversion/base.py` and `deepseek.py` of llama.cpp;
//! `finegrained_fp8.py` of transformers, which spreads blocks evenly where the last would be shorter, and is not followed there.

use crate::model::{Config, Found, Model, matrices};
use crate::scaled::Grid;
use crate::scheme::{Scheme, States};
use apr_sdk::{DType, Error, PackedTensor, Result, StoredTensor};

/// The scheme.
pub static SCHEME: Scheme = Scheme { name: "FP8", states: States::Config(is_ours), understand };

/// The types of codes.
const CODES: [DType; 4] = [DType::F8_E4M3, DType::F8_E5M2, DType::F8_E4M3FNUZ, DType::F8_E5M2FNUZ];

/// The types of scales.
const SCALES: [DType; 4] = [DType::F32, DType::BF16, DType::F16, DType::F8_E8M0];

/// What a weight's scales are called: the weight's ending, and that of the scales beside it.
const NAMES: [(&str, &str); 8] = [
    ("", "_scale_inv"),
    ("", "_scale"),
    (".weight", ".qscale_weight"),
    (".weight", ".scale"),
    (".weight", ".scale_weight"),
    (".weight", ".weights_scaling_factor"),
    (".weight", ".weight_scales"),
    ("", "_qscale"),
];

/// Scales of activations and caches, which no weight depends on.
const UNUSED: [&str; 9] = [
    ".input_scale",
    ".activation_scale",
    ".qscale_act",
    ".output_scale",
    ".k_scale",
    ".v_scale",
    ".q_scale",
    ".prob_output_scale",
    "_activation_scale",
];

/// Mistral's own files and those of TensorRT-LLM name no method, but what they quantize to.
fn is_ours(config: &Config<'_>) -> bool {
    let is_own = config.key == "quantization" && config.text("quant_method").is_none();
    let is_fp8 = config.text("qformat_weight").is_some_and(|of| of.starts_with("fp8"))
        || config.text("quant_algo").is_some_and(|of| of == "FP8");
    config.is_method(&["fp8", "fbgemm_fp8"]) || is_own && is_fp8
}

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    let config = model.config(&["fp8", "fbgemm_fp8"]);
    let blocks = config.map(block_size).transpose()?.flatten();
    let mut is_any = false;
    for (number, codes) in model.tensors() {
        let is_pairs = codes.dtype == DType::I8;
        if codes.shape.len() < 2 || !(CODES.contains(&codes.dtype) || is_pairs) || !found.is_free(number) {
            continue;
        }
        let beside = NAMES.iter().find_map(|(ending, other)| {
            let base = codes.name.strip_suffix(ending)?;
            let at = model.find(&format!("{base}{other}"))?;
            // Pairs of floats in I8 are told from integers by their scales, which are powers of two.
            let is_right = !is_pairs || model.tensor(at).dtype == DType::F8_E8M0;
            (SCALES.contains(&model.tensor(at).dtype) && found.is_free(at) && is_right).then_some(at)
        });
        if let Some(config) = config {
            check_kind(config, codes)?;
        }
        let Some(scales) = beside else {
            // A matrix of 8 bits that nothing scales is what a model of small floats has.
            let is_weight = blocks.is_some() || codes.name.ends_with(".weight");
            if config.is_some() && is_weight {
                let ending = if blocks.is_some() { "weight_scale_inv" } else { "weight_scale" };
                let message = format!("its scales are missing: expected `{ending}`");
                return Err(Error::malformed(message).tensor(&codes.name));
            }
            continue;
        };
        found.add(model, weight(model, (number, codes), scales, blocks)?)?;
        is_any = true;
    }
    if is_any {
        for (number, tensor) in model.tensors() {
            if found.is_free(number) && UNUSED.iter().any(|ending| tensor.name.ends_with(ending)) {
                found.unused(model, number, "a scale of activations or of the KV cache")?;
            }
        }
        if config.is_none() {
            found.note(
                "no configuration states the packing scheme: it is assumed from the types of codes \
                 and the names of scales",
            );
        }
    }
    Ok(())
}

/// Fails for codes of another kind of float than the configuration says (`fmt`: `e4m3`, `e5m2`).
fn check_kind(config: &Config<'_>, codes: &StoredTensor) -> Result<()> {
    let Some(stated) = config.text("fmt").filter(|_| CODES.contains(&codes.dtype)) else { return Ok(()) };
    let is_e5m2 = [DType::F8_E5M2, DType::F8_E5M2FNUZ].contains(&codes.dtype);
    let own = if is_e5m2 { "e5m2" } else { "e4m3" };
    if stated.to_lowercase().contains(own) {
        return Ok(());
    }
    let stated: String = stated.chars().take(40).collect();
    let message = format!(
        "the configuration states `fmt` {}, but its codes are {}",
        stated.escape_debug(),
        codes.dtype
    );
    Err(Error::malformed(message).tensor(&codes.name))
}

/// What the configuration states as the size of blocks.
fn block_size(config: &Config<'_>) -> Result<Option<(u64, u64)>> {
    let Some(size) = config.json.get("weight_block_size").filter(|size| !size.is_null()) else {
        return Ok(None);
    };
    let sizes: Option<Vec<u64>> =
        size.as_array().and_then(|sizes| sizes.iter().map(|size| size.as_u64()).collect());
    match sizes.as_deref() {
        Some([rows, columns]) if *rows > 0 && *columns > 0 => Ok(Some((*rows, *columns))),
        _ => Err(config.wrong("weight_block_size", "is not a pair of integers")),
    }
}

/// A weight of FP8 codes and their scales.
fn weight(
    model: &Model<'_>,
    (number, codes): (usize, &StoredTensor),
    at: usize,
    blocks: Option<(u64, u64)>,
) -> Result<PackedTensor> {
    let scales = model.tensor(at);
    let (stacked, matrix_rows, stored) = matrices(codes)?;
    let is_pairs = codes.dtype == DType::I8;
    let row_len = if is_pairs { stored.saturating_mul(2) } else { stored };
    let sizes = (matrix_rows, stacked * matrix_rows, row_len);
    // Stated blocks are those of FP8: pairs have scales of their own.
    let blocks = blocks.filter(|_| !is_pairs);
    let of_scale = boxes(scales, (stacked, matrix_rows, row_len), blocks);
    let is_right = |of: &(u64, u64)| {
        let is_one = scales.shape.len() == codes.shape.len() && *of == (sizes.1, row_len);
        match blocks {
            _ if is_pairs => *of == (1, 32) && row_len.is_multiple_of(32),
            // Where blocks are stated, a grid of one scale is that of one block.
            Some((rows, columns)) if is_one => stacked == 1 && matrix_rows <= rows && row_len <= columns,
            _ => true,
        }
    };
    let of_scale = of_scale.filter(is_right).ok_or_else(|| {
        let message =
            format!("its shape {:?} does not match {:?} of `{}`", scales.shape, codes.shape, codes.name);
        Error::malformed(message).tensor(&scales.name)
    })?;
    let kind = if is_pairs { DType::F4_E2M1 } else { codes.dtype };
    let mut grid = Grid::new(kind, scales.dtype, of_scale, sizes);
    if of_scale == (sizes.1, row_len) {
        grid.matrix_rows = sizes.1;
    }
    let mut shape = codes.shape.clone();
    if let Some(last) = shape.last_mut() {
        *last = row_len;
    }
    let of = match of_scale {
        (1, columns) if columns >= row_len => "a scale for each row".to_owned(),
        (rows, columns) if rows >= matrix_rows && columns >= row_len => "one scale".to_owned(),
        (rows, columns) => format!("scales of {rows} by {columns}"),
    };
    let what = if is_pairs { "FP4" } else { "FP8" };
    Ok(PackedTensor {
        name: codes.name.clone(),
        shape,
        strides: Vec::new(),
        dtype: model.dtype(DType::BF16),
        about: format!("{what} ({kind}), {of}"),
        exact: grid.exact(),
        rows: grid.packed(),
        parts: vec![(number, "codes".to_owned()), (at, "scales".to_owned())],
        panel: 1,
    })
}

/// The rows and columns that share a scale, if the shape of the scales fits: one for all, or one for each matrix, row or block.
pub fn boxes(
    scales: &StoredTensor,
    (stacked, rows, columns): (u64, u64, u64),
    blocks: Option<(u64, u64)>,
) -> Option<(u64, u64)> {
    let shape: Vec<u64> = scales.shape.iter().copied().filter(|size| *size != 1).collect();
    let all: u64 = scales.shape.iter().try_fold(1u64, |all, size| all.checked_mul(*size))?;
    if all == 1 {
        return Some((stacked * rows, columns));
    }
    // With as many dimensions, each speaks for itself: blocks of one row or column count too.
    let grid = match scales.shape[..] {
        [down, across] if stacked == 1 => Some((down, across)),
        [of, down, across] if of == stacked => Some((down, across)),
        _ => None,
    };
    if let (Some((down, across)), Some((r, c))) = (grid, blocks)
        && down == rows.div_ceil(r)
        && across == columns.div_ceil(c)
    {
        return Some((r, c));
    }
    match grid {
        Some((1, 1)) => return Some((rows, columns)),
        Some((down, 1)) if down == rows => return Some((1, columns)),
        // Without a stated size: the power of two that cuts the matrix so.
        Some((down, across)) if blocks.is_none() => {
            let r = side(rows, down)?;
            let c = side(columns, across)?;
            return Some((r, c));
        }
        _ => {}
    }
    match shape[..] {
        [n] if n == stacked && stacked > 1 => Some((rows, columns)),
        [n] if n == stacked * rows => Some((1, columns)),
        _ => None,
    }
}

/// The side of blocks that cut `size` into `n`, the last of which may be shorter: all of it for one, otherwise a power of two,
/// the largest that fits. Blocks of fewer than 16 do not occur: such scales do not belong there.
fn side(size: u64, n: u64) -> Option<u64> {
    if n == 1 || n == size {
        return Some(size / n);
    }
    (4..20).rev().map(|power| 1 << power).find(|side| size.div_ceil(*side) == n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_fit_by_their_shape() {
        let of =
            |shape: &[u64]| StoredTensor { name: "s".to_owned(), dtype: DType::F32, shape: shape.to_vec() };
        type Sides = Option<(u64, u64)>;
        let cases: [(&[u64], Sides, Sides); 8] = [
            (&[], None, Some((160, 200))),
            (&[1, 1], Some((128, 128)), Some((160, 200))),
            (&[2, 2], Some((128, 128)), Some((128, 128))),
            (&[2, 2], None, Some((128, 128))),
            (&[160, 1], None, Some((1, 200))),
            (&[160], None, Some((1, 200))),
            (&[3, 2], Some((128, 128)), None),
            (&[7], None, None),
        ];
        for (shape, blocks, want) in cases {
            assert_eq!(boxes(&of(shape), (1, 160, 200), blocks), want, "{shape:?}");
        }
        assert_eq!(boxes(&of(&[4]), (4, 160, 200), None), Some((160, 200)));
        assert_eq!(boxes(&of(&[4, 2, 2]), (4, 160, 200), Some((128, 128))), Some((128, 128)));
    }
}
