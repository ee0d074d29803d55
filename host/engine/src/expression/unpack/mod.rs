//! Packed weights as if they were stored row by row: in F32, or as blocks that hold the same values. A leaf: any box
//! of rows is computed from the parts' bytes.

pub(super) mod packed_weights;
mod panel;
mod transposition;

pub use packed_weights::Packed;
pub use panel::{Panel, Panels, part_bytes};

use super::region::{Region, place_in};
use super::source::{Source, Storage, unit};
use super::{Expression, TILE};
use crate::values::usize_of;
use apr_sdk::{DType, Error, Extent, HeldRows, PackedWeight, Quantizer, Result};
use std::ops::Range;
use std::sync::Arc;
use transposition::Transposed;

/// All of a packed weight, tensor number `number` of the source, as its own type.
pub(super) fn of(number: usize, weight: &Arc<PackedWeight>, dtype: DType) -> Result<Expression> {
    let tensor = &weight.tensor;
    let elements = tensor.rows.rows.checked_mul(tensor.rows.row_len).and_then(|n| n.checked_mul(4));
    let len = elements.ok_or_else(|| Error::limit("its element count overflows"))?;
    let unit = weight.schemes()?.column_unit(&tensor.rows);
    let column_unit = unit.map_err(|error| error.tensor(&tensor.name))?;
    let weight = Arc::clone(weight);
    let storage = Storage::Packed(Packed { weight, decoder: None, is_factored: false, column_unit });
    let leaf = Expression::Source(Source { tensor: Some(number), dtype: DType::F32, len, storage });
    let values = match tensor.strides.is_empty() {
        true => leaf,
        false => {
            let dims: Vec<_> = tensor.shape.iter().copied().zip(tensor.strides.iter().copied()).collect();
            Region::over(leaf, 0, &dims)?
        }
    };
    Ok(values.cast(dtype))
}

/// The most stored bytes that the panels of all threads hold together, about.
const MOST_PANELS: u64 = 64 << 20;

/// Some units of a packed weight, in row-major order.
#[derive(Clone, Debug)]
pub struct Unpack<'e> {
    /// The weight.
    pub of: &'e Packed,
    /// The type that its rows become.
    pub dtype: DType,
    /// Index of the first unit.
    pub start: u64,
    /// Size and stride of each dimension in units, outermost first.
    pub dims: Vec<(u64, u64)>,
}

/// Elements that a stretch of a row needs for it to be worth unpacking the row for it: an eighth.
const WORTH: u64 = 8;

