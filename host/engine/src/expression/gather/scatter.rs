//! Moves elements in memory from their order in a file to their order in a tensor.

/// Elements of a square that is moved at once: a row of F32 is a cache line.
const SQUARE: usize = 16;

/// A plane of elements, `rows` × `columns`, with distances in elements. At the destination, columns are
/// adjacent.
#[derive(Clone, Copy, Debug)]
pub struct Plane {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Distance between rows at the source.
    pub from_row: usize,
    /// Distance between columns at the source.
    pub from_column: usize,
    /// Distance between rows at the destination.
    pub to_row: usize,
}

/// Moves a plane of elements of `width` bytes from the start of `from` to the start of `to`, which must hold it.
pub fn scatter(width: usize, plane: Plane, from: &[u8], to: &mut [u8]) {
    match width {
        1 => elements::<1>(plane, from, to),
        2 => elements::<2>(plane, from, to),
        4 => elements::<4>(plane, from, to),
        8 => elements::<8>(plane, from, to),
        16 => elements::<16>(plane, from, to),
        _ => bytes(width, plane, from, to),
    }
}

fn elements<const WIDTH: usize>(plane: Plane, from: &[u8], to: &mut [u8]) {
    let (from, _) = from.as_chunks::<WIDTH>();
    let (to, _) = to.as_chunks_mut::<WIDTH>();
    let Plane { rows, columns, from_row, from_column, to_row } = plane;
    if from_column == 1 {
        for row in 0..rows {
            to[row * to_row..][..columns].copy_from_slice(&from[row * from_row..][..columns]);
        }
        return;
    }
    for top in (0..rows).step_by(SQUARE) {
        for left in (0..columns).step_by(SQUARE) {
            if from_row == 1 && top + SQUARE <= rows && left + SQUARE <= columns {
                let square: [&[[u8; WIDTH]; SQUARE]; SQUARE] =
                    std::array::from_fn(|c| &from[(left + c) * from_column + top..].as_chunks().0[0]);
                for row in 0..SQUARE {
                    let out = &mut to[(top + row) * to_row + left..][..SQUARE];
                    out.iter_mut().zip(square).for_each(|(out, column)| *out = column[row]);
                }
                continue;
            }
            for row in top..rows.min(top + SQUARE) {
                let out = &mut to[row * to_row..][left..columns.min(left + SQUARE)];
                let first = row * from_row + left * from_column;
                for (n, out) in out.iter_mut().enumerate() {
                    *out = from[first + n * from_column];
                }
            }
        }
    }
}

fn bytes(width: usize, plane: Plane, from: &[u8], to: &mut [u8]) {
    for row in 0..plane.rows {
        for column in 0..plane.columns {
            let source = (row * plane.from_row + column * plane.from_column) * width;
            let target = (row * plane.to_row + column) * width;
            to[target..target + width].copy_from_slice(&from[source..source + width]);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::cast_possible_truncation, reason = "a test's numbers are small")]

    use super::*;

    #[test]
    fn every_width_and_size_goes_where_it_should() {
        for width in [1, 2, 3, 4, 8, 16] {
            for (rows, columns) in [(1, 1), (3, 5), (16, 16), (17, 33), (40, 7)] {
                for (from_row, from_column) in [(1, rows), (columns, 1), (2, 2 * rows + 1), (0, 1), (1, 0)] {
                    let last = (rows - 1) * from_row + (columns - 1) * from_column + 1;
                    let from: Vec<u8> = (0..last * width).map(|n| (n * 31 % 251) as u8).collect();
                    let to_row = columns + 2;
                    let mut to = vec![255; rows * to_row * width];
                    scatter(width, Plane { rows, columns, from_row, from_column, to_row }, &from, &mut to);
                    for (at, element) in to.chunks_exact(width).enumerate() {
                        let row = at / to_row;
                        let column = at % to_row;
                        let source = (row * from_row + column * from_column) * width;
                        let want =
                            if column < columns { &from[source..][..width] } else { &[255; 16][..width] };
                        assert_eq!(element, want, "{width} {rows} {columns} {from_row} {from_column}");
                    }
                }
            }
        }
    }
}
