//! Matrices times rows. Workers take runs of whole tiles, balanced by bytes over all matrices of an operation.

use crate::matrix::Matrix;
use crate::session::compile::Compiler;
use crate::session::step::{Division, Step, Task, index};
use apr_sdk::{Columns, Result, RowsOf, WeightPart};
use std::ops::Range;
use std::sync::Arc;

/// Rows of a tile.
const TILE: usize = 16;

/// With at least this many bands per worker, bands are not split into tiles: one band more or less hardly matters.
const BANDS: usize = 8;

/// Rounds rows for the matrices that follow.
pub(crate) struct Fill {
    /// Where they go.
    pub(crate) slot: usize,
    /// What is rounded.
    pub(crate) x: Columns,
    /// How many rows of activations each row makes; those of the first part come first.
    pub(crate) parts: usize,
}

/// Some rows of a matrix.
pub(super) struct Piece {
    pub(super) matrix: Arc<Matrix>,
    /// Which rows.
    pub(super) rows: Range<usize>,
    /// Where the activations are.
    pub(super) slot: usize,
    /// What is added, indexed as the result.
    pub(super) bias: Option<Arc<[f32]>>,
    /// Where the result goes.
    pub(super) out: Columns,
}

/// A linear operation.
pub(crate) struct Linear {
    pieces: Vec<Piece>,
    residual: Option<Columns>,
    scale: f32,
    rows: RowsOf,
    /// Its place among all linear operations.
    number: usize,
}

pub(super) fn compile(operation: &apr_sdk::Linear, compiler: &mut Compiler<'_>) {
    let x = compiler.columns(&operation.x);
    let pieces: Vec<Piece> = operation.parts.iter().map(|part| piece(part, &x, compiler)).collect();
    let residual = operation.residual.as_ref().map(|residual| compiler.columns(residual));
    pieces.iter().for_each(|piece| compiler.written(&piece.out));
    let number = compiler.plan.linears.len();
    let linear = Arc::new(Linear { pieces, residual, scale: operation.scale, rows: x.rows, number });
    compiler.plan.linears.push(Arc::clone(&linear));
    compiler.push(linear);
}

/// A part over the input `x`.
fn piece(part: &WeightPart, x: &Columns, compiler: &mut Compiler<'_>) -> Piece {
    let matrix = compiler.matrix(part.weight);
    let out = compiler.columns(&part.out);
    let first = index(part.first_row);
    let bias = part.bias.map(|bias| compiler.floats(bias));
    let slot = compiler.rounded(x, 1, matrix.rounding());
    Piece { matrix, rows: first..first + out.width, slot, bias, out }
}

/// Rows of a matrix that are divided among workers.
#[derive(Clone)]
pub(super) struct Divided {
    rows: Range<usize>,
    /// Rows that stay together.
    unit: usize,
    /// How heavy these are.
    weight: usize,
}

impl Divided {
    /// Rows that cost `times` what reading them costs. They are divided into bands of the matrix, or into tiles where so few
    /// bands would leave workers idle.
    pub(super) fn new(matrix: &Matrix, rows: Range<usize>, times: usize, workers: usize) -> Divided {
        let unit = if rows.len() / matrix.band() < BANDS * workers { TILE } else { matrix.band() };
        Divided { rows, unit, weight: row_bytes(matrix).saturating_mul(unit).saturating_mul(times) }
    }

    /// The numbers of the units.
    fn units(&self) -> Range<usize> {
        self.rows.start / self.unit..self.rows.end.div_ceil(self.unit)
    }
}

/// The rows of one unit after another that a worker takes of each piece.
pub(super) fn runs(
    pieces: impl Iterator<Item = Divided> + Clone,
    worker: usize,
    workers: usize,
) -> impl Iterator<Item = Range<usize>> {
    let total: usize = pieces.clone().map(|piece| piece.units().len() * piece.weight).sum();
    // Wide, for bytes times workers need not fit.
    let bound = |worker: usize| {
        let bound = total as u128 * worker as u128 / workers as u128;
        usize::try_from(bound).unwrap_or(usize::MAX)
    };
    let (from, to) = (bound(worker), bound(worker + 1));
    let mut before = 0;
    pieces.map(move |piece| {
        let (all, rows) = (piece.units(), &piece.rows);
        let at = |bound: usize| {
            let unit = bound.saturating_sub(before).div_ceil(piece.weight).min(all.len());
            ((all.start + unit) * piece.unit).clamp(rows.start, rows.end)
        };
        let run = at(from)..at(to);
        before += all.len() * piece.weight;
        run
    })
}