impl Unpack<'_> {
    /// Elements, and bytes, of a unit: an element, or a block.
    fn unit(&self) -> (u64, u64) {
        let info = unit(self.dtype).ok();
        info.map_or((1, 4), |info| (u64::from(info.block_elements), u64::from(info.block_bytes)))
    }

    /// Units per row.
    fn row_units(&self) -> u64 {
        (self.of.weight.tensor.rows.row_len / self.unit().0).max(1)
    }

    /// Returns whether every run of the box is a good part of a row, or several rows.
    fn is_in_rows(&self) -> bool {
        match self.dims.last() {
            None => self.row_units() <= WORTH,
            Some(&(size, stride)) => stride == 1 && size.saturating_mul(WORTH) >= self.row_units(),
        }
    }

    /// Returns whether it can be read in order without unpacking rows again and again.
    pub fn is_ascending(&self) -> bool {
        self.is_in_rows() || Transposed::of(self).is_some()
    }

    /// Rows in a tile.
    fn tile_rows(&self) -> u64 {
        (TILE / (self.of.weight.tensor.rows.row_len.max(1) * 4)).max(1)
    }

    /// Rows that are read together.
    fn panel_rows(&self) -> u64 {
        self.of.weight.tensor.panel.max(self.tile_rows())
    }

    /// Tiles of a panel, and its stored bytes.
    fn panel(&self) -> (u64, u64) {
        match Transposed::of(self) {
            Some(transposed) => (transposed.tiles(), transposed.held()),
            None => {
                let rows = self.panel_rows().min(self.of.weight.tensor.rows.rows.max(1));
                (rows.div_ceil(self.tile_rows()), self.of.weight.stored_len(rows))
            }
        }
    }

    /// Number of tiles that a thread computes one after the other if there are `threads` threads: all those of a panel; or
    /// fewer, so that several threads share each panel, where one panel for each thread would take too much memory.
    pub fn together(&self, threads: usize) -> usize {
        let (tiles, held) = self.panel();
        let sharers = held.saturating_mul(threads as u64).div_ceil(MOST_PANELS).max(1);
        usize::try_from(tiles.div_ceil(sharers)).unwrap_or(1).max(1)
    }

    /// The stored bytes that `threads` threads hold together.
    pub fn held_by(&self, threads: usize) -> u64 {
        let (tiles, held) = self.panel();
        let units = tiles.div_ceil(self.together(threads) as u64).max(1);
        let threads = threads.max(1) as u64;
        // While some threads are still at the end of a panel, others have begun the next one.
        held.saturating_mul((threads.div_ceil(units) + 1).min(threads))
    }

    /// Bytes per tile: whole rows of what is stored, or of what it becomes.
    pub fn tile_len(&self) -> u64 {
        if let Some(transposed) = Transposed::of(self) {
            return transposed.tile_len();
        }
        self.tile_rows() * self.row_units() * self.unit().1
    }

    /// The most memory that a thread needs besides the stored bytes that it may share, in bytes: a tile's values are held twice.
    pub fn memory(&self) -> u64 {
        if let Some(transposed) = Transposed::of(self) {
            return transposed.memory();
        }
        let row = self.of.weight.tensor.rows.row_len.saturating_mul(4);
        self.tile_rows().saturating_mul(row).saturating_mul(2).saturating_add(TILE)
    }

    /// Fills `out` with the bytes at offset `at`, whole units.
    ///
    /// # Errors
    /// Any error from reading and the scheme; Failed for blocks with other values.
    pub fn fill(
        &self,
        read: &dyn Fn(Extent, &mut [u8]) -> Result<()>,
        at: u64,
        out: &mut [u8],
        panel: &mut Panel,
    ) -> Result<()> {
        if let Some(transposed) = Transposed::of(self) {
            return transposed.fill(read, at, out, panel);
        }
        let each = self.unit().1;
        let (inner, outer) = match self.dims.split_last() {
            Some((&(size, 1), outer)) => (size, outer),
            _ => (1, &self.dims[..]),
        };
        if inner == 1 && !self.is_in_rows() {
            return self.scattered(read, at / each, out, panel);
        }
        let mut done = at / each;
        let mut rest = out;
        while !rest.is_empty() {
            let begin = place_in(self.start + done % inner, outer, done / inner);
            let units = (inner - done % inner).min(rest.len() as u64 / each).max(1);
            let (now, later) = rest.split_at_mut(usize_of(units * each).min(rest.len()));
            self.run(read, begin, now, panel)?;
            done += units;
            rest = later;
        }
        Ok(())
    }

    /// Fills `out` with consecutive units from unit `begin` on.
    fn run(
        &self,
        read: &dyn Fn(Extent, &mut [u8]) -> Result<()>,
        begin: u64,
        out: &mut [u8],
        panel: &mut Panel,
    ) -> Result<()> {
        let of_row = self.row_units();
        let each = self.unit().1;
        let end = begin + out.len() as u64 / each;
        let rows = begin / of_row..end.div_ceil(of_row);
        if begin.is_multiple_of(of_row) && end.is_multiple_of(of_row) {
            return self.rows(read, rows, out, panel);
        }
        let mut whole = vec![0; usize_of((rows.end - rows.start) * of_row * each)];
        self.rows(read, rows.clone(), &mut whole, panel)?;
        let from = usize_of((begin - rows.start * of_row) * each);
        let part = whole
            .get(from..from + out.len())
            .ok_or_else(|| Error::plugin("the buffer for the rows is too short"))?;
        out.copy_from_slice(part);
        Ok(())
    }

    /// Fills `out` with units that lie one here, one there: each row is unpacked once.
    fn scattered(
        &self,
        read: &dyn Fn(Extent, &mut [u8]) -> Result<()>,
        first: u64,
        out: &mut [u8],
        panel: &mut Panel,
    ) -> Result<()> {
        let of_row = self.row_units();
        let each = usize_of(self.unit().1);
        let wanted =
            (0..out.len() / each).map(|at| (place_in(self.start, &self.dims, first + at as u64), at));
        let mut wanted: Vec<(u64, usize)> = wanted.collect();
        wanted.sort_unstable();
        let mut row = vec![0; usize_of(of_row) * each];
        let mut held = None;
        for (unit, at) in wanted {
            let number = unit / of_row;
            if held != Some(number) {
                self.rows(read, number..number + 1, &mut row, panel)?;
                held = Some(number);
            }
            let from = usize_of(unit % of_row) * each;
            out[at * each..][..each].copy_from_slice(&row[from..from + each]);
        }
        Ok(())
    }

    /// Fills `out` with whole rows, a tile's worth at a time.
    fn rows(
        &self,
        read: &dyn Fn(Extent, &mut [u8]) -> Result<()>,
        rows: Range<u64>,
        out: &mut [u8],
        panel: &mut Panel,
    ) -> Result<()> {
        let step = self.tile_rows();
        let row_bytes = usize_of(self.row_units() * self.unit().1);
        let all_rows = self.of.weight.tensor.rows.rows;
        let together = self.panel_rows();
        let mut at = rows.start;
        let mut rest = out;
        while !rest.is_empty() {
            // Not across the border of panels: both would be read once more.
            let panel_end = (at / together + 1).saturating_mul(together);
            let end = (at + step).min(rows.end).min(panel_end);
            let (now, later) = rest.split_at_mut((usize_of(end - at) * row_bytes).min(rest.len()));
            let all = panel_end - together..panel_end.min(all_rows);
            panel.hold(read, &self.of.weight, &(at..end), &all, together > step)?;
            self.unpack(at..end, now, panel)?;
            at = end;
            rest = later;
        }
        Ok(())
    }

    /// An error about the weight, unless it is about one of its parts.
    fn of_weight(&self, error: Error) -> Error {
        error.tensor(&self.of.weight.tensor.name)
    }

    /// Turns rows that are held into what they become.
    fn unpack(&self, rows: Range<u64>, out: &mut [u8], panel: &mut Panel) -> Result<()> {
        let weight = &self.of.weight;
        let schemes = weight.schemes()?;
        let packed = self.of.rows();
        let (rows_held, parts) = panel.held();
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_slice()).collect();
        let held = HeldRows { rows: rows_held, parts: &parts };
        let Panel { values, again, .. } = panel;
        let Some(decoder) = &self.of.decoder else {
            if let Ok(out) = bytemuck::try_cast_slice_mut(out) {
                return schemes.unpack(packed, &held, rows, out).map_err(|error| self.of_weight(error));
            }
            values.resize(out.len() / 4, 0.0);
            schemes.unpack(packed, &held, rows, values).map_err(|error| self.of_weight(error))?;
            out.copy_from_slice(bytemuck::cast_slice(values));
            return Ok(());
        };
        let elements = usize_of((rows.end - rows.start) * packed.row_len);
        values.resize(elements, 0.0);
        again.resize(elements, 0.0);
        let unpacked = schemes.unpack(packed, &held, rows.clone(), values);
        unpacked.map_err(|error| self.of_weight(error))?;
        let repacked = schemes.repack(packed, &held, rows.clone(), self.dtype, out);
        repacked.map_err(|error| self.of_weight(error))?;
        decoder.decode(self.dtype, out, packed.row_len, again)?;
        if let Some(at) = first_difference(values, again) {
            let row = rows.start + at as u64 / packed.row_len.max(1);
            let message = format!(
                "row {row} cannot be represented exactly as {}: {:e} would become {:e}",
                self.dtype, values[at], again[at]
            );
            let error = Error::failed(message).tensor(&weight.tensor.name);
            return Err(error.hint("pass --dequantize TYPE to write its true values"));
        }
        Ok(())
    }
}

