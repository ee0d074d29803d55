//! Matrices times rows: a few as they are, many on tensor cores.

use super::product::{self, MOST_PARTS, Mode, Piece};
use crate::device::Matrix;
use crate::driver::{Buffer, Launch};
use crate::parameters::{self, Part};
use crate::session::compile::{Compiler, Source};
use crate::session::step::{self, Node, Step, index, short};
use apr_sdk::{Columns, Result, RowsOf, WeightPart};
use std::sync::Arc;

/// Rows and tokens of a tile on tensor cores, and of a large one.
const TILES: [usize; 2] = [64, 128];
/// With fewer large tiles, small ones keep more of the device busy.
const LARGE_TILES: usize = 96;
/// Columns that are taken at a time on tensor cores.
const DEPTH: usize = 32;
/// Small tiles that keep a device busy: with fewer, columns are split among blocks.
const BUSY_TILES: usize = 528;
/// Depths that a split has at least, so that its work outweighs adding it up, and splits at most.
const SPLIT_DEPTHS: usize = 4;
const MOST_SPLITS: usize = 16;
/// Bytes that all splits of a product leave at most.
pub(crate) const SUMS_BYTES: usize = BUSY_TILES * TILES[0] * TILES[0] * 4;
/// Bytes of the record of 32 activations.
const RECORD: u64 = 8;
/// BF16 of an activation at most.
const MOST_CUTS: usize = 3;

/// Rounds rows for the matrices that follow, or pads them.
pub(crate) struct Fill {
    /// Where they go.
    pub(crate) slot: usize,
    /// What is rounded.
    pub(crate) x: Columns,
    /// How many rows of activations each row makes.
    pub(crate) parts: usize,
    /// Columns of each.
    pub(crate) columns: usize,
}

impl Node for Fill {
    fn launch(&self, step: &Step<'_>, out: &mut Vec<Launch>) {
        let all = step.count(self.x.rows);
        if !step.needs(self.slot, self.x.rows) {
            return;
        }
        let (x, slot, to) = (step.place(&self.x), &step.plan.slots[self.slot], step.slot(self.slot));
        let (columns, parts) = (short(self.columns), short(self.parts));
        // In pieces, for a launch has at most so many rows.
        let most = (super::MOST_LAUNCHED / self.parts).max(1);
        for first in (0..all).step_by(most) {
            let rows = (all - first).min(most) * self.parts;
            let grid = |elements| [slot.columns.div_ceil(elements), rows, 1];
            let x_at = x.at + first as u64 * u64::from(x.stride) * 4;
            // Columns before this piece's.
            let before = (first * self.parts * slot.columns) as u64;
            out.push(if slot.is_rounded {
                let codes = to.codes + before;
                let records = to.records + before / 32 * RECORD;
                let to = parameters::Rounded { codes, records, ..to };
                let parameters =
                    parameters::Quantize { x: x_at, to, x_stride: x.stride, columns, parts, pad: 0 };
                // A thread takes four elements.
                step::launch(("rows", "quantize"), grid(4 * 128), 128, &parameters)
            } else {
                let (to, to_stride) = (to.codes + before * 4, short(slot.columns));
                let parameters =
                    parameters::Pad { x: x_at, to, x_stride: x.stride, columns, parts, to_stride };
                step::launch(("rows", "pad"), grid(super::THREADS), super::THREADS, &parameters)
            });
        }
    }
}

/// Some rows of a matrix.
struct Rows {
    matrix: Arc<Matrix>,
    first: usize,
    source: Source,
    bias: Option<Arc<Buffer>>,
    out: Columns,
}

struct Linear {
    x: Columns,
    parts: Vec<Rows>,
    residual: Option<Columns>,
    scale: f32,
    rows: RowsOf,
}

pub(super) fn compile(operation: &apr_sdk::Linear, compiler: &mut Compiler<'_>) -> Result<()> {
    let x = compiler.columns(&operation.x);
    let parts = operation.parts.iter().map(|part| rows(part, &x, compiler)).collect::<Result<Vec<_>>>()?;
    let residual = operation.residual.as_ref().map(|residual| compiler.columns(residual));
    parts.iter().for_each(|part| compiler.written(&part.out));
    let linear = Linear { x, parts, residual, scale: operation.scale, rows: x.rows };
    let cut_bytes = linear.wide() * MOST_CUTS * 2;
    compiler.plan.cut_bytes = compiler.plan.cut_bytes.max(cut_bytes);
    compiler.push(linear);
    Ok(())
}

/// Rows of a matrix over the input `x`.
fn rows(part: &WeightPart, x: &Columns, compiler: &mut Compiler<'_>) -> Result<Rows> {
    let matrix = compiler.matrix(part.weight);
    let bias = part.bias.map(|bias| compiler.floats(bias)).transpose()?;
    let source = compiler.activations(x, 1, &matrix, false);
    Ok(Rows { matrix, first: index(part.first_row), source, bias, out: compiler.columns(&part.out) })
}

