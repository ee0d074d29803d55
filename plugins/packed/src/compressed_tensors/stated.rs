//! What a configuration states of a module's codes, against the codes that it has.

use super::groups::Weights;
use super::{Groups, wrong};
use crate::model::{Found, Model};
use apr_sdk::{DType, MOST_CONTENTS, Result};

/// The codes of a module.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Codes {
    /// Integers in words.
    Words,
    /// Whole bytes of a type, and the type of their scales.
    Bytes(DType, DType),
    /// Floats of less than a byte: their type, and that of their scales.
    Small(DType, DType),
}

impl Codes {
    fn are_floats(self) -> bool {
        self != Codes::Words && !matches!(self, Codes::Bytes(DType::I8, _))
    }

    /// The formats that store such codes.
    fn formats(self) -> &'static [&'static str] {
        match self {
            Codes::Words => &["pack-quantized"],
            Codes::Bytes(DType::I8, _) => &["int-quantized", "naive-quantized"],
            Codes::Bytes(_, DType::U8 | DType::F8_E8M0) => {
                &["mxfp8-quantized", "float-quantized", "naive-quantized"]
            }
            Codes::Bytes(..) => &["float-quantized", "naive-quantized"],
            Codes::Small(_, DType::F8_E4M3) => &["nvfp4-pack-quantized"],
            Codes::Small(DType::F6_E2M3, _) => &["mxfp6-pack-quantized"],
            Codes::Small(..) => &["mxfp4-pack-quantized"],
        }
    }
}

/// Fails for codes of which the configuration says that they are others, or that there are none.
///
/// # Errors
/// Malformed, with the tensor.
pub fn check(
    model: &Model<'_>,
    groups: &Groups,
    number: usize,
    module: &str,
    group: Option<&Weights>,
    codes: Codes,
) -> Result<()> {
    if let Some(ignored) = groups.ignores(module) {
        let message = format!("it is packed, but the configuration's `ignore` lists `{ignored}`");
        return Err(wrong(model, number, &message));
    }
    let Some(group) = group else { return Ok(()) };
    let (kind, own) = (group.kind.as_deref(), if codes.are_floats() { "float" } else { "int" });
    if let Some(kind) = kind.filter(|kind| *kind != own) {
        let message = format!("the configuration states `type` {kind}, but its codes are `{own}`");
        return Err(wrong(model, number, &message));
    }
    let formats = codes.formats();
    let others = ["dense", "mixed-precision"];
    let format =
        group.format.as_deref().filter(|format| !formats.contains(format) && !others.contains(format));
    if let Some(format) = format {
        let message =
            format!("the configuration states `{format}`, but its codes are those of `{}`", formats[0]);
        return Err(wrong(model, number, &message));
    }
    Ok(())
}

/// Whether zero points beside a weight count: not where the configuration says that it has none, if they are all zero, as
/// older versions stored them. `None` while their contents are asked for.
///
/// # Errors
/// Malformed for others.
pub fn has_zeros(
    model: &Model<'_>,
    found: &mut Found,
    group: Option<&Weights>,
    zeros: usize,
) -> Result<Option<bool>> {
    if group.is_none_or(|group| group.symmetric != Some(true)) {
        return Ok(Some(true));
    }
    let tensor = model.tensor(zeros);
    let is_small = tensor.shape.iter().try_fold(4u64, |all, size| all.checked_mul(*size));
    if tensor.dtype != DType::I32 && is_small.is_some_and(|bytes| bytes <= MOST_CONTENTS) {
        let Some(bytes) = found.contents(model, zeros) else { return Ok(None) };
        if bytes.iter().all(|byte| *byte == 0) {
            found.unused(model, zeros, "zero points that are all zero")?;
            return Ok(Some(false));
        }
    }
    Err(wrong(model, zeros, "the configuration states `symmetric`, which has no zero points"))
}
