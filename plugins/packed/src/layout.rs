//! What a layout is: a way to store the rows of a weight, shared by schemes.

use crate::{affine, axes, codebook, scaled, slices, words};
use apr_sdk::{DType, Error, HeldRows, PackedRows, PartRange, Result};
use std::ops::Range;

/// A layout. Its methods are those of [`apr_sdk::Schemes`].
pub trait Layout: Sync {
    /// Where rows lie in each part.
    fn ranges(&self, packed: &PackedRows, rows: Range<u64>) -> Result<Vec<PartRange>>;

    /// The values of rows.
    fn unpack(
        &self,
        packed: &PackedRows,
        held: &HeldRows<'_>,
        rows: Range<u64>,
        out: &mut [f32],
    ) -> Result<()>;

    /// Where pieces of rows may begin and end.
    fn column_unit(&self, _packed: &PackedRows) -> Result<u64> {
        Ok(0)
    }

    /// The values of some columns of rows.
    fn unpack_columns(
        &self,
        packed: &PackedRows,
        _held: &HeldRows<'_>,
        _rows: Range<u64>,
        _columns: Range<u64>,
        _out: &mut [f32],
    ) -> Result<()> {
        Err(Error::plugin(format!("`{}` cannot be read in parts of rows", packed.scheme)))
    }

    /// Whether a type holds every value of the rows held.
    fn holds(&self, packed: &PackedRows, _held: &HeldRows<'_>, dtype: DType) -> Result<bool> {
        Err(Error::plugin(format!("cannot tell whether {dtype} holds the values of `{}`", packed.scheme)))
    }

    /// Rows as blocks of a type.
    fn repack(
        &self,
        packed: &PackedRows,
        _held: &HeldRows<'_>,
        _rows: Range<u64>,
        dtype: DType,
        _out: &mut [u8],
    ) -> Result<()> {
        Err(Error::unsupported(format!("`{}` cannot be repacked as {dtype} without loss", packed.scheme)))
    }
}

/// The layouts by name.
static LAYOUTS: &[(&str, &dyn Layout)] = &[
    (scaled::NAME, &scaled::Scaled),
    (words::NAME, &words::Words),
    (codebook::NAME, &codebook::Codebook),
    (affine::NAME, &affine::Affine),
    (axes::NAME, &axes::Axes),
    (slices::NAME, &slices::Sliced),
];

/// The layout of packed rows.
///
/// # Errors
/// Plugin for a name that no layout has.
pub fn of(packed: &PackedRows) -> Result<&'static dyn Layout> {
    let found = LAYOUTS.iter().find(|(name, _)| *name == packed.scheme);
    found
        .map(|(_, layout)| *layout)
        .ok_or_else(|| Error::plugin(format!("unknown layout `{}`", packed.scheme)))
}

/// What is said of a part that ends before its rows do.
pub fn too_short() -> Error {
    Error::plugin("a part has too few bytes for its rows")
}

/// A number of elements or bytes in memory.
pub fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The numbers of a layout, `N` of them.
///
/// # Errors
/// Plugin for another count.
pub fn numbers<const N: usize>(packed: &PackedRows) -> Result<[u64; N]> {
    let numbers = packed.numbers.as_slice().try_into();
    numbers.map_err(|_| {
        Error::plugin(format!("`{}` has {} numbers, expected {N}", packed.scheme, packed.numbers.len()))
    })
}