impl Linear {
    /// Columns as they are cut for tensor cores.
    fn wide(&self) -> usize {
        self.x.width.next_multiple_of(DEPTH)
    }

    /// Cuts the activations for tensor cores.
    fn cut(&self, step: &Step<'_>, parts: usize, tokens: usize) -> Launch {
        let (x, wide) = (step.place(&self.x), self.wide());
        let parameters = parameters::Cut {
            x: x.at,
            to: step.cut,
            x_stride: x.stride,
            columns: x.width,
            wide: short(wide),
            tokens: short(tokens),
            parts: short(parts),
            pad: 0,
        };
        // A thread takes eight elements.
        step::launch(("matmul", "cut"), [wide.div_ceil(8 * 128), tokens, 1], 128, &parameters)
    }

    /// The kernels of one part on tensor cores.
    fn many(&self, step: &Step<'_>, part: &Rows, tokens: usize, launches: &mut Vec<Launch>) {
        let (out, layout) = (step.place(&part.out), &part.matrix.layout);
        let residual = step.place_or_none(self.residual.as_ref());
        let rows = part.out.width;
        let [mut small, large] = TILES.map(|tile| [rows.div_ceil(tile), tokens.div_ceil(tile), 1]);
        let large_kernel = layout.of.matmul_large.filter(|_| large[0] * large[1] >= LARGE_TILES);
        let depths = layout.columns.div_ceil(DEPTH);
        let splits = if large_kernel.is_some() { 1 } else { splits(small[0] * small[1], depths) };
        // The last split may have fewer depths, but none has no depth.
        let split_depths = depths.div_ceil(splits);
        small[2] = depths.div_ceil(split_depths);
        let parameters = parameters::Matmul {
            weights: part.matrix.at(),
            bias: part.bias.as_ref().map_or(0, |bias| bias.at()),
            out: out.at,
            residual: residual.at,
            x: step.cut,
            partials: step.sums,
            kind: layout.of.number,
            row_bytes: short(layout.row),
            rows: short(rows),
            columns: short(layout.columns),
            tokens: short(tokens),
            x_stride: short(self.wide()),
            out_stride: out.stride,
            residual_stride: residual.stride,
            first_row: short(part.first),
            split_columns: short(split_depths * DEPTH),
            splits: short(small[2]),
            scale: self.scale,
        };
        match large_kernel {
            Some(kernel) => launches.push(step::launch(("matmul", kernel), large, 256, &parameters)),
            None => launches.push(step::launch(("matmul", layout.of.matmul), small, 128, &parameters)),
        }
        if parameters.splits > 1 {
            let grid = [rows.div_ceil(256), tokens, 1];
            launches.push(step::launch(("matmul", "matmul_sum"), grid, 256, &parameters));
        }
    }
}

/// Among how many blocks the columns of a tile are split.
fn splits(tiles: usize, depths: usize) -> usize {
    (BUSY_TILES / tiles.max(1)).min(depths / SPLIT_DEPTHS).clamp(1, MOST_SPLITS)
}

impl Node for Linear {
    fn launch(&self, step: &Step<'_>, out: &mut Vec<Launch>) {
        let tokens = step.count(self.rows);
        if step.is_many(tokens) {
            // Parts of an activation that weights of blocks do not need are made if others do.
            let is_cut_once = self.parts.iter().all(|part| part.matrix.layout.of.is_blocks);
            out.push(self.cut(step, if is_cut_once { 2 } else { MOST_CUTS }, tokens));
            self.parts.iter().for_each(|part| self.many(step, part, tokens, out));
            return;
        }
        let residual = step.place_or_none(self.residual.as_ref());
        let alike = |a: &Rows, b: &Rows| {
            a.source == b.source && product::joins(a.matrix.layout.of, b.matrix.layout.of)
        };
        for parts in self.parts.chunk_by(alike).flat_map(|parts| parts.chunks(MOST_PARTS)) {
            let pieces: Vec<Piece<'_>> = parts
                .iter()
                .map(|part| {
                    let (to, row) = (step.place(&part.out), part.matrix.layout.row);
                    let part_of = Part {
                        weights: part.matrix.at() + (part.first * row) as u64,
                        bias: part.bias.as_ref().map_or(0, |bias| bias.at()),
                        out: to.at,
                        row_bytes: short(row),
                        rows: to.width,
                        out_stride: to.stride,
                        ..Default::default()
                    };
                    Piece { matrix: &part.matrix, part: part_of }
                })
                .collect();
            product::launch(
                step,
                &pieces,
                (parts[0].source, tokens),
                (self.scale, residual),
                Mode::Plain,
                out,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_split_where_there_are_few_tiles() {
        assert_eq!((splits(24, 280), splits(192, 280), splits(4, 48), splits(600, 280)), (16, 2, 12, 1));
        assert_eq!((splits(1, 1), splits(0, 3), splits(300, 280)), (1, 1, 1));
        // All that splits leave fits.
        assert!((1..=BUSY_TILES).all(|tiles| tiles * splits(tiles, 1000) <= BUSY_TILES));
    }
}
