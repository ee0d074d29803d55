//! BitNet: ternary weights, four in a byte, each from another quarter of the rows.
//!
//! ```text
//! X.weight        U8 [out / 4, in]    bits 2n and 2n + 1: row n * out / 4 + r; 0, 1, 2 mean -1, 0, 1
//! X.weight_scale  one
//!
//! value = (code - 1) / scale; with `linear_class: autobitlinear` (and `quantization_mode: offline`) (code - 1) * scale
//! ```
//!
//! Sources: `integrations/bitnet.py` of transformers (`BitLinear` divides, `AutoBitLinear` multiplies); `conversion/base.py` of
//! llama.cpp, which always divides.

use crate::model::{Config, Found, Model};
use crate::scheme::{Scheme, States};
use crate::slices::Slices;
use apr_sdk::{DType, Error, PackedTensor, Result};

/// The scheme.
pub static SCHEME: Scheme = Scheme { name: "BitNet", states: States::Config(is_ours), understand };

/// What values depend on, and what may be said of it.
const STATED: [(&str, [&str; 2]); 2] =
    [("linear_class", ["bitlinear", "autobitlinear"]), ("quantization_mode", ["offline", "online"])];

fn is_ours(config: &Config<'_>) -> bool {
    config.is_method(&["bitnet"])
}

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    let Some(config) = model.config(&["bitnet"]) else { return Ok(()) };
    for (key, known) in STATED {
        if let Some(said) = config.text(key).filter(|said| !known.contains(said)) {
            let said: String = said.chars().take(80).collect();
            let message = format!("BitNet with `{key}` `{}` is not supported", said.escape_debug());
            return Err(Error::unsupported(message).in_file(config.file));
        }
    }
    let is_divisor = config.text("linear_class") != Some("autobitlinear");
    for (number, codes, name) in model.ending(".weight") {
        if codes.dtype != DType::U8 || !found.is_free(number) {
            continue;
        }
        let at = model.find(&format!("{}_scale", codes.name)).ok_or_else(|| {
            Error::malformed("its scale is missing: expected `weight_scale`").tensor(&codes.name)
        })?;
        let scale = model.tensor(at);
        if scale.shape.iter().any(|size| *size != 1)
            || ![DType::F32, DType::F16, DType::BF16].contains(&scale.dtype)
        {
            let message =
                format!("it is {:?} of {}, expected a single float as its scale", scale.shape, scale.dtype);
            return Err(Error::malformed(message).tensor(&scale.name));
        }
        let [quarter, row_len] = codes.shape[..] else {
            let message = format!("its shape {:?} is not that of a matrix", codes.shape);
            return Err(Error::malformed(message).tensor(&codes.name));
        };
        let words = quarter.checked_mul(row_len).filter(|words| words.checked_mul(4).is_some());
        let words = words.ok_or_else(|| Error::malformed("its shape is too large").tensor(&codes.name))?;
        let slices = Slices {
            bits: 2,
            unit: 1,
            element: 1,
            fields: 4,
            is_high_first: false,
            words: words.max(1),
            group: (words * 4).max(1),
            is_across: false,
            scales: scale.dtype,
            zeros: None,
            zero: 1,
            flip: 0,
            is_divisor,
            columns: None,
            rows: quarter * 4,
            row_len,
        };
        found.add(
            model,
            PackedTensor {
                name: format!("{name}.weight"),
                shape: vec![quarter * 4, row_len],
                strides: Vec::new(),
                dtype: model.dtype(scale.dtype),
                about: "BitNet, ternary, one scale".to_owned(),
                exact: slices.exact(),
                rows: slices.packed(),
                parts: vec![(number, "codes".to_owned()), (at, "scale".to_owned())],
                panel: 1,
            },
        )?;
    }
    Ok(())
}
