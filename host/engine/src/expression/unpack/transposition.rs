//! Packed matrices that are transposed on the way: the stored bytes of a matrix are held, and some of its columns are
//! unpacked at a time, so that no row is unpacked twice and nothing is spooled.

use super::{Panel, TILE, Unpack, WORTH};
use crate::expression::region::place_in;
use crate::values::usize_of;
use apr_sdk::{Error, Extent, HeldRows, Result};
use std::ops::Range;

/// The most stored bytes of a matrix that is held. Each thread has one, or shares it with others.
const MOST_HELD: u64 = 16 << 20;

/// The most bytes that the columns of a tile take up in F32.
const MOST_TILE: u64 = 4 * TILE;

/// Bytes of the pieces of rows that are unpacked at a time, in F32: they stay in a core's cache.
const STRIP: u64 = 64 << 10;

/// Rows, and columns, that are transposed together: a line of a cache.
const SQUARE: usize = 16;

/// A box whose neighbouring elements are one below the other in the packed rows.
pub(super) struct Transposed<'u> {
    unpack: &'u Unpack<'u>,
    /// Sizes and strides of the dimensions around a matrix.
    outer: &'u [(u64, u64)],
    /// The columns that are wanted, of every matrix.
    columns: Range<u64>,
    /// Rows that are wanted of each matrix, and the step between them.
    rows: u64,
    step: u64,
    /// Columns of a tile.
    of_tile: u64,
    /// Stored bytes of a matrix.
    held: u64,
    /// Pieces of rows begin and end at multiples of it.
    unit: u64,
}

