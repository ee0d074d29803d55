//! The open enum of element types. One table, [`DType::ALL`], holds every fact; adding a row touches no
//! `match`.

use crate::{Error, Result, dtype_table::TABLE};

/// An element type, by number. The *name* is its identity across programs; the number is valid only within
/// one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DType(pub u32);

/// Packing of elements into a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Every row (the last dimension) is a whole number of blocks; anything else is refused.
    Row,
    /// Bits are packed across the flattened tensor: bytes = ceil(n · bits / 8).
    Flat,
}

/// The kind of value an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DTypeKind {
    /// A scalar floating-point number.
    Float,
    /// A signed integer.
    Int,
    /// An unsigned integer.
    Uint,
    /// One byte, 0 or 1.
    Bool,
    /// Two floats: real, imaginary.
    Complex,
    /// A quantized block of several elements with shared scales.
    Block,
}

/// A multi-byte field inside a block, whose bytes are reversed to change the byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapField {
    /// Offset of the first such field in the block, in bytes.
    pub offset: u16,
    /// Width of each field, in bytes (2, 4 or 8).
    pub width: u16,
    /// Number of such fields that follow one another.
    pub count: u16,
}

/// One row of the dtype table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DTypeInfo {
    /// The type this row describes.
    pub dtype: DType,
    /// Its name, such as `F32` or `Q4_K`: the identity across programs.
    pub name: &'static str,
    /// Elements per block; 1 for scalars.
    pub block_elements: u32,
    /// Bytes per block.
    pub block_bytes: u32,
    /// The kind of value an element is.
    pub kind: DTypeKind,
    /// Packing of the elements.
    pub packing: Packing,
    /// The multi-byte fields of a block.
    pub swap: &'static [SwapField],
}

impl DType {
    /// Every known type, ordered by number.
    pub const ALL: &'static [DTypeInfo] = TABLE;

    /// The type's table row, or `None` for an unknown number.
    pub fn info(self) -> Option<&'static DTypeInfo> {
        TABLE.get(self.0 as usize)
    }

    /// The type's table row.
    ///
    /// # Errors
    /// Unsupported for a number that is not in the table.
    pub fn require(self) -> Result<&'static DTypeInfo> {
        self.info().ok_or_else(|| {
            Error::unsupported(format!("dtype number {} is not in this version's table", self.0))
        })
    }

    /// Looks up a type by its exact name.
    pub fn from_name(name: &str) -> Option<DType> {
        TABLE.iter().find(|row| row.name == name).map(|row| row.dtype)
    }

    /// The type's name, or `?` for an unknown number.
    pub fn name(self) -> &'static str {
        self.info().map_or("?", |row| row.name)
    }

    /// Returns whether this is a quantized block type.
    pub fn is_block(self) -> bool {
        self.info().is_some_and(|row| row.kind == DTypeKind::Block)
    }
}

impl std::fmt::Debug for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.info() {
            Some(row) => f.write_str(row.name),
            None => write!(f, "DType({})", self.0),
        }
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_positions_and_names_are_unique() {
        for (n, row) in TABLE.iter().enumerate() {
            assert_eq!(row.dtype.0 as usize, n, "{}", row.name);
            assert_eq!(DType::from_name(row.name), Some(row.dtype), "{}", row.name);
        }
    }

    #[test]
    fn swap_fields_lie_inside_their_block() {
        for row in TABLE {
            for field in row.swap {
                let end = u32::from(field.offset) + u32::from(field.width) * u32::from(field.count);
                assert!(end <= row.block_bytes, "{}", row.name);
            }
        }
    }
}
