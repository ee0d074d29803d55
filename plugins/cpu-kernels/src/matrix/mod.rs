//! Matrices in their images, and their products with rows of activations.

#![allow(unsafe_code, reason = "kernels read what is checked here, once for each product")]

mod activations;
mod kernels;
mod lanes;
mod layout;
mod types;

pub use activations::{Activations, Rounding};

use crate::level::Level;
use apr_sdk::{Error, ImageMemory, ImageSink, ImageSpec, MatrixSpec, Result, Rows, RowsSink};
use kernels::Job;
use layout::ROWS;
use std::ops::Range;
use types::Type;

/// Bytes of plain rows that are copied at once.
const PANEL: usize = 1 << 20;

/// A matrix in its image.
pub struct Matrix {
    spec: MatrixSpec,
    of: &'static Type,
    shape: Shape,
    image: Box<dyn ImageMemory>,
}

/// A matrix's measures in this machine's numbers.
#[derive(Clone, Copy, Debug)]
struct Shape {
    rows: usize,
    columns: usize,
    row_bytes: usize,
    /// Rows that lie together: one if there is but one.
    band: usize,
}

impl Shape {
    fn of(spec: &MatrixSpec) -> Result<Shape> {
        let number = |number: u64| {
            usize::try_from(number).ok().filter(|number| number.checked_mul(2 * ROWS).is_some()).ok_or_else(
                || {
                    Error::limit(format!(
                        "a matrix of {} bytes does not fit in this machine's memory",
                        spec.bytes()
                    ))
                },
            )
        };
        number(spec.bytes())?;
        let (rows, columns) = (number(spec.rows())?, number(spec.columns())?);
        let row_bytes = number(spec.row_bytes())?;
        let tiles = types::of(spec.dtype())?.layout.tiles_of_a_band(row_bytes);
        Ok(Shape { rows, columns, row_bytes, band: if rows == 1 { 1 } else { tiles * ROWS } })
    }

    /// Rows that the image has room for.
    fn padded(&self) -> usize {
        if self.rows == 1 { 1 } else { self.rows.next_multiple_of(ROWS) }
    }

    fn image_bytes(&self) -> usize {
        self.padded() * self.row_bytes
    }

    /// Where the bands of some rows lie in the image.
    fn bands(&self, rows: Range<usize>) -> Range<usize> {
        let end = rows.end.next_multiple_of(self.band).min(self.padded());
        rows.start / self.band * self.band * self.row_bytes..end * self.row_bytes
    }

    /// Rows that are copied at once: whole bands.
    fn panel(&self) -> usize {
        (PANEL / self.row_bytes / self.band * self.band).max(self.band)
    }
}

impl Matrix {
    /// Which types there are.
    #[cfg(test)]
    pub fn dtypes() -> impl Iterator<Item = apr_sdk::DType> {
        types::TYPES.iter().map(|of| of.dtype)
    }

    /// How a matrix lies in memory.
    ///
    /// # Errors
    /// Unsupported for a type that is not there; LimitExceeded if it is beyond this machine's numbers.
    pub fn image(spec: &MatrixSpec) -> Result<ImageSpec> {
        let of = types::of(spec.dtype())?;
        let bytes = u64::try_from(Shape::of(spec)?.image_bytes()).unwrap_or(u64::MAX);
        Ok(ImageSpec { bytes, layout: of.id.to_owned() })
    }

    /// Makes the image of plain rows.
    ///
    /// # Errors
    /// As [`Matrix::image`], and those of `rows` and `sink`.
    pub fn prepare(spec: &MatrixSpec, rows: &dyn Rows, sink: &mut dyn ImageSink) -> Result<Matrix> {
        let bytes = Matrix::image(spec)?.bytes;
        let mut matrix = Matrix::adopt(spec, sink.memory(bytes)?)?;
        let shape = matrix.shape;
        let image = matrix.image.bytes_mut()?;
        if shape.rows == 1 {
            rows.read(0, &mut image[..shape.row_bytes])?;
            return Ok(matrix);
        }
        let panel = shape.panel();
        let mut plain = vec![0; panel.min(shape.rows) * shape.row_bytes];
        for first in (0..shape.rows).step_by(panel) {
            let plain = &mut plain[..panel.min(shape.rows - first) * shape.row_bytes];
            rows.read(u64::try_from(first).unwrap_or(u64::MAX), plain)?;
            let band = shape.band * shape.row_bytes;
            let places = image[first * shape.row_bytes..].chunks_mut(band);
            for (plain, place) in plain.chunks(band).zip(places) {
                matrix.of.layout.scatter(plain, shape.row_bytes, place);
            }
        }
        Ok(matrix)
    }