/// Index of the first of two values that differ.
fn first_difference(values: &[f32], again: &[f32]) -> Option<usize> {
    const RUN: usize = 1024;
    // Without a way out in between, a run is compared in vectors.
    let mut runs = values.chunks(RUN).zip(again.chunks(RUN));
    let run = runs.position(|(a, b)| a.iter().zip(b).fold(false, |any, (a, b)| any | (a != b)))? * RUN;
    let at = values[run..].iter().zip(&again[run..]).position(|(a, b)| a != b)?;
    Some(run + at)
}

/// So many units in blocks, if they are whole ones.
fn in_blocks(units: u64, block: u64) -> Option<u64> {
    units.is_multiple_of(block).then(|| units / block)
}

impl Expression {
    /// The packed weight that its values come from; for an expression other than a `Concat`.
    pub fn packed(&self) -> Option<&Packed> {
        match self.leaf() {
            Expression::Region(region) => region.of.packed(),
            Expression::Spool(spool) => spool.of.parts().first()?.packed(),
            Expression::Source(Source { storage: Storage::Packed(packed), .. }) => Some(packed),
            _ => None,
        }
    }

    /// The same rows as blocks of `to`, which a scheme says hold the same values; `None` if parts of rows or of blocks
    /// are wanted, or something else than packed rows. With `is_factored`, they hold them but for the weights' factors.
    pub fn repacked_from(
        &self,
        to: DType,
        decoder: &Arc<dyn Quantizer>,
        is_factored: bool,
    ) -> Option<Expression> {
        let values = match self {
            Expression::Concat(parts) => {
                let parts = parts.iter().map(|part| part.repacked_from(to, decoder, is_factored));
                return parts.collect::<Option<_>>().map(Expression::Concat);
            }
            Expression::Cast(cast) => &cast.of,
            other => other,
        };
        let block = u64::from(unit(to).ok()?.block_elements);
        match values {
            Expression::Source(source) => repacked(source, to, decoder, is_factored).map(Expression::Source),
            Expression::Region(region) => {
                let Expression::Source(source) = &region.of else { return None };
                let source = repacked(source, to, decoder, is_factored)?;
                let Some((&(run, 1), outer)) = region.dims.split_last() else { return None };
                let mut dims = Vec::with_capacity(region.dims.len());
                for &(size, stride) in outer {
                    dims.push((size, in_blocks(stride, block)?));
                }
                dims.push((in_blocks(run, block)?, 1));
                Region::over(Expression::Source(source), in_blocks(region.start, block)?, &dims).ok()
            }
            _ => None,
        }
    }
}

/// All rows of a packed source as blocks of `to`.
fn repacked(source: &Source, to: DType, decoder: &Arc<dyn Quantizer>, is_factored: bool) -> Option<Source> {
    let Storage::Packed(packed) = &source.storage else { return None };
    let rows = &packed.weight.tensor.rows;
    let len = apr_sdk::checked_payload_len(to, &[rows.rows, rows.row_len]).ok()?;
    let weight = Arc::clone(&packed.weight);
    // Blocks are made of whole rows.
    let packed = Packed { weight, decoder: Some(Arc::clone(decoder)), is_factored, column_unit: 0 };
    Some(Source { tensor: source.tensor, dtype: to, len, storage: Storage::Packed(packed) })
}
