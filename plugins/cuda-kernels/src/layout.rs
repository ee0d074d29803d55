//! How a matrix lies on the device. A row's blocks are taken apart into planes, so that every load is aligned: the first
//! fields of all blocks, then the second ones, and so on, padded with zeros to 16 bytes. Blocks of whole 16 bytes, and
//! floats, stay as they are.
//!
//! ```text
//! Q6_K   210 bytes a block: ql 128 | qh 64 | scales 16 | d 2
//! row    ql ql ql ... | qh qh qh ... | scales ... | d d d ... | zeros
//! ```

use apr_sdk::{DType, Error, ImageSpec, MatrixSpec, Result};

/// A type of weights as the kernels number it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Type {
    /// The type.
    pub(crate) dtype: DType,
    /// Its number in `types.cuh`.
    pub(crate) number: u32,
    /// The module of its products with a few rows.
    pub(crate) module: &'static str,
    /// Where each plane's field begins in a block, and its bytes, in the order of the planes.
    planes: &'static [(usize, usize)],
    /// Columns that a lane takes at a time.
    pub(crate) unit: usize,
    /// Whether it is multiplied with activations of 8 bits.
    pub(crate) is_blocks: bool,
    /// The kernels of products with one token (one row at a time, and two), two, four and eight tokens.
    pub(crate) matvec: [&'static str; 5],
    /// The kernel of products with many tokens.
    pub(crate) matmul: &'static str,
    /// The same with tiles of 128 instead of 64, where there is one.
    pub(crate) matmul_large: Option<&'static str>,
}

macro_rules! types {
    ($($dtype:ident $name:literal $number:literal $unit:literal $blocks:literal $matmul:literal $large:expr, [$($plane:expr),*];)*) => {
        /// All types.
        pub(crate) const TYPES: &[Type] = &[$(Type {
            dtype: DType::$dtype,
            number: $number,
            module: concat!("matvec_", $name),
            planes: &[$($plane),*],
            unit: $unit,
            is_blocks: $blocks,
            matvec: [
                concat!("matvec_", $name, "_1x1"),
                concat!("matvec_", $name, "_1x2"),
                concat!("matvec_", $name, "_2x2"),
                concat!("matvec_", $name, "_4x2"),
                concat!("matvec_", $name, "_8x2"),
            ],
            matmul: $matmul,
            matmul_large: $large,
        }),*];
    };
}

types! {
    F32 "f32" 0 4 false "matmul_f32" None, [(0, 4)];
    F16 "f16" 1 8 false "matmul_f16" None, [(0, 2)];
    BF16 "bf16" 2 8 false "matmul_bf16" Some("matmul_bf16_large"), [(0, 2)];
    Q4_0 "q4_0" 3 32 true "matmul_blocks" Some("matmul_blocks_large"), [(2, 16), (0, 2)];
    Q4_1 "q4_1" 4 32 true "matmul_blocks" Some("matmul_blocks_large"), [(4, 16), (0, 4)];
    Q5_0 "q5_0" 5 32 true "matmul_blocks" Some("matmul_blocks_large"), [(6, 16), (2, 4), (0, 2)];
    Q5_1 "q5_1" 6 32 true "matmul_blocks" Some("matmul_blocks_large"), [(8, 16), (4, 4), (0, 4)];
    Q8_0 "q8_0" 7 32 true "matmul_blocks" Some("matmul_blocks_large"), [(2, 32), (0, 2)];
    Q4_K "q4_k" 8 64 true "matmul_blocks" Some("matmul_blocks_large"), [(0, 144)];
    Q5_K "q5_k" 9 64 true "matmul_blocks" Some("matmul_blocks_large"), [(0, 176)];
    Q6_K "q6_k" 10 64 true "matmul_blocks" Some("matmul_blocks_large"), [(0, 128), (128, 64), (192, 16), (208, 2)];
}

/// The module and the kernels for parts of several types, K types all of them.
pub(crate) const MIXED: (&str, [&str; 5]) = (
    "matvec_mixed",
    ["matvec_mixed_1x1", "matvec_mixed_1x2", "matvec_mixed_2x2", "matvec_mixed_4x2", "matvec_mixed_8x2"],
);

/// The id of this layout.
const LAYOUT: &str = "cuda-planes-1";

impl Type {
    /// What is known of a type.
    ///
    /// # Errors
    /// Unsupported for one that has no kernels.
    pub(crate) fn of(dtype: DType) -> Result<&'static Type> {
        TYPES.iter().find(|known| known.dtype == dtype).ok_or_else(|| {
            let names: Vec<&str> = TYPES.iter().map(|known| known.dtype.name()).collect();
            Error::unsupported(format!("no kernel for weights of {dtype}, only for {}", names.join(", ")))
        })
    }
}