    /// Takes an image that was prepared before.
    ///
    /// # Errors
    /// As [`Matrix::image`]; InvalidArgument if it has another length.
    pub fn adopt(spec: &MatrixSpec, image: Box<dyn ImageMemory>) -> Result<Matrix> {
        let (of, shape) = (types::of(spec.dtype())?, Shape::of(spec)?);
        let (is, expected) = (image.bytes().len(), shape.image_bytes());
        if is != expected {
            return Err(Error::invalid_argument(format!(
                "the image of a matrix of {} x {} in {} has {is} bytes, expected {expected}",
                shape.rows,
                shape.columns,
                spec.dtype()
            )));
        }
        Ok(Matrix { spec: *spec, of, shape, image })
    }

    /// Gives back the plain rows, bit for bit.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn export(&self, out: &mut dyn RowsSink) -> Result<()> {
        let shape = self.shape;
        let panel = shape.panel();
        let mut plain = vec![0; panel.min(shape.rows) * shape.row_bytes];
        for first in (0..shape.rows).step_by(panel) {
            let plain = &mut plain[..panel.min(shape.rows - first) * shape.row_bytes];
            for (row, plain) in plain.chunks_exact_mut(shape.row_bytes).enumerate() {
                self.plain_row(first + row, plain);
            }
            out.rows(plain)?;
        }
        Ok(())
    }

    /// What the matrix is.
    pub fn spec(&self) -> &MatrixSpec {
        &self.spec
    }

    /// What multiplying makes of activations.
    pub fn rounding(&self) -> Rounding {
        self.of.rounding
    }

    /// Decodes a row.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.shape.rows && out.len() == self.shape.columns, "matrix row out of range");
        let mut plain = vec![0; self.shape.row_bytes];
        self.plain_row(row, &mut plain);
        let layout = &self.of.layout;
        for (block, out) in plain.chunks_exact(layout.bytes).zip(out.chunks_exact_mut(layout.elements)) {
            (self.of.decode)(block, out);
        }
    }

    fn plain_row(&self, row: usize, plain: &mut [u8]) {
        let shape = self.shape;
        let band = &self.image.bytes()[shape.bands(row..row + 1)];
        if shape.rows == 1 {
            plain.copy_from_slice(band);
        } else {
            self.of.layout.gather(band, row % shape.band, plain);
        }
    }

    /// Multiplies `rows` with each of `tokens` of `x`, and calls `give(token, first row, products)` for each token and
    /// each run of up to 16 rows. Begins to load `ahead`, what this thread reads next, before it ends.
    ///
    /// A product depends on nothing but its row and its token: neither on the other rows and tokens nor on the level.
    pub fn multiply(
        &self,
        level: Level,
        rows: Range<usize>,
        x: &Activations,
        tokens: Range<usize>,
        ahead: Option<&[u8]>,
        give: &mut dyn FnMut(usize, usize, &[f32]),
    ) {
        let shape = self.shape;
        assert!(
            rows.end <= shape.rows && tokens.end <= x.tokens(),
            "a product is out of range of a matrix or its activations"
        );
        assert!(
            x.columns() == shape.columns && x.rounding() == self.of.rounding,
            "the activations belong to a different matrix"
        );
        if rows.is_empty() || tokens.is_empty() {
            return;
        }
        let mut alone: Vec<u8>;
        let mut image = self.image.bytes();
        assert_eq!(image.len(), shape.image_bytes(), "the length of an image has changed");
        if shape.rows == 1 {
            // Vectors are seldom multiplied: a tile is made for the occasion.
            alone = vec![0; ROWS * shape.row_bytes];
            self.of.layout.scatter(image, shape.row_bytes, &mut alone);
            image = &alone;
        }
        let (x, stride) = x.memory();
        let (tile_bytes, columns) = (ROWS * shape.row_bytes, shape.columns);
        let band = shape.band.div_ceil(ROWS);
        let job = Job { image, tile_bytes, band, columns, rows, x, stride, tokens, ahead };
        // SAFETY: rows and tokens lie within the image and the activations, whose columns and rounding are those of this
        // type: all that was compared above. Nobody fills the tokens meanwhile: the contract of `fill`.
        unsafe { self.of.kernels.run(level, &job, give) };
    }

    /// Rows that are read best by one thread: those of a tile, or of all tiles that lie together.
    pub fn band(&self) -> usize {
        self.shape.band.max(ROWS)
    }

    /// The image of rows, whole bands.
    pub fn bytes_of_rows(&self, rows: Range<usize>) -> &[u8] {
        &self.image.bytes()[self.shape.bands(rows)]
    }
}

#[cfg(test)]
mod tests;