impl<'u> Transposed<'u> {
    /// The box, if it is of that kind, and the scheme gives pieces of rows.
    pub(super) fn of(unpack: &'u Unpack<'u>) -> Option<Transposed<'u>> {
        let [outer @ .., (n_columns, 1), (rows, stride)] = &unpack.dims[..] else { return None };
        let weight = &unpack.of.weight;
        let packed = unpack.of.rows();
        let row_len = packed.row_len;
        let first = unpack.start.checked_rem(row_len)?;
        let step = stride / row_len;
        let is_in_rows = outer.iter().all(|(_, stride)| stride.is_multiple_of(row_len))
            && stride.is_multiple_of(row_len)
            && first + n_columns <= row_len;
        if unpack.of.decoder.is_some() || !is_in_rows || !(1..=WORTH).contains(&step) {
            return None;
        }
        let held = weight.stored_len(rows.checked_mul(step)?);
        let unit = Some(unpack.of.column_unit).filter(|unit| (1..=row_len).contains(unit))?;
        let column = rows.saturating_mul(4);
        let of_tile = tile(*n_columns, (TILE / column).max(1), unit);
        (held <= MOST_HELD && of_tile.saturating_mul(column) <= MOST_TILE).then_some(Transposed {
            unpack,
            outer,
            columns: first..first + n_columns,
            rows: *rows,
            step,
            of_tile,
            held,
            unit,
        })
    }

    /// Bytes per tile.
    pub(super) fn tile_len(&self) -> u64 {
        self.of_tile * self.rows * 4
    }

    /// Tiles of a matrix.
    pub(super) fn tiles(&self) -> u64 {
        (self.columns.end - self.columns.start).div_ceil(self.of_tile)
    }

    /// Stored bytes of a matrix.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// The most memory that a thread needs besides the stored bytes that it may share.
    pub(super) fn memory(&self) -> u64 {
        2 * STRIP.max(self.unit * 4) + 2 * self.tile_len()
    }

    /// Fills `out` with the bytes at offset `at`, whole elements.
    ///
    /// # Errors
    /// Any error from reading and the scheme.
    pub(super) fn fill(
        &self,
        read: &dyn Fn(Extent, &mut [u8]) -> Result<()>,
        at: u64,
        out: &mut [u8],
        panel: &mut Panel,
    ) -> Result<()> {
        let Ok(out) = bytemuck::try_cast_slice_mut(out) else {
            let mut aligned = vec![0.0; out.len() / 4];
            self.matrices(read, at / 4, &mut aligned, panel)?;
            out.copy_from_slice(bytemuck::cast_slice(&aligned));
            return Ok(());
        };
        self.matrices(read, at / 4, out, panel)
    }

    /// Fills `out` with the elements from number `first` on.
    fn matrices(
        &self,
        read: &dyn Fn(Extent, &mut [u8]) -> Result<()>,
        first: u64,
        out: &mut [f32],
        panel: &mut Panel,
    ) -> Result<()> {
        let packed = self.unpack.of.rows();
        let size = (self.columns.end - self.columns.start) * self.rows;
        let mut at = first;
        let mut rest = out;
        while !rest.is_empty() {
            let row = place_in(self.unpack.start, self.outer, at / size) / packed.row_len;
            let rows = row..row + (self.rows - 1) * self.step + 1;
            panel.hold(read, &self.unpack.of.weight, &rows, &rows, true)?;
            // Columns of a tile at a time.
            let column = at % size / self.rows;
            let end = (column / self.of_tile + 1) * self.of_tile * self.rows;
            let n = usize_of(end.min(size) - at % size).min(rest.len());
            let (now, later) = rest.split_at_mut(n);
            self.some_columns(rows.start, at % size, now, panel)?;
            at += n as u64;
            rest = later;
        }
        Ok(())
    }

    /// Fills `out` with elements of one matrix, whose first row is `row`, from its element `first` on.
    fn some_columns(&self, row: u64, first: u64, out: &mut [f32], panel: &mut Panel) -> Result<()> {
        let packed = self.unpack.of.rows();
        let schemes = self.unpack.of.weight.schemes()?;
        let end = first + out.len() as u64;
        let wanted = first / self.rows..end.div_ceil(self.rows);
        let from = self.columns.start + wanted.start;
        let to = self.columns.start + wanted.end;
        let columns = from / self.unit * self.unit..(to.div_ceil(self.unit) * self.unit).min(packed.row_len);
        let width = columns.end - columns.start;
        let (rows_held, parts) = panel.held();
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_slice()).collect();
        let held = HeldRows { rows: rows_held, parts: &parts };
        let values = &mut panel.values;
        let together = (STRIP / (4 * width) / self.step).max(1);
        let mut done = 0;
        while done < self.rows {
            let n = together.min(self.rows - done);
            let rows = row + done * self.step..row + (done + n - 1) * self.step + 1;
            values.resize(usize_of((rows.end - rows.start) * width), 0.0);
            let unpacked = schemes.unpack_columns(packed, &held, rows, columns.clone(), values);
            unpacked.map_err(|error| self.unpack.of_weight(error))?;
            let strip = Strip {
                values: values.get(usize_of(from - columns.start)..).ok_or_else(no_values)?,
                pitch: usize_of(width * self.step),
                rows: done..done + n,
            };
            strip.turn(&wanted, self.rows, first, out);
            done += n;
        }
        Ok(())
    }
}

/// Columns of a tile: about `most`, as many in every tile of a matrix if that is possible, and whole units.
fn tile(columns: u64, most: u64, unit: u64) -> u64 {
    let most = (most.min(columns.next_multiple_of(unit)) / unit).max(1) * unit;
    let even = (most / 2..=most).rev().find(|n| columns.is_multiple_of(*n) && n.is_multiple_of(unit));
    even.filter(|n| *n > 0).unwrap_or(most)
}

/// Pieces of rows.
struct Strip<'v> {
    /// The first row's piece, and those after it.
    values: &'v [f32],
    /// From a row's piece to the next.
    pitch: usize,
    /// The rows of the matrix that they belong to.
    rows: Range<u64>,
}

