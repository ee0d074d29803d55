//! Chooses float types between the user's request and the target's preference.

use apr_sdk::{DType, DTypeChoice, DTypeKind, Error, Result, TensorFacts, Writer};

/// The type for each tensor; `wanted` is the user's request. If the writer has no preference for any, the
/// user's applies.
///
/// # Errors
/// Any error from the writer; Plugin if it answers for a different number of tensors.
pub fn choices(
    writer: &dyn Writer,
    facts: &[TensorFacts],
    wanted: Option<DType>,
) -> Result<Vec<DTypeChoice>> {
    let choices = writer.dtypes(facts, wanted)?;
    if choices.len() != facts.len() {
        let (have, want) = (choices.len(), facts.len());
        return Err(Error::plugin(format!("the writer chose {have} dtypes for {want} tensors")));
    }
    let (Some(wanted), true) = (wanted, choices.iter().all(|choice| *choice == DTypeChoice::Keep)) else {
        return Ok(choices);
    };
    let choose = |facts: &TensorFacts| match facts.dtype.is_some_and(is_float) {
        true => DTypeChoice::Cast(wanted),
        false => DTypeChoice::Keep,
    };
    Ok(facts.iter().map(choose).collect())
}

/// Whether a type is a float type.
pub fn is_float(dtype: DType) -> bool {
    dtype.info().is_some_and(|info| info.kind == DTypeKind::Float)
}
