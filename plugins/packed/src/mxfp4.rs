//! MXFP4 as gpt-oss has it: four-bit floats of stacked experts, with a power of two for each 32.
//!
//! ```text
//! X_blocks  U8 [experts, out, in / 32, 16]    byte j of a block: elements 2j (lower bits) and 2j + 1
//! X_scales  U8 [experts, out, in / 32]        2^(byte - 127); 255 is no number
//! ```
//!
//! The weight `X` is [experts, in, out] there: transformers transposes what it unpacks, so that packed rows are the columns
//! of the weight. OpenAI's own files have `X.blocks` and `X.scales`, and keep the order.
//!
//! Sources: `convert_moe_packed_tensors` in `integrations/mxfp4.py` of transformers 5; `gpt_oss/torch/weights.py` of gpt-oss.

use crate::model::{Config, Found, Model};
use crate::scaled::Grid;
use crate::scheme::{Scheme, States};
use apr_sdk::{DType, Error, PackedTensor, Result, StoredTensor};

/// The scheme.
pub static SCHEME: Scheme = Scheme { name: "MXFP4", states: States::Config(is_ours), understand };

/// Elements that share a scale.
const GROUP: u64 = 32;

/// What codes and scales are called, and whether the weight is transposed.
const NAMES: [(&str, &str, bool); 2] = [("_blocks", "_scales", true), (".blocks", ".scales", false)];

fn is_ours(config: &Config<'_>) -> bool {
    config.is_method(&["mxfp4"])
}

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    let is_announced = model.config(&["mxfp4"]).is_some();
    for (codes_end, scales_end, is_transposed) in NAMES {
        for (number, codes, name) in model.ending(codes_end) {
            if codes.dtype != DType::U8 || !found.is_free(number) {
                continue;
            }
            let scales = model.find(&format!("{name}{scales_end}"));
            let Some(scales) = scales.filter(|at| is_bytes(model.tensor(*at))) else {
                if is_announced {
                    let message =
                        format!("its scales are missing: there is no `{name}{scales_end}` of type U8");
                    return Err(Error::malformed(message).tensor(&codes.name));
                }
                continue;
            };
            found.add(model, weight(model, (number, codes), scales, (name, is_transposed))?)?;
            if !is_announced {
                found.note(
                    "no configuration states the packing scheme: MXFP4 is assumed from names and \
                     types of blocks and scales",
                );
            }
        }
        // Scales whose blocks are missing.
        for (number, scales, name) in model.ending(scales_end) {
            if is_announced && found.is_free(number) && is_bytes(scales) {
                let message = format!("its codes are missing: there is no `{name}{codes_end}` of type U8");
                return Err(Error::malformed(message).tensor(&scales.name));
            }
        }
    }
    Ok(())
}

fn is_bytes(scales: &StoredTensor) -> bool {
    [DType::U8, DType::F8_E8M0].contains(&scales.dtype)
}

fn weight(
    model: &Model<'_>,
    (number, codes): (usize, &StoredTensor),
    at: usize,
    (name, is_transposed): (&str, bool),
) -> Result<PackedTensor> {
    let scales = model.tensor(at);
    let [lead @ .., groups, 16] = &codes.shape[..] else {
        let message = format!("its shape {:?} is not that of blocks of 16 bytes", codes.shape);
        return Err(Error::malformed(message).tensor(&codes.name));
    };
    if scales.shape[..] != codes.shape[..codes.shape.len() - 1] {
        let message =
            format!("its shape {:?} does not match {:?} of `{}`", scales.shape, codes.shape, codes.name);
        return Err(Error::malformed(message).tensor(&scales.name));
    }
    let too_large = || Error::malformed("its shape is too large").tensor(&codes.name);
    let row_len = groups.checked_mul(GROUP).ok_or_else(too_large)?;
    let (stacked, out) = match *lead {
        [stacked, out] => (stacked, out),
        [out] if !is_transposed => (1, out),
        _ => {
            let message = format!("its shape {:?} is not that of stacked experts", codes.shape);
            return Err(Error::malformed(message).tensor(&codes.name));
        }
    };
    let rows = stacked.checked_mul(out).ok_or_else(too_large)?;
    rows.checked_mul(row_len).ok_or_else(too_large)?;
    let grid = Grid::new(DType::F4_E2M1, DType::F8_E8M0, (1, GROUP), (out, rows, row_len));
    let (shape, strides) = if is_transposed {
        (vec![stacked, row_len, out], vec![out * row_len, 1, row_len])
    } else {
        (lead.iter().copied().chain([row_len]).collect(), Vec::new())
    };
    Ok(PackedTensor {
        name: name.to_owned(),
        shape,
        strides,
        dtype: model.dtype(DType::BF16),
        about: "MXFP4, groups of 32".to_owned(),
        exact: grid.exact(),
        rows: grid.packed(),
        parts: vec![(number, "codes".to_owned()), (at, "scales".to_owned())],
        panel: 1,
    })
}