impl Strip<'_> {
    /// Puts the pieces, which begin at column `columns.start`, into `out`: elements from number `first` on of the
    /// transposed matrix, whose rows have `row_len` elements.
    fn turn(&self, columns: &Range<u64>, row_len: u64, first: u64, out: &mut [f32]) {
        let n = usize_of(self.rows.end - self.rows.start);
        for some in (columns.start..columns.end).step_by(SQUARE) {
            let some = some..(some + SQUARE as u64).min(columns.end);
            for row in (0..n).step_by(SQUARE) {
                let rows = row..(row + SQUARE).min(n);
                for column in some.clone() {
                    // The first and the last column may be wanted in part.
                    let begin = column * row_len + self.rows.start;
                    let from = begin + rows.start as u64;
                    let cut = usize_of(first.saturating_sub(from)).min(rows.len());
                    let at = usize_of((from + cut as u64).saturating_sub(first)).min(out.len());
                    let to = usize_of((begin + rows.end as u64).saturating_sub(first)).min(out.len()).max(at);
                    let values = (rows.start + cut) * self.pitch + usize_of(column - columns.start);
                    let column = self.values.get(values..).unwrap_or_default().iter().step_by(self.pitch);
                    out[at..to].iter_mut().zip(column).for_each(|(out, value)| *out = *value);
                }
            }
        }
    }
}

fn no_values() -> Error {
    Error::plugin("the buffer for the rows is too short")
}

#[cfg(test)]
mod tests {
    use super::super::Packed;
    use super::*;
    use apr_sdk::{
        DType, PackedRows, PackedTensor, PackedWeight, PartBox, PartRange, Payload, Quantizer, Schemes,
        StoredModel, Tensor, Understood,
    };
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Bytes that stand for themselves; pieces of rows begin at even columns, or nobody knows where.
    struct Bytes {
        is_unsure: bool,
    }

    impl Quantizer for Bytes {
        fn dtypes(&self) -> Result<Vec<DType>> {
            Ok(Vec::new())
        }

        fn schemes(&self) -> Option<&dyn Schemes> {
            Some(self)
        }
    }

    impl Schemes for Bytes {
        fn understand(&self, _: &StoredModel) -> Result<Understood> {
            Ok(Understood::default())
        }

        fn ranges(&self, packed: &PackedRows, rows: Range<u64>) -> Result<Vec<PartRange>> {
            let run = PartBox::run(rows.start * packed.row_len, (rows.end - rows.start) * packed.row_len);
            Ok(vec![PartRange::Boxes(vec![run])])
        }

        fn unpack(&self, _: &PackedRows, _: &HeldRows<'_>, _: Range<u64>, _: &mut [f32]) -> Result<()> {
            Err(Error::plugin("a whole row is unpacked"))
        }

        fn column_unit(&self, _: &PackedRows) -> Result<u64> {
            if self.is_unsure { Err(Error::plugin("nobody knows")) } else { Ok(2) }
        }

        fn unpack_columns(
            &self,
            packed: &PackedRows,
            held: &HeldRows<'_>,
            rows: Range<u64>,
            columns: Range<u64>,
            out: &mut [f32],
        ) -> Result<()> {
            assert!(columns.start.is_multiple_of(2) && columns.end <= packed.row_len);
            assert!(columns.end.is_multiple_of(2) || columns.end == packed.row_len);
            let elements = rows.flat_map(|row| columns.clone().map(move |column| (row, column)));
            for ((row, column), out) in elements.zip(out) {
                let at = (row - held.rows.start) * packed.row_len + column;
                *out = f32::from(held.parts[0][usize_of(at)]);
            }
            Ok(())
        }
    }

