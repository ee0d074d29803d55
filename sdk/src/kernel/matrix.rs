//! Matrices, and the images in which a device keeps them.

use crate::{DType, Error, Packing, Result, checked_payload_len};

/// The dimensions of a weight's matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightShape {
    /// Number of rows: outputs.
    pub rows: usize,
    /// Number of columns: inputs.
    pub columns: usize,
}

/// A matrix that a kernel can take: row-major, with at least one row and one column, and rows of whole blocks.
/// A vector is a matrix of one row; stacked experts are one matrix of all their rows.
///
/// Only [`MatrixSpec::new`] makes one, so a backend need not check again:
///
/// ```compile_fail
/// use apr_sdk::{DType, MatrixSpec};
/// let matrix = MatrixSpec { dtype: DType::F32, rows: 0, columns: 3, row_bytes: 12 };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixSpec {
    dtype: DType,
    rows: u64,
    columns: u64,
    row_bytes: u64,
}

impl MatrixSpec {
    /// A matrix of `rows` rows with `columns` columns each.
    ///
    /// # Errors
    /// InvalidArgument if there are no rows or columns, or rows are not whole blocks; LimitExceeded if its size is
    /// beyond what 64 bits can count; Unsupported for a type without rows.
    pub fn new(dtype: DType, rows: u64, columns: u64) -> Result<MatrixSpec> {
        let matrix = format_args!("a matrix of {rows} x {columns} in {dtype}");
        if rows == 0 || columns == 0 {
            return Err(Error::invalid_argument(format!("{matrix} has no elements")));
        }
        let info = dtype.info().ok_or_else(|| Error::unsupported(format!("{matrix}: unknown type")))?;
        if info.packing != Packing::Row {
            return Err(Error::unsupported(format!("{matrix}: its rows are not whole bytes")));
        }
        let block = u64::from(info.block_elements);
        if columns % block != 0 {
            return Err(Error::invalid_argument(format!(
                "{matrix}: a row is not a multiple of the block size {block}"
            )));
        }
        let row_bytes = checked_payload_len(dtype, &[columns])?;
        checked_payload_len(dtype, &[rows, columns])?;
        Ok(MatrixSpec { dtype, rows, columns, row_bytes })
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The number of rows: outputs.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The number of columns: inputs.
    pub fn columns(&self) -> u64 {
        self.columns
    }

    /// The bytes of a plain row.
    pub fn row_bytes(&self) -> u64 {
        self.row_bytes
    }

    /// The bytes of all plain rows.
    pub fn bytes(&self) -> u64 {
        // `new` checked the product.
        self.rows * self.row_bytes
    }
}

/// A matrix's image: the layout in which a device keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSpec {
    /// Its length in bytes.
    pub bytes: u64,
    /// The id of the layout; it changes whenever the layout does.
    pub layout: String,
}

/// A matrix on a device, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Weight(pub u64);

/// The plain rows of a matrix, as the host reads them from the model.
pub trait Rows: Sync {
    /// Fills `out`, a whole number of rows, with those from `first` on.
    ///
    /// # Errors
    /// Any error of reading; InvalidArgument beyond the last row.
    fn read(&self, first: u64, out: &mut [u8]) -> Result<()>;
}

/// Receives plain rows in order.
pub trait RowsSink {
    /// Takes the next rows.
    ///
    /// # Errors
    /// Any error of storing them.
    fn rows(&mut self, bytes: &[u8]) -> Result<()>;
}

/// The host's memory for an image: a part of its heap, or of a file that keeps the image for the next time. It is
/// aligned to 64 bytes and at first zero.
pub trait ImageMemory: Send + Sync {
    /// Its bytes.
    fn bytes(&self) -> &[u8];

    /// Its bytes, to be written.
    ///
    /// # Errors
    /// InvalidArgument for an image that was mapped from a file and may only be read.
    fn bytes_mut(&mut self) -> Result<&mut [u8]>;
}

/// Provides memory for a matrix's image.
pub trait ImageSink {
    /// Memory of `bytes` bytes. A device with memory of its own does not ask for any.
    ///
    /// # Errors
    /// Io if there is not enough.
    fn memory(&mut self, bytes: u64) -> Result<Box<dyn ImageMemory>>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn kind(dtype: DType, rows: u64, columns: u64) -> std::result::Result<MatrixSpec, ErrorKind> {
        MatrixSpec::new(dtype, rows, columns).map_err(|e| e.kind())
    }

    #[test]
    fn what_is_no_matrix_is_refused() {
        assert_eq!(kind(DType::Q4_K, 0, 256), Err(ErrorKind::InvalidArgument));
        assert_eq!(kind(DType::Q4_K, 3, 0), Err(ErrorKind::InvalidArgument));
        assert_eq!(kind(DType::Q4_K, 3, 257), Err(ErrorKind::InvalidArgument));
        assert_eq!(kind(DType::Q8_0, 3, 48), Err(ErrorKind::InvalidArgument));
        assert_eq!(kind(DType::U4, 3, 2), Err(ErrorKind::Unsupported));
        assert!(kind(DType::F32, u64::MAX / 2, 4).is_err());
        let matrix = MatrixSpec::new(DType::Q4_K, 3, 512).unwrap();
        assert_eq!((matrix.row_bytes(), matrix.bytes()), (288, 864));
    }
}
