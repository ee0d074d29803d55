//! Chooses float types between the user's request and the target's preference.

use crate::architecture::table::{Precision, Side, Table};
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
        let have = choices.len();
        let want = facts.len();
        return Err(Error::plugin(format!("the writer chose {have} dtypes for {want} tensors")));
    }
    let has_preference = choices.iter().any(|choice| *choice != DTypeChoice::Keep);
    let Some(wanted) = wanted.filter(|_| !has_preference) else { return Ok(choices) };
    let choices = facts.iter().map(|facts| match facts.dtype.is_some_and(is_float) {
        true => DTypeChoice::Cast(wanted),
        false => DTypeChoice::Keep,
    });
    Ok(choices.collect())
}

/// The same with what a table's rules say of a dialect's tensors.
///
/// # Errors
/// As [`choices`].
pub(super) fn choices_of(
    table: &Table,
    dialect: &str,
    writer: &dyn Writer,
    facts: &[TensorFacts],
    wanted: Option<DType>,
) -> Result<Vec<DTypeChoice>> {
    let mut all = choices(writer, facts, wanted)?;
    let sides = table.rules.iter().filter_map(|rule| rule.side(dialect));
    let stated: Vec<(&Side, Precision)> = sides.filter_map(|side| Some((side, side.precision?))).collect();
    let usual =
        all.iter().find(|choice| matches!(choice, DTypeChoice::Cast(to) if *to != DType::F32)).copied();
    for (choice, facts) in all.iter_mut().zip(facts) {
        let own = stated
            .iter()
            .find(|(side, _)| side.images.iter().any(|image| image.numbers(&facts.name).is_some()));
        let precision = own.map(|(_, precision)| *precision);
        match (precision, facts.dtype.is_some_and(is_float)) {
            (Some(Precision::Full), true) => *choice = DTypeChoice::Cast(DType::F32),
            (Some(Precision::Usual), true) => *choice = usual.unwrap_or(*choice),
            _ => {}
        }
    }
    Ok(all)
}

/// Returns whether a type is a float type.
pub fn is_float(dtype: DType) -> bool {
    dtype.info().is_some_and(|info| info.kind == DTypeKind::Float)
}