    fn weight(rows: u64, row_len: u64) -> Packed {
        let payload = Payload::Extent { extent: Extent::new(0, 0, rows * row_len), view: None };
        let part = Tensor { name: "t".to_owned(), dtype: DType::U8, shape: vec![rows, row_len], payload };
        let tensor = PackedTensor {
            name: "t".to_owned(),
            shape: vec![rows, row_len],
            strides: Vec::new(),
            dtype: DType::BF16,
            about: String::new(),
            rows: PackedRows { scheme: "bytes".to_owned(), numbers: Vec::new(), rows, row_len },
            parts: vec![(0, "codes".to_owned())],
            panel: 1,
            exact: Vec::new(),
        };
        let weight = PackedWeight {
            tensor,
            parts: vec![part],
            factored: None,
            wide_activations: false,
            by: Arc::new(Bytes { is_unsure: false }),
        };
        Packed { weight: Arc::new(weight), decoder: None, is_factored: false, column_unit: 2 }
    }

    #[test]
    fn any_piece_of_transposed_matrices_is_their_elements_in_order() {
        // Three matrices of 70 rows of 37; the last one is cut off.
        let of = weight(210, 37);
        let bytes: Vec<u8> = (0..210 * 37u64).map(|n| (n * 7 % 251) as u8).collect();
        let read = |extent: Extent, out: &mut [u8]| {
            out.copy_from_slice(&bytes[usize_of(extent.offset)..][..out.len()]);
            Ok(())
        };
        let boxes: [(u64, &[(u64, u64)]); 4] = [
            (0, &[(37, 1), (70, 37)]),
            (0, &[(3, 70 * 37), (37, 1), (70, 37)]),
            // Every second row of some columns: gate and up in turn.
            (37 + 5, &[(2, 70 * 37), (20, 1), (35, 74)]),
            (70 * 37 + 3, &[(33, 1), (17, 37)]),
        ];
        for (start, dims) in boxes {
            let unpack = Unpack { of: &of, dtype: DType::F32, start, dims: dims.to_vec() };
            assert!(unpack.is_ascending());
            let n: u64 = dims.iter().map(|(size, _)| size).product();
            let mut want: Vec<f32> = Vec::new();
            for mut number in 0..n {
                let mut at = start;
                for (size, stride) in dims.iter().rev() {
                    at += number % size * stride;
                    number /= size;
                }
                want.push(bytes[usize_of(at)].into());
            }
            for (from, len) in [(0, n), (1, n - 1), (0, n - 1), (n / 3, 5), (n / 2, 1), (40, 500.min(n - 40))]
            {
                let mut out = vec![0xff; usize_of(len * 4)];
                unpack.fill(&read, from * 4, &mut out, &mut Panel::default()).unwrap();
                let got: Vec<f32> = out.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
                assert_eq!(got, want[usize_of(from)..usize_of(from + len)], "{dims:?} from {from}, {len}");
            }
        }
    }

