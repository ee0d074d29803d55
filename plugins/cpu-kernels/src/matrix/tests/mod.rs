//! Matrices against definitions in F64: images, rows, products at every level.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::needless_range_loop,
    reason = "small numbers, and indices that several lists share"
)]

mod definitions;
mod faults;
mod images;
mod products;
mod roundings;

use super::*;
use apr_sdk::DType;
use apr_sdk::half::to_f16;

/// Numbers that look random, the same ones each time.
pub struct Noise(u64);

impl Noise {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Evenly in -1 to 1.
    pub fn even(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    /// Nearly normal.
    pub fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.even()).sum::<f32>() / 2.0
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).take(count).collect()
    }
}

/// Random rows of a type, whose floats are small finite numbers.
pub fn plain(spec: &MatrixSpec, noise: &mut Noise) -> Vec<u8> {
    let info = spec.dtype().info().unwrap();
    let mut bytes = noise.bytes(usize::try_from(spec.bytes()).unwrap());
    if spec.dtype() == DType::F32 {
        return bytes.chunks(4).flat_map(|_| noise.normal().to_le_bytes()).collect();
    }
    for block in bytes.chunks_mut(info.block_bytes as usize) {
        let single = info.block_bytes == 2;
        for field in info.swap.iter().filter(|field| field.width == 2) {
            for n in 0..field.count {
                let value = if single { noise.normal() } else { 0.01 * (1.5 + noise.even()) };
                let value =
                    if spec.dtype() == DType::BF16 { apr_sdk::half::to_bf16(value) } else { to_f16(value) };
                let at = usize::from(field.offset + 2 * n);
                block[at..at + 2].copy_from_slice(&value.to_le_bytes());
            }
        }
    }
    bytes
}

/// Plain rows in memory.
pub struct InMemory<'a>(pub &'a [u8], pub usize);

impl Rows for InMemory<'_> {
    fn read(&self, first: u64, out: &mut [u8]) -> Result<()> {
        assert_eq!(out.len() % self.1, 0, "whole rows");
        let first = usize::try_from(first).unwrap() * self.1;
        out.copy_from_slice(&self.0[first..first + out.len()]);
        Ok(())
    }
}

/// An image in memory.
pub struct Memory(pub Vec<u8>);

impl ImageMemory for Memory {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        Ok(&mut self.0)
    }
}

/// Gives memory.
pub struct Heap;

impl ImageSink for Heap {
    fn memory(&mut self, bytes: u64) -> Result<Box<dyn ImageMemory>> {
        Ok(Box::new(Memory(vec![0; usize::try_from(bytes).unwrap()])))
    }
}

/// Takes plain rows.
#[derive(Default)]
pub struct Taken(pub Vec<u8>);

impl RowsSink for Taken {
    fn rows(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// A matrix of random rows, and the rows.
pub fn random(dtype: DType, rows: usize, columns: usize, noise: &mut Noise) -> (Matrix, Vec<u8>) {
    let spec = MatrixSpec::new(dtype, rows as u64, columns as u64).unwrap();
    let bytes = plain(&spec, noise);
    (prepared(&spec, &bytes), bytes)
}

/// A matrix of plain rows.
pub fn prepared(spec: &MatrixSpec, bytes: &[u8]) -> Matrix {
    let rows = InMemory(bytes, usize::try_from(spec.row_bytes()).unwrap());
    Matrix::prepare(spec, &rows, &mut Heap).unwrap()
}

/// Activations of random rows, and the rows.
pub fn activations(matrix: &Matrix, tokens: usize, noise: &mut Noise) -> (Activations, Vec<Vec<f32>>) {
    let columns = matrix.shape.columns;
    let values: Vec<Vec<f32>> = (0..tokens).map(|_| (0..columns).map(|_| noise.normal()).collect()).collect();
    (filled(matrix, &values), values)
}

/// Activations of rows.
pub fn filled(matrix: &Matrix, values: &[Vec<f32>]) -> Activations {
    let x = Activations::new(matrix.rounding(), matrix.shape.columns, values.len()).unwrap();
    for (token, values) in values.iter().enumerate() {
        // SAFETY: there is one thread.
        unsafe { x.fill(Level::best(), token, values) };
    }
    x
}

/// All products: for each token those of all rows.
pub fn products(matrix: &Matrix, level: Level, x: &Activations, tokens: Range<usize>) -> Vec<Vec<f32>> {
    let mut out = vec![vec![f32::NAN; matrix.shape.rows]; tokens.len()];
    let first_token = tokens.start;
    matrix.multiply(level, 0..matrix.shape.rows, x, tokens, None, &mut |token, first, products| {
        out[token - first_token][first..first + products.len()].copy_from_slice(products);
    });
    out
}

/// The levels that this machine has.
pub fn levels() -> impl Iterator<Item = Level> {
    Level::ALL.into_iter().filter(|level| level.is_supported())
}

/// Columns that a type may have: an odd number of blocks, so that groups have a rest.
pub fn columns(dtype: DType) -> Vec<usize> {
    match dtype.info().unwrap().block_elements {
        1 => vec![1, 3, 33, 70, 256],
        32 => vec![32, 64, 96, 544],
        // The last is long enough for bands of several tiles.
        _ => vec![256, 512, 768, 2304],
    }
}