impl Linear {
    /// The rows of each piece that a worker takes.
    fn runs(&self, worker: usize, workers: usize) -> impl Iterator<Item = (&Piece, Range<usize>)> {
        let divided = self.pieces.iter();
        let divided = divided.map(move |piece| Divided::new(&piece.matrix, piece.rows.clone(), 1, workers));
        self.pieces.iter().zip(runs(divided, worker, workers)).filter(|(_, run)| !run.is_empty())
    }

    /// The first bytes that a worker reads.
    fn first_bytes(&self, worker: usize, workers: usize) -> Option<&[u8]> {
        self.runs(worker, workers).next().map(|(piece, run)| piece.matrix.bytes_of_rows(run))
    }
}

/// The bytes of a plain row.
fn row_bytes(matrix: &Matrix) -> usize {
    usize::try_from(matrix.spec().row_bytes()).unwrap_or(usize::MAX)
}

impl Task for Fill {
    fn division(&self) -> Division {
        Division::Rows(self.x.rows)
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        let activations = &step.activations[self.slot];
        let (count, width) = (step.count(self.x.rows), self.x.width / self.parts);
        for row in step.rows(self.x.rows, worker) {
            for part in 0..self.parts {
                let x = self.x.part(part * width, width);
                // SAFETY: this worker has its rows to itself, and with them their rows of activations.
                unsafe { activations.fill(step.level, part * count + row, step.values.read(&x, row)) };
            }
        }
        Ok(())
    }
}

impl Task for Arc<Linear> {
    fn division(&self) -> Division {
        Division::Other
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        let tokens = 0..step.count(self.rows);
        // After the last comes the first, in the next step.
        let next = step.linears.get(self.number + 1).or(step.linears.first());
        let mut runs = self.runs(worker, step.workers).peekable();
        while let Some((piece, run)) = runs.next() {
            let ahead = match runs.peek() {
                Some((piece, run)) => Some(piece.matrix.bytes_of_rows(run.clone())),
                None => next.and_then(|next| next.first_bytes(worker, step.workers)),
            };
            let activations = &step.activations[piece.slot];
            let mut give = |token: usize, row: usize, products: &[f32]| {
                let first = row - piece.rows.start;
                // Nearly all are whole tiles, whose known length spares calls for each few bytes.
                match <&[f32; TILE]>::try_from(products) {
                    Ok(products) => self.finish(step, piece, token, first, products),
                    Err(_) => self.finish(step, piece, token, first, products),
                }
            };
            piece.matrix.multiply(step.level, run, activations, tokens.clone(), ahead, &mut give);
        }
        Ok(())
    }
}

impl Linear {
    /// Adds bias and residual to some products and puts them in their place.
    #[inline(always)]
    fn finish(&self, step: &Step<'_>, piece: &Piece, token: usize, first: usize, products: &[f32]) {
        let width = products.len();
        let mut sums = [0f32; TILE];
        let sums = &mut sums[..width];
        sums.copy_from_slice(products);
        if let Some(bias) = &piece.bias {
            for (sum, bias) in sums.iter_mut().zip(&bias[first..first + width]) {
                *sum += bias;
            }
        }
        if self.scale.to_bits() != 1f32.to_bits() {
            for sum in sums.iter_mut() {
                *sum *= self.scale;
            }
        }
        if let Some(residual) = &self.residual {
            // SAFETY: this worker has these rows of the matrix to itself, and with them the results' elements, which
            // are the only elements of the residual that are written, if any are.
            let residual = unsafe { step.values.read(&residual.part(first, width), token) };
            for (sum, residual) in sums.iter_mut().zip(residual) {
                *sum += residual;
            }
        }
        // SAFETY: as above.
        unsafe { step.values.write(&piece.out.part(first, width), token) }.copy_from_slice(sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_cover_all_rows_in_whole_units() {
        let piece = |rows, unit, weight| Divided { rows, unit, weight };
        let pieces =
            [piece(0..1536, 16, 144), piece(5..261, 16, 210), piece(0..7, 16, 210), piece(0..700, 64, 50)];
        for workers in 1..6 {
            let mut ends = [0, 5, 0, 0];
            for worker in 0..workers {
                for (piece, run) in runs(pieces.iter().cloned(), worker, workers).enumerate() {
                    let Divided { rows, unit, .. } = &pieces[piece];
                    assert_eq!(run.start, ends[piece]);
                    assert!(run.end == rows.end || run.end % unit == 0 || run.is_empty());
                    ends[piece] = run.end;
                }
            }
            assert_eq!(ends, [1536, 261, 7, 700]);
        }
    }
}
