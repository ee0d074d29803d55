//! The open enum of element types. One table, [`DType::ALL`], holds every fact; adding a row touches no
//! `match`.

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