/// A matrix on the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Its type.
    pub(crate) of: &'static Type,
    /// Its rows.
    pub(crate) rows: usize,
    /// Its columns.
    pub(crate) columns: usize,
    /// Blocks of a row.
    pub(crate) blocks: usize,
    /// Bytes of a plain row.
    pub(crate) plain: usize,
    /// Bytes of a row on the device.
    pub(crate) row: usize,
}

/// A number as an index.
fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl Layout {
    /// The layout of a matrix.
    ///
    /// # Errors
    /// Unsupported for a type that has no kernels; LimitExceeded for sizes that kernels cannot count.
    pub(crate) fn new(matrix: &MatrixSpec) -> Result<Layout> {
        let of = Type::of(matrix.dtype())?;
        let block = of.planes.iter().map(|(_, bytes)| bytes).sum::<usize>();
        let plain = count(matrix.row_bytes());
        let row = plain.checked_next_multiple_of(16).unwrap_or(usize::MAX);
        let (rows, columns) = (count(matrix.rows()), count(matrix.columns()));
        let countable = |number: usize| u32::try_from(number).is_ok_and(|number| number <= 1 << 31);
        if ![row, rows, columns].into_iter().all(countable) || row.checked_mul(rows).is_none() {
            return Err(Error::limit(format!("a matrix of {rows} x {columns} is too large for its kernels")));
        }
        Ok(Layout { of, rows, columns, blocks: plain / block, plain, row })
    }

    /// The bytes of the whole matrix on the device.
    pub(crate) fn bytes(&self) -> usize {
        self.row * self.rows
    }

    /// Units of a row; the last of floats may be padded.
    pub(crate) fn units(&self) -> usize {
        self.columns.div_ceil(self.of.unit)
    }

    /// What the host is told of it.
    pub(crate) fn image(&self) -> ImageSpec {
        ImageSpec { bytes: self.bytes() as u64, layout: LAYOUT.to_owned() }
    }

    /// Takes plain rows apart. Both hold whole rows.
    pub(crate) fn pack(&self, plain: &[u8], packed: &mut [u8]) {
        for (plain, packed) in plain.chunks_exact(self.plain).zip(packed.chunks_exact_mut(self.row)) {
            let end = self.each_plane(|at, from, bytes| {
                packed[at..at + bytes].copy_from_slice(&plain[from..from + bytes]);
            });
            packed[end..].fill(0);
        }
    }

    /// Puts rows together again, bit for bit.
    pub(crate) fn unpack(&self, packed: &[u8], plain: &mut [u8]) {
        for (plain, packed) in plain.chunks_exact_mut(self.plain).zip(packed.chunks_exact(self.row)) {
            self.each_plane(|at, from, bytes| {
                plain[from..from + bytes].copy_from_slice(&packed[at..at + bytes]);
            });
        }
    }

    /// Names each field of a row: where it lies on the device, where in the plain row, and its bytes. Returns where the last
    /// ends.
    fn each_plane(&self, mut field: impl FnMut(usize, usize, usize)) -> usize {
        if let [_] = self.of.planes {
            field(0, 0, self.plain);
            return self.plain;
        }
        let block: usize = self.of.planes.iter().map(|(_, bytes)| bytes).sum();
        let mut at = 0;
        for (first, bytes) in self.of.planes {
            for number in 0..self.blocks {
                field(at, number * block + first, *bytes);
                at += bytes;
            }
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_bit_for_bit() {
        for of in TYPES {
            let columns = if of.is_blocks { 768 } else { 37 };
            let layout = Layout::new(&MatrixSpec::new(of.dtype, 3, columns).unwrap()).unwrap();
            let plain: Vec<u8> = (0..layout.plain * 3).map(|n| u8::try_from(n * 7 % 251).unwrap()).collect();
            let mut packed = vec![0xaa; layout.bytes()];
            layout.pack(&plain, &mut packed);
            let mut back = vec![0; plain.len()];
            layout.unpack(&packed, &mut back);
            assert_eq!(back, plain, "{}", of.dtype);
            assert_eq!(layout.row % 16, 0);
        }
    }

    #[test]
    fn planes_are_whole_blocks() {
        for of in TYPES {
            let block: usize = of.planes.iter().map(|(_, bytes)| bytes).sum();
            assert_eq!(block as u64, u64::from(of.dtype.info().unwrap().block_bytes), "{}", of.dtype);
            let mut fields = of.planes.to_vec();
            fields.sort_unstable();
            assert!(fields.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0));
        }
    }
}