    /// A box of floats, from the first one on.
    fn box_of<'p>(of: &'p Packed, dims: &[(u64, u64)]) -> Unpack<'p> {
        Unpack { of, dtype: DType::F32, start: 0, dims: dims.to_vec() }
    }

    #[test]
    fn what_would_hold_too_much_is_not_transposed_in_memory() {
        assert!(box_of(&weight(4096, 4096), &[(4096, 1), (4096, 4096)]).is_ascending());
        // More stored bytes than are held.
        assert!(!box_of(&weight(8192, 4096), &[(4096, 1), (8192, 4096)]).is_ascending());
        // Columns of two million elements.
        assert!(!box_of(&weight(2 << 20, 4), &[(4, 1), (2 << 20, 4)]).is_ascending());
        // One row of many.
        assert!(!box_of(&weight(4096, 64), &[(64, 1), (40, 100 * 64)]).is_ascending());
        // Not along rows.
        assert!(!box_of(&weight(100, 64), &[(10, 7), (64, 640)]).is_ascending());
    }

    #[test]
    fn tiles_divide_columns_evenly_where_they_can() {
        assert_eq!((tile(2880, 45, 2), tile(4096, 64, 2), tile(37, 64, 2), tile(5, 1, 4)), (40, 64, 38, 4));
    }

    #[test]
    fn threads_that_need_a_matrix_at_the_same_time_read_it_once() {
        let of = weight(210, 37);
        let unpack = box_of(&of, &[(3, 70 * 37), (37, 1), (70, 37)]);
        let n_read = std::cell::Cell::new(0);
        let read = |_: Extent, out: &mut [u8]| {
            n_read.set(n_read.get() + 1);
            out.fill(1);
            Ok(())
        };
        let panels = Arc::default();
        let mut one = Panel::among(&panels);
        let mut other = Panel::among(&panels);
        let element = |matrix: u64, panel: &mut Panel| {
            let mut out = [0; 4];
            unpack.fill(&read, matrix * 70 * 37 * 4, &mut out, panel).unwrap();
            assert_eq!(f32::from_le_bytes(out), 1.0);
            n_read.get()
        };
        assert_eq!([element(0, &mut one), element(0, &mut other), element(0, &mut one)], [1, 1, 1]);
        assert_eq!([element(1, &mut other), element(0, &mut one), element(1, &mut one)], [2, 2, 2]);
        // Nobody has the first any more.
        assert_eq!([element(0, &mut other), element(2, &mut Panel::default())], [3, 4]);
    }

    #[test]
    fn many_threads_share_what_they_hold() {
        let of = weight(4096, 4096);
        let unpack = box_of(&of, &[(4096, 1), (4096, 4096)]);
        // 16 MiB in 64 tiles: four threads hold 64 MiB.
        assert_eq!([1, 4, 8, 64, 10_000].map(|threads| unpack.together(threads)), [64, 64, 32, 4, 1]);
    }

    #[test]
    fn what_threads_hold_follows_from_how_many_share_it() {
        let of = weight(1 << 20, 4096);
        // Matrices of 16 MiB: four threads have one each; more of them share, and one more is begun while others end.
        let matrices = box_of(&of, &[(256, 4096 * 4096), (4096, 1), (4096, 4096)]);
        let held = [1, 2, 4, 8, 64].map(|threads| matrices.held_by(threads) >> 20);
        assert_eq!(held, [16, 32, 64, 80, 80]);
        // Rows that are read one by one are a thread's own.
        assert!(box_of(&of, &[(4096 << 20, 1)]).held_by(64) >> 20 <= 64);
    }

    #[test]
    fn a_scheme_s_error_is_one_where_the_weight_is_planned() {
        let of = weight(4, 6);
        let weight =
            Arc::new(PackedWeight { by: Arc::new(Bytes { is_unsure: true }), ..(*of.weight).clone() });
        let error = super::super::of(0, &weight, DType::BF16).unwrap_err();
        assert_eq!((error.message(), error.tensor_name()), ("nobody knows", Some("t")));
        assert_eq!(super::super::of(0, &of.weight, DType::BF16).unwrap().packed(), Some(&of));
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test has no crew")]
    fn threads_share_a_matrix_and_a_failed_read_is_tried_again() {
        let of = weight(70, 37);
        let unpack = box_of(&of, &[(37, 1), (70, 37)]);
        let panels = Arc::default();
        let n_read = AtomicUsize::new(0);
        let read = |_: Extent, out: &mut [u8]| {
            out.fill(3);
            match n_read.fetch_add(1, Ordering::SeqCst) {
                0 => Err(Error::plugin("the disk is away")),
                _ => Ok(()),
            }
        };
        let all = |panel: &mut Panel| {
            let mut out = vec![0; 37 * 70 * 4];
            unpack.fill(&read, 0, &mut out, panel).map(|()| out)
        };
        let mut first = Panel::among(&panels);
        assert!(all(&mut first).is_err());
        let want: Vec<u8> = (0..37 * 70).flat_map(|_| 3.0f32.to_le_bytes()).collect();
        assert!(all(&mut first).unwrap() == want);
        // As long as one thread has it, the others need not read.
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| all(&mut Panel::among(&panels)).unwrap() == want)).collect();
            assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
        });
        assert_eq!(n_read.load(Ordering::SeqCst), 2);
    }
}
